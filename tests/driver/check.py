#!/usr/bin/env python3
"""Compares the facts of a driver with those of the H200, but for the named differences.

check.py PROGRAM DRIVER      run, compare with expected.txt and differences.txt
check.py --facts FILE        the same with lines that were printed before

differences.txt has one difference a line: `fact | what the stand-in prints | reason`. The
fact may be a pattern (as of a shell), the value `*` then stands for any. A difference that
no longer is one is an error too, so the list cannot grow stale.
"""
import fnmatch
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def read_facts(lines):
    """The value of each fact; of one printed twice (by a part of the same name that then
    died) both, so that none is lost."""
    facts = {}
    for line in lines:
        name, colon, value = line.rstrip("\n").partition(": ")
        if not colon or line.startswith("#"):
            continue
        facts[name] = f"{facts[name]}, then {value}" if name in facts else value
    return facts


def read_differences(path):
    differences = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            fields = [field.strip() for field in line.split(" | ", 2)]
            if len(fields) != 3 or not all(fields):
                sys.exit(f"{path}:{number}: not `fact | value | reason`")
            differences.append((number, *fields))
    return differences


def run(program, driver):
    done = subprocess.run([program, "-d", driver], stdout=subprocess.PIPE, text=True,
                          timeout=280, check=True)
    return done.stdout.splitlines()


def allowed(fact, value, differences, used):
    """Is this value of this fact a named difference? Marks the line that names it."""
    for number, pattern, named, _ in differences:
        if fnmatch.fnmatchcase(fact, pattern) and named in ("*", value):
            used.add(number)
            return True
    return False


def compare(expected, seen, differences):
    problems, used = [], set()
    for fact in list(expected) + [fact for fact in seen if fact not in expected]:
        here, there = seen.get(fact, "nothing"), expected.get(fact, "nothing")
        if here != there and not allowed(fact, here, differences, used):
            problems.append(f"{fact}\n    here {here}\n    H200 {there}")
    for number, pattern, named, _ in differences:
        if number not in used:
            problems.append(f"differences.txt:{number}: {pattern} is no difference any more"
                            f" (or does not print {named})")
    return problems, len(used)


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    if arguments[0] == "--facts":
        with open(arguments[1], encoding="utf-8") as file:
            lines = file.readlines()
    else:
        lines = run(*arguments)
    with open(os.path.join(HERE, "expected.txt"), encoding="utf-8") as file:
        expected = read_facts(file)
    differences = read_differences(os.path.join(HERE, "differences.txt"))
    seen = read_facts(lines)
    problems, used = compare(expected, seen, differences)
    for problem in problems:
        print(problem)
    print(f"{len(expected)} facts of the H200, {len(seen)} here, {used} lines of named"
          f" differences used, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
