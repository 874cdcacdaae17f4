#!/usr/bin/env python3
"""guard_python.py -- the cost of guard mode for the allocations of Python's libraries.

    guard_python.py [--rounds 5] [--pairs 40000] [--debug guard=1/1000 ...]

A pair is an allocation of 1,024 bytes and its free, from one pool of Tarn: a DeviceBuffer, an array
of Numba and one of CuPy, and a tensor of PyTorch, if they are installed. Each library and each option
of guard mode has a process of its own in each round. The process measures pairs without guard mode,
then it enables guard mode and measures again. The table has medians of the rounds: CPU time of the
thread in ns, and the ratio of the two.
"""

import argparse
import collections
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import turns
from batches import BATCHES, median_ns

SIZE = 1024
LONGEST = 120  # seconds of a process


def tarn_pair():
    import tarn

    return lambda: tarn.DeviceBuffer(size=SIZE)


def numba_pair():
    from numba import cuda

    return lambda: cuda.device_array(SIZE, dtype="u1")


def cupy_pair():
    import cupy

    return lambda: cupy.empty(SIZE, "u1")


def torch_pair():
    import torch

    return lambda: torch.empty(SIZE, dtype=torch.uint8, device="cuda")


PAIRS = {"Tarn": tarn_pair, "Numba": numba_pair, "CuPy": cupy_pair, "PyTorch": torch_pair}


def measure(library, debug, pairs):
    """Measure a library without guard mode, then with it; print both figures as JSON."""
    import tarn

    pool = tarn.mr.PoolMemoryResource()
    tarn.mr.set_current_device_resource(pool)
    tarn.use(pool)
    call, batch, clock = PAIRS[library](), pairs // BATCHES, time.thread_time_ns
    median_ns(call, batch)  # warms up
    off = median_ns(call, batch, clock)
    tarn.guard.enable(debug)
    median_ns(call, batch)
    print(json.dumps([off, median_ns(call, batch, clock), tarn.guard.counts().guarded]))


def run(library, debug, pairs):
    """Measure in a process of its own; None if the library is not installed."""
    command = [__file__, "--one", library, debug, "--pairs", str(pairs)]
    settings = {name: value for name, value in os.environ.items() if name != "TARN_POOL_DEBUG"}
    return turns.run_process(f"{library} {debug}", command, settings, LONGEST)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=40_000)
    parser.add_argument("--debug", nargs="+", default=["guard=1/10000", "guard=1/1000"])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        measure(*given.one, given.pairs)
        return 0
    runs = collections.defaultdict(list)
    for _ in range(given.rounds):
        for library in PAIRS:
            for debug in given.debug:
                found = run(library, debug, given.pairs)
                if found is None:
                    break
                runs[library, debug].append(found)
    print("| pair | off, ns |" + "".join(f" {debug}: ratio, samples |" for debug in given.debug))
    print("|---|---|" + "---|" * len(given.debug))
    for library in PAIRS:
        cells = []
        for debug in given.debug:
            found = runs[library, debug]
            if found:
                ratio = statistics.median(on / off for off, on, _ in found)
                cells.append(f"{ratio:.3f}, {found[-1][2]}")
        if cells:
            off = statistics.median(
                off for debug in given.debug for off, *_ in runs[library, debug]
            )
            print(f"| {library} | {off:.0f} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
