#!/usr/bin/env python3
"""Add up test results: a line a suite, and at the end `N passed, N failed`.

    tools/count_results.py FILE.xml...      JUnit files, of ctest or of pytest

A C test program is one entry in ctest's file but holds many tests, so its output is read
for cmocka's lines; a program that ended early has failed in every test it did not come to.
A file that is missing, does not parse or ran nothing counts as a failure. Exit 1 if
anything failed.
"""

from __future__ import annotations

import pathlib
import re
import sys
import xml.etree.ElementTree as ET
from typing import NamedTuple


class Counts(NamedTuple):
    passed: int
    failed: int
    skipped: int


NOTHING = Counts(0, 0, 0)
ONE_FAILED = Counts(0, 1, 0)


def add(one: Counts, other: Counts) -> Counts:
    return Counts(*(a + b for a, b in zip(one, other, strict=True)))


def entry_status(case: ET.Element) -> Counts:
    """One JUnit entry as it stands."""
    if case.find("failure") is not None or case.find("error") is not None:
        return ONE_FAILED
    skipped = case.find("skipped")
    if case.get("status") == "notrun":  # ctest's word, also for a program that is not there
        asked = skipped is not None and skipped.get("message", "").startswith("SKIP_")
        return Counts(0, 0, 1) if asked else ONE_FAILED
    return Counts(1, 0, 0) if skipped is None else Counts(0, 0, 1)


def entry(case: ET.Element) -> Counts:
    """One JUnit entry, taken apart into its tests where it is a cmocka program."""
    outer = entry_status(case)
    text = case.findtext("system-out") or ""
    announced = sum(int(n) for n in re.findall(r"^\[=+\] Running (\d+) test", text, re.M))
    if not announced:
        return outer
    skipped = len(set(re.findall(r"^\[ +SKIPPED \] (\w+)$", text, re.M)))
    if not outer.failed:
        return Counts(announced - skipped, 0, skipped)
    passed = len(set(re.findall(r"^\[ +OK \] (\S+)", text, re.M)))
    # All passed and yet the program failed: a sanitizer's report at exit, a time-out.
    return Counts(passed, max(announced - passed - skipped, 1), skipped)


def suite(path: str | pathlib.Path) -> tuple[Counts, str]:
    """All of one file; what is wrong with the file as a whole is the second answer."""
    try:
        cases = list(ET.parse(path).getroot().iter("testcase"))
    except FileNotFoundError:
        return ONE_FAILED, "no results were written"
    except ET.ParseError as error:
        return ONE_FAILED, f"not readable: {error}"
    total = NOTHING
    for case in cases:
        total = add(total, entry(case))
    if total.passed + total.failed == 0:
        return add(total, ONE_FAILED), "ran no test"
    return total, ""


def line(name: str, counts: Counts, wrong: str) -> str:
    """A suite's line of the table."""
    return (f"{name:<24} {counts.passed:>6} passed {counts.failed:>4} failed"
            f" {counts.skipped:>4} skipped  {wrong}").rstrip()  # fmt: skip


def main(paths: list[str]) -> int:
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    total = NOTHING
    for path in paths:
        counts, wrong = suite(path)
        total = add(total, counts)
        print(line(pathlib.Path(path).stem, counts, wrong))
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
