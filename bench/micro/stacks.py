#!/usr/bin/env python3
"""Measures what a tracker, a binary log and their call stacks of Python cost.

    TARN_DRIVER=sim bench/micro/stacks.py

Prints nanoseconds of a pair, the allocation of a DeviceBuffer and its free, on a Python stack of 80
frames: with a pool alone, and through a tracker or a logger with stacks of each depth. A pair is two
rows of the log. They are processor time of the thread, the least of all rounds. The last line calls
a function of a new stack each time.
"""

import pathlib
import tempfile
import time

import tarn

PAIRS, ROUNDS, FRAMES = 5000, 9, 80


def pairs(mr, stream):
    """Return the nanoseconds of a pair."""
    buffer = tarn.DeviceBuffer
    start = time.thread_time_ns()
    for _ in range(PAIRS):
        buffer(size=1000, mr=mr, stream=stream)
    return (time.thread_time_ns() - start) / PAIRS


def deep(frames, function, *args):
    """Call a function on a stack of so many frames."""
    return deep(frames - 1, function, *args) if frames else function(*args)


def new_functions(mr, stream):
    """Return the nanoseconds of a pair in a function that has never run before."""
    functions = []
    for number in range(PAIRS):
        names = {"make": tarn.DeviceBuffer, "mr": mr, "stream": stream}
        exec(f"def f{number}():\n    make(size=1000, mr=mr, stream=stream)", names)
        functions.append(names[f"f{number}"])
    start = time.thread_time_ns()
    for function in functions:
        function()
    return (time.thread_time_ns() - start) / PAIRS


def measure(folder):
    pool = tarn.mr.PoolMemoryResource()
    stream = tarn.Stream().register()
    subjects = {"pool": pool, "tracker, no stacks": tarn.mr.TrackingResourceAdaptor(pool)}
    for depth in (1, 4, 16, 64):
        subjects[f"tracker, depth {depth}"] = tarn.mr.TrackingResourceAdaptor(
            pool, capture_stacks=True, stack_depth=depth
        )
    for depth in (1, 16, 64):
        subjects[f"binary log, depth {depth}"] = tarn.mr.LoggingResourceAdaptor(
            pool, folder / f"{depth}.tlog", format="binary", stacks=depth
        )
    for name, mr in subjects.items():
        least = min(deep(FRAMES, pairs, mr, stream) for _ in range(ROUNDS))
        print(f"{name:24} {least:8.0f} ns")
    tracker = subjects["tracker, depth 16"]
    print(f"{'depth 16, new functions':24} {new_functions(tracker, stream):8.0f} ns")


with tempfile.TemporaryDirectory() as folder:
    measure(pathlib.Path(folder))
