#!/usr/bin/env python3
"""prune_cost.py -- what a user of Numba pays for Tarn's pruner when functions are compiled.

    prune_cost.py [--rounds N] TESTS...     e.g. numba.tests.test_listobject

Runs Numba's tests in processes of their own, by turns with llvmlite's pass and with Tarn's
in both modes, and prints how long Numba compiled (the best round), and how much of that was
spent between Numba's module and the pruned one: writing bitcode, pruning, reading it again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

PROGRAM = """
import io, json, sys, time, unittest
from numba.core import event

mode, *names = sys.argv[1:]
trips = [0, 0.0]
if mode != "stock":
    import tarn.prune
    from tarn.prune import _numba
    tarn.prune.install(mode)
    pruned = _numba._pruned

    def timed(module):
        started = time.perf_counter()
        try:
            return pruned(module)
        finally:
            trips[0] += 1
            trips[1] += time.perf_counter() - started

    _numba._pruned = timed

compiled = []
suite = unittest.defaultTestLoader.loadTestsFromNames(names)
with event.install_timer("numba:compiler_lock", compiled.append):
    result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
print(json.dumps({"compile": sum(compiled), "trips": trips[0], "trip": trips[1],
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
            if mode not in best or row["compile"] < best[mode]["compile"]:
                best[mode] = row
    for mode, row in best.items():
        print(
            f"{mode:9} {row['tests']} tests, {'ok' if row['good'] else 'FAILED'}, compiling "
            f"{row['compile']:.2f} s, of it {row['trip']:.2f} s in {row['trips']} trips"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
