#!/usr/bin/env python3
"""numba_nrt.py -- the cost of counted memory in compiled code: Numba's runtime and Tarn's.

    python bench/micro/numba_nrt.py [--rounds N]

Each runtime has processes of its own, which take turns. In a process the best of many runs of half
a millisecond counts, which excludes other load on the machine. The output is the median of the
rounds, in ns per iteration of the loop or per call. Needs Numba and an installed Tarn.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

CORES = {
    "numba": {},
    "numba, statistics on": {"NUMBA_NRT_STATS": "1"},
    "tarn": {"TARN_NRT": "1"},
}


def empties(size):
    """Return a jitted loop over arrays of a size that is known when it is compiled."""
    import numpy as np
    from numba import njit

    @njit
    def loop(count):
        total = 0
        for _ in range(count):
            total += np.empty(size).size
        return total

    return loop


def calls(function, *arguments):
    """Return a Python loop over a jitted function."""
    from numba import njit

    compiled = njit(function)

    def loop(count):
        for _ in range(count):
            compiled(*arguments)

    return loop


def append(count):
    items = [0.5]
    for i in range(count):
        items.append(i)
    return len(items)


def text(count):
    total = 0
    for i in range(count):
        total += len("ab" + "cd"[i & 1])
    return total


def cases():
    """Return the measured functions, and the iterations of a run."""
    import numpy as np
    from numba import njit

    return {
        "np.empty(8) in a loop": (empties(8), 20_000),
        "np.empty(1000) in a loop": (empties(1000), 5_000),
        "np.empty(100000) in a loop": (empties(100000), 5_000),
        "list.append in a loop": (njit(append), 20_000),
        "str + str in a loop": (njit(text), 10_000),
        "call with an array": (calls(lambda a: 0, np.zeros(8)), 3_000),
        "call with a number": (calls(lambda a: 0, 1.0), 3_000),
        "call that returns an array": (calls(lambda: np.empty(8)), 1_000),
    }


def measure():
    """Measure in a process that has its runtime: prints `name ns` lines."""
    for name, (function, turns) in cases().items():
        function(10)
        best = min(timed(function, turns) for _ in range(400))
        print(f"{name}\t{best / turns * 1e9:.2f}")


def timed(function, count):
    began = time.perf_counter()
    function(count)
    return time.perf_counter() - began


def run(settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TARN_", "NUMBA_"))}
    done = subprocess.run(
        [sys.executable, __file__, "--measure"], env={**env, **settings},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"with {settings}: exit {done.returncode} after {done.stdout!r}")
    return {name: float(ns) for name, ns in (x.split("\t") for x in done.stdout.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.measure:
        return measure()
    rounds = [{core: run(env) for core, env in CORES.items()} for _ in range(arguments.rounds)]
    print(f"{'ns':28}" + "".join(f"{core:>22}" for core in CORES) + f"{'numba : tarn':>16}")
    for name in rounds[0]["tarn"]:
        medians = [statistics.median(each[core][name] for each in rounds) for core in CORES]
        print(f"{name:28}" + "".join(f"{ns:22.2f}" for ns in medians)
              + f"{medians[0] / medians[2]:16.2f}")  # fmt: skip
    return None


if __name__ == "__main__":
    main()
