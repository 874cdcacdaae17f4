#!/usr/bin/env python3
"""Compares the facts of a driver with those of the H200, except for the listed differences.

check.py PROGRAM DRIVER      run, compare with expected.txt and differences.txt
check.py --facts FILE        with lines that a GPU printed, without any difference

differences.txt has one difference per line: `fact | output of the simulator | reason`. unasked.txt
lists, in the same form, facts that were written since the last run on a GPU. expected.txt has no
answer for them yet. An obsolete line of either file is an error, so the lists stay current. The
script prints a GPU's answers to unasked facts.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def read_facts(lines):
    """Returns the value of each fact. A fact that was printed twice (by a part of the same name
    that then died) keeps both values."""
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
    done = subprocess.run(
        [program, "-d", driver], stdout=subprocess.PIPE, text=True, timeout=280, check=True
    )
    return done.stdout.splitlines()


def compare(expected, seen, differences):
    """Returns the differences that are not listed, and the listed ones that do not exist."""
    problems, used = [], set()
    named = {(fact, value): number for number, fact, value, _ in differences}
    for fact in list(expected) + [fact for fact in seen if fact not in expected]:
        here, there = seen.get(fact, "nothing"), expected.get(fact, "nothing")
        if here != there and (fact, here) in named:
            used.add(named[fact, here])
        elif here != there:
            problems.append(f"{fact}\n    here {here}\n    H200 {there}")
    for number, fact, value, _ in differences:
        if number not in used:
            problems.append(
                f"differences.txt:{number}: {fact} is no difference any more"
                f" (or does not print {value})"
            )
    return problems


def without_unasked(expected, seen, unasked, is_gpu):
    """Removes the facts that wait for a GPU from `seen`, and returns the errors among them."""
    problems = []
    for number, fact, value, _ in unasked:
        here = seen.pop(fact, "nothing")
        if is_gpu:
            print(f"answered: {fact}: {here}")
        elif fact in expected:
            problems.append(f"unasked.txt:{number}: {fact} is in expected.txt")
        elif here != value:
            problems.append(f"unasked.txt:{number}: {fact} prints {here}")
    return problems


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
    is_gpu = arguments[0] == "--facts"
    differences = [] if is_gpu else read_differences(os.path.join(HERE, "differences.txt"))
    unasked = read_differences(os.path.join(HERE, "unasked.txt"))
    seen = read_facts(lines)
    problems = without_unasked(expected, seen, unasked, is_gpu)
    if is_gpu and "peer.can_access" not in seen:
        print("one device: nothing of its peers")
        expected = {
            fact: value
            for fact, value in expected.items()
            if not fact.startswith("peer.") or fact.startswith("peer.itself")
        }
    problems += compare(expected, seen, differences)
    for problem in problems:
        print(problem)
    print(
        f"{len(expected)} facts of the H200, {len(seen)} here, {len(differences)} named"
        f" differences, {len(unasked)} facts not asked yet, {len(problems)} problems"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
