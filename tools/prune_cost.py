#!/usr/bin/env python3
"""prune_cost.py -- what a user of Numba pays for Tarn's pruner when functions are compiled.

    prune_cost.py [--rounds N] TESTS...     e.g. numba.tests.test_listobject

Runs Numba's tests, most of whose time goes into compiling, in processes of their own, by
turns with llvmlite's pass and with Tarn's in both modes. Prints the processor's time of the
best round, and how much of it was spent between Numba's module and the pruned one: writing
bitcode, pruning, reading it again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

PROGRAM = """
import io, json, sys, time, unittest
import numba

mode, *names = sys.argv[1:]
trips = [0, 0.0]
if mode != "stock":
    import tarn.prune
    from tarn.prune import _numba
    tarn.prune.install(mode)
    pruned = _numba._pruned

    def timed(module):
        started = time.thread_time()
        try:
            return pruned(module)
        finally:
            trips[0] += 1
            trips[1] += time.thread_time() - started

    _numba._pruned = timed

suite = unittest.defaultTestLoader.loadTestsFromNames(names)
started = time.process_time()
result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
print(json.dumps({"all": time.process_time() - started, "trips": trips[0], "trip": trips[1],
                  "tests": result.testsRun, "good": result.wasSuccessful()}))
"""


def run(mode: str, names: list[str]) -> dict[str, float]:
    command = [sys.executable, "-c", PROGRAM, mode, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("tests", nargs="+")
    arguments = parser.parse_args()
    best: dict[str, dict[str, float]] = {}
    for _ in range(arguments.rounds):
        for mode in ("stock", "sound", "llvmlite"):
            row = run(mode, arguments.tests)
            if mode not in best or row["all"] < best[mode]["all"]:
                best[mode] = row
    for mode, row in best.items():
        print(
            f"{mode:9} {row['tests']} tests, {'ok' if row['good'] else 'FAILED'}, "
            f"{row['all']:.2f} s, of it {row['trip']:.2f} s in {row['trips']} trips"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
