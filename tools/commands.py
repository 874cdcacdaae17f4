#!/usr/bin/env python3
"""commands.py -- writes docs/reference/commands.md, the help of each verb of the command `tarn`.

commands.py TARN            write the page; TARN is the path of the command
commands.py TARN --check    exit code 1 if the page differs from the help
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/reference/commands.md"


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


def page(tarn: str) -> str:
    """Return the text of the page."""
    text = help_of(tarn)
    parts = ["# The command `tarn`\n", "This page has the help of each verb. `tarn VERB --help` prints it.\n",
             f"## Usage\n\n```text\n{text}\n```\n"]  # fmt: skip
    for verb in verbs(text):
        parts.append(f"## tarn {verb}\n\n```text\n{help_of(tarn, verb)}\n```\n")
    return "\n".join(parts)


def main() -> int:
    tarn, check = sys.argv[1], sys.argv[2:] == ["--check"]
    wanted = page(tarn)
    if not check:
        PAGE.write_text(wanted)
    elif not PAGE.exists() or PAGE.read_text() != wanted:
        print("docs/reference/commands.md differs from the help: run tools/commands.py TARN")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
