"""page.py -- puts data blocks into a page as the command does, with its script and its style."""

from __future__ import annotations

import base64
import hashlib
import html
import pathlib

from block import Block, encode_text

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "cli" / "report"
PANELS = [
    "findings",
    "timeline",
    "flame",
    "failures",
    "map",
    "plan",
    "sites",
    "compare",
    "processes",
    "quality",
]


def script() -> str:
    """The script of the page: its files in the order that the build uses."""
    names = (SOURCE / "page" / "order.txt").read_text().split()
    return "\n".join((SOURCE / "page" / name).read_text() for name in names)


def style() -> str:
    return (SOURCE / "page.css").read_text()


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page(blocks: list[Block | str], compare: bool = False) -> str:
    """A page of these blocks; a text stands for an encoded block."""
    code, css = script(), style()
    policy = (
        f"default-src 'none'; script-src '{digest(code)}'; style-src '{digest(css)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    sections = "".join(
        f'<section id="tarn-{name}"><h2>{name.capitalize()}</h2>{static(name, blocks[0])}</section>'
        for name in PANELS
    )
    texts = [block if isinstance(block, str) else encode_text(block) for block in blocks]
    data = "".join(
        f'<script type="text/plain" id="tarn-data-{index}">{text}</script>'
        for index, text in enumerate(texts)
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>tarn report</title><style>{css}</style></head><body>"
        '<header id="tarn-head"><h1>tarn report</h1><p>static head</p></header>'
        f'<main id="tarn-report">{sections}</main>'
        f'<script type="text/plain" id="tarn-page">blocks={len(blocks)}\n'
        f"compare={int(compare)}\ntarn=0.2.0\n</script>{data}"
        f"<script>{code}</script></body></html>"
    )


def static(name: str, block: Block | str) -> str:
    """What the command writes for readers without a script: here only the table of sites."""
    if name != "sites" or isinstance(block, str):
        return ""
    rows = "".join(
        f'<tr><td class="s">{html.escape(repr(block.frames[site.frame].file))}</td>'
        f'<td class="n" data-bytes="{site.peak}">{site.peak}</td></tr>'
        for site in block.sites[:200]
        if site.frame < len(block.frames)
    )
    return f'<table class="plain"><tbody>{rows}</tbody></table>'
