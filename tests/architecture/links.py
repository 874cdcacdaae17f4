"""The links of Markdown pages, and the anchors that GitHub makes of headings."""

import re
from collections.abc import Iterator
from pathlib import Path

CODE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.MULTILINE)
NAMED = re.compile(r"<a\s+(?:name|id)=\"([^\"]+)\"")


def links(text: str) -> list[str]:
    """Return the targets of the links of a page, without those in code."""
    prose = re.sub(r"`[^`]*`", "", CODE.sub("", text))
    return LINK.findall(prose)


def anchor_of(heading: str) -> str:
    """Return a heading's anchor: lower case, hyphens for spaces, and otherwise only letters,
    digits, hyphens and underscores."""
    words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return the anchors of a page; the second heading of one name has -1 at its end."""
    prose = CODE.sub("", text)
    found = set(NAMED.findall(prose))
    seen: dict[str, int] = {}
    for heading in HEADING.findall(prose):
        anchor = anchor_of(heading)
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(f"{anchor}-{count}" if count else anchor)
    return found


def broken(page: Path) -> Iterator[str]:
    """Return the links of a page to missing files and headings."""
    for link in links(page.read_text()):
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue  # on another machine
        target = page.parent / path if path else page
        if not target.exists():
            yield f"{page.name}: {link}: no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            yield f"{page.name}: {link}: no such heading"
