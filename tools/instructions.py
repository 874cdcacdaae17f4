#!/usr/bin/env python3
"""How many instructions do the pool's paths take, and are they more than they were?

    instructions.py BENCH_POOL_COUNTS BOUNDS [--write]

Runs each path of the program under valgrind's callgrind and compares with the file of
bounds: more than a tenth over a bound fails. --write makes the file what is now so. Counts
of another compiler than the file names may differ, so there half as much again is allowed.
"""

import re
import subprocess
import sys
import tempfile

ROUNDS = 1000  # of the program
SLACK, SLACK_ELSEWHERE = 1.10, 1.50


def compiler():
    """The compiler's name and version."""
    return subprocess.run(
        ["cc", "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]


def count(program, path):
    """Instructions for one round of a path."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                "--toggle-collect=bench_measured",
                f"--callgrind-out-file={folder}/out",
                program,
                path,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"{path}: {done.stderr[-2000:]}")
    return round(int(found[1]) / ROUNDS)


def read(bounds):
    """(compiler, {path: count}) of the file."""
    with open(bounds, encoding="utf-8") as file:
        lines = file.read().splitlines()
    made_by = next(line.split(": ", 1)[1] for line in lines if line.startswith("# by: "))
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return made_by, {name: int(number) for name, number in rows}


def main(arguments):
    program, bounds, *options = arguments
    paths = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    counts = {path: count(program, path) for path in paths}
    if options == ["--write"]:
        with open(bounds, "w", encoding="utf-8") as file:
            file.write(
                "# Instructions of one round of each path of bench-pool_counts, "
                "release build.\n# tools/instructions.py --write\n"
                f"# by: {compiler()}\n"
            )
            file.writelines(f"{path} {number}\n" for path, number in counts.items())
        return 0
    made_by, known = read(bounds)
    slack = SLACK if made_by == compiler() else SLACK_ELSEWHERE
    good = set(known) == set(counts)
    if not good:
        print("the paths of the program are not those of the file")
    for path, number in counts.items():
        most = int(known.get(path, 0) * slack)
        verdict = "" if number <= most else "   TOO MANY"
        good = good and number <= most
        print(f"{path:32} {number:8}  at most {most}{verdict}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
