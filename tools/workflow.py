#!/usr/bin/env python3
"""Write .github/workflows/check.yml, the public CI, from the table of steps.

    tools/workflow.py            write it
    tools/workflow.py --check    exit 1 if the file says something else

A step names the jobs that run it. Every job starts from an empty Debian 12.
"""

from __future__ import annotations

import pathlib
import sys

import steps

FILE = pathlib.Path(__file__).resolve().parents[1] / ".github/workflows/check.yml"
SPARE = 3  # a hosted machine is slower, and installs everything first

HEAD = """# Made by tools/workflow.py from tools/steps.py; tests/architecture compares the two.
name: check
on: [push, pull_request]
permissions:
  contents: read
jobs:
"""

JOB = """  {name}:
    runs-on: ubuntu-latest
    container: debian:12
    timeout-minutes: {minutes}
    steps:
      - run: apt-get -q update && apt-get -q -y install --no-install-recommends ca-certificates git python3
      - uses: actions/checkout@v4
        with:
          fetch-depth: 2
      - run: git config --global --add safe.directory "$PWD"
      - run: ./check {steps}
      - uses: actions/upload-artifact@v4
        if: ${{{{ !cancelled() }}}}
        with:
          name: {name}
          path: {results}
"""

RESULTS = {"python": "|\n            build/check\n            build/wheel/*.whl"}


def text() -> str:
    """The whole file."""
    names = list(dict.fromkeys(name for step in steps.STEPS for name in step.jobs))
    parts = [HEAD]
    for name in names:
        of_job = [step for step in steps.STEPS if name in step.jobs]
        parts.append(
            JOB.format(
                name=name,
                minutes=10 + SPARE * sum(step.wall for step in of_job) // 60,
                steps=" ".join(step.name for step in of_job),
                results=RESULTS.get(name, "build/check"),
            )
        )
    return "".join(parts)


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        return 0 if FILE.exists() and FILE.read_text() == text() else 1
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
