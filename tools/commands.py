#!/usr/bin/env python3
"""commands.py -- writes the help of each verb of the command `tarn` as a page and as a man page.

commands.py TARN            write docs/reference/commands.md and docs/reference/tarn.1; TARN is the
                            path of the command
commands.py TARN --check    exit code 1 if one of them differs from the help
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

ESCAPES = str.maketrans({"\\": "\\e", "-": "\\-", "`": "\\(ga", "'": "\\(aq"})  # for man(7)
REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "docs/reference"


def help_of(*command: str) -> str:
    """Return the help that a command prints."""
    done = subprocess.run(
        [*command, "--help"], env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return done.stdout.rstrip("\n")


def verbs(text: str) -> list[str]:
    """Return the verbs that the help of `tarn` lists, without `help`."""
    found = re.findall(r"^  ([a-z]+)(?:  .*)?$", text, re.MULTILINE)
    return sorted(set(found) - {"help"})


def page(sections: dict[str, str]) -> str:
    """Return the text of the page in Markdown."""
    parts = [
        "# The command `tarn`\n",
        "This page has the help of each verb. `tarn VERB --help` prints it.\n",
    ]
    parts += [f"## {title}\n\n```text\n{text}\n```\n" for title, text in sections.items()]
    return "\n".join(parts)


def man_page(sections: dict[str, str]) -> str:
    """Return the text of the man page, for man(7)."""
    lines = [
        '.TH TARN 1 "" Tarn "User Commands"',
        ".SH NAME",
        "tarn \\- GPU memory: run, log, report, replay",
    ]
    for title, text in sections.items():
        lines += [f'.SH "{title.upper()}"', ".nf"]
        for line in text.translate(ESCAPES).splitlines():
            lines.append(f"\\&{line}" if line.startswith(".") else line)
        lines.append(".fi")
    return "\n".join(lines) + "\n"


def main() -> int:
    tarn, check = sys.argv[1], sys.argv[2:] == ["--check"]
    text = help_of(tarn)
    sections = {"Usage": text, **{f"tarn {verb}": help_of(tarn, verb) for verb in verbs(text)}}
    wrong = 0
    for name, wanted in ("commands.md", page(sections)), ("tarn.1", man_page(sections)):
        path = REFERENCE / name
        if not check:
            path.write_text(wanted)
        elif not path.exists() or path.read_text() != wanted:
            print(f"docs/reference/{name} differs from the help: run tools/commands.py TARN")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
