#!/usr/bin/env python3
"""rmm_calls.py -- the cost of RMM's calls in Python, of tarn.rmm beside RMM itself.

    rmm_calls.py [--rounds N] [--batches N] [--json FILE] [PART...]

Microseconds for one round of each operation: the median of the batches. The batches of the two
libraries take turns, so that both see the same machine. `ratio` is Tarn's time over RMM's. PART
selects the operations with that text in their names. RMM needs the CUDA runtime, so there are no
figures of it on the simulator.

The pools have 256 MiB. A pair is an allocation and its free; `buffer` is a DeviceBuffer and its
end. `statistics` and the names after it are the same pair under that adaptor.
"""

import argparse
import importlib
import json
import pickle
import statistics
import sys
import tempfile
import time

KIB, MIB = 1 << 10, 1 << 20
POOL = 256 * MIB
LOGS = tempfile.TemporaryDirectory()


def new_pool(rmm):
    """Return a pool that preallocates its memory, over cudaMalloc."""
    return rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), POOL, POOL)


def arena(rmm):
    """Return an arena over cudaMalloc."""
    return rmm.mr.ArenaMemoryResource(rmm.mr.CudaMemoryResource(), POOL)


def fixed_size(rmm):
    """Return a resource of blocks of 1 MiB."""
    return rmm.mr.FixedSizeMemoryResource(rmm.mr.CudaMemoryResource(), MIB, 128)


def binning(rmm):
    """Return bins of 64 to 256 KiB over a pool; RMM's have all their blocks at once, 56 MiB."""
    return rmm.mr.BinningMemoryResource(new_pool(rmm), 16, 18)


def tracking(stacks):
    """Return a function that makes a tracking adaptor, with or without call stacks."""
    return lambda rmm: rmm.mr.TrackingResourceAdaptor(new_pool(rmm), stacks)


def limiting(rmm):
    """Return a limiting adaptor over a pool."""
    return rmm.mr.LimitingResourceAdaptor(new_pool(rmm), POOL)


def logging(rmm):
    """Return a logging adaptor over a pool, with a file that the end of the process removes."""
    return rmm.mr.LoggingResourceAdaptor(new_pool(rmm), f"{LOGS.name}/{rmm.__name__}.csv")


def failure_callback(rmm):
    """Return an adaptor with a callback that gives up, over a pool."""
    return rmm.mr.FailureCallbackResourceAdaptor(new_pool(rmm), lambda size: False)


def pair(make, size):
    """Return an operation: an allocation and its free."""

    def operation(rmm):
        mr = make(rmm)
        return lambda: mr.deallocate(mr.allocate(size), size)

    return operation


def buffer(size, make=new_pool):
    """Return an operation: a DeviceBuffer of a resource, and its end."""

    def operation(rmm):
        mr = make(rmm)
        return lambda: rmm.DeviceBuffer(size=size, mr=mr)

    return operation


def buffer_on_stream(size):
    """Return an operation: a DeviceBuffer on a stream of its own, and its end."""

    def operation(rmm):
        mr = new_pool(rmm)
        stream = importlib.import_module(f"{rmm.__name__}.pylibrmm.stream").Stream()
        return lambda: rmm.DeviceBuffer(size=size, stream=stream, mr=mr)

    return operation


def current_buffer(size):
    """Return an operation: a DeviceBuffer of the current resource, a pool."""

    def operation(rmm):
        rmm.mr.set_current_device_resource(new_pool(rmm))
        return lambda: rmm.DeviceBuffer(size=size)

    return operation


def from_host(size):
    """Return an operation: a DeviceBuffer of the bytes of the host, in a pool."""

    def operation(rmm):
        rmm.mr.set_current_device_resource(new_pool(rmm))
        data = bytes(size)
        return lambda: rmm.DeviceBuffer.to_device(data)

    return operation


def of_buffer(size, call):
    """Return an operation: call(buffer) on a DeviceBuffer of the current resource, a pool."""

    def operation(rmm):
        rmm.mr.set_current_device_resource(new_pool(rmm))
        one = rmm.DeviceBuffer.to_device(bytes(size))
        return lambda: call(one)

    return operation


def resized(rmm):
    """Return an operation: a DeviceBuffer that grows from 1 to 2 MiB."""
    mr = new_pool(rmm)

    def operation():
        rmm.DeviceBuffer(size=MIB, mr=mr).resize(2 * MIB)

    return operation


def profiled(rmm):
    """Return an operation: a buffer within a profiled block."""
    statistics_of = importlib.import_module(f"{rmm.__name__}.statistics")
    rmm.mr.set_current_device_resource(new_pool(rmm))
    statistics_of.enable_statistics()
    records = statistics_of.ProfilerRecords()

    def operation():
        with statistics_of.profiler(records=records, name="block"):
            rmm.DeviceBuffer(size=MIB)

    return operation


def stream(rmm):
    """Return an operation: a stream and its end."""
    made = importlib.import_module(f"{rmm.__name__}.pylibrmm.stream").Stream
    return lambda: made()


def set_current(rmm):
    """Return an operation: the current resource set and returned."""
    mr = new_pool(rmm)

    def operation():
        rmm.mr.set_current_device_resource(mr)
        rmm.mr.get_current_device_resource()

    return operation


def over_pool(name):
    """Return a function that makes an adaptor of that name over a pool."""
    return lambda rmm: getattr(rmm.mr, name)(new_pool(rmm))


# The name of each operation, the share of the rounds that it has, and the operation.
OPERATIONS = {
    "buffer 1 MiB": (1, buffer(MIB)),
    "buffer 1 MiB, current": (1, current_buffer(MIB)),
    "buffer 256 B": (1, buffer(256)),
    "buffer 1 MiB, stream": (1, buffer_on_stream(MIB)),
    "pool pair 1 MiB": (1, pair(new_pool, MIB)),
    "pool pair 1000 B": (1, pair(new_pool, 1000)),
    "to_device 1 KiB": (0.05, from_host(KIB)),
    "to_device 1 MiB": (0.01, from_host(MIB)),
    "tobytes 1 KiB": (0.05, of_buffer(KIB, lambda one: one.tobytes())),
    "tobytes 1 MiB": (0.01, of_buffer(MIB, lambda one: one.tobytes())),
    "copy 1 MiB": (0.05, of_buffer(MIB, lambda one: one.copy())),
    "pickle 1 MiB": (0.01, of_buffer(MIB, lambda one: pickle.loads(pickle.dumps(one)))),
    "resize 1 to 2 MiB": (0.05, resized),
    "statistics": (1, pair(over_pool("StatisticsResourceAdaptor"), MIB)),
    "statistics, buffer": (1, buffer(MIB, over_pool("StatisticsResourceAdaptor"))),
    "profiler, buffer": (0.1, profiled),
    "limiting": (1, pair(limiting, MIB)),
    "tracking": (0.5, pair(tracking(False), MIB)),
    "tracking, stacks": (0.05, pair(tracking(True), MIB)),
    "logging": (0.2, pair(logging, MIB)),
    "failure callback": (1, pair(failure_callback, MIB)),
    "arena": (1, pair(arena, MIB)),
    "fixed size": (1, pair(fixed_size, MIB)),
    "binning, 64 KiB": (1, pair(binning, 64 * KIB)),
    "cuda 1 MiB": (0.01, pair(lambda rmm: rmm.mr.CudaMemoryResource(), MIB)),
    "async 1 MiB": (0.2, pair(lambda rmm: rmm.mr.CudaAsyncMemoryResource(), MIB)),
    "managed 1 MiB": (0.01, pair(lambda rmm: rmm.mr.ManagedMemoryResource(), MIB)),
    "pinned 1 MiB": (0.01, pair(lambda rmm: rmm.mr.PinnedHostMemoryResource(), MIB)),
    "pool create": (0.002, lambda rmm: lambda: new_pool(rmm)),
    "async create": (0.002, lambda rmm: lambda: rmm.mr.CudaAsyncMemoryResource()),
    "stream create": (0.02, stream),
    "set, get current": (1, set_current),
}


def libraries():
    """Return the libraries to compare by name."""
    import tarn
    import tarn.rmm

    if tarn.driver_info().is_simulator:
        return {"tarn.rmm": tarn.rmm}
    import rmm
    import rmm.pylibrmm.stream
    import rmm.statistics

    return {"rmm": rmm, "tarn.rmm": tarn.rmm}


def batch_us(call, rounds):
    """Return the mean microseconds of a call in one batch."""
    start = time.perf_counter_ns()
    for _ in range(rounds):
        call()
    return (time.perf_counter_ns() - start) / rounds / 1000


def compare(operation, compared, rounds, batches):
    """Return the medians of an operation by library, in microseconds."""
    calls = {name: operation(rmm) for name, rmm in compared.items()}
    found = {name: [] for name in compared}
    for call in calls.values():
        batch_us(call, max(rounds // 10, 1))
    for _ in range(batches):
        for name, call in calls.items():
            found[name].append(batch_us(call, rounds))
    calls.clear()
    for rmm in compared.values():
        rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())
    return {name: statistics.median(means) for name, means in found.items()}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5000, help="rounds in a batch")
    parser.add_argument("--batches", type=int, default=9)
    parser.add_argument("--json", help="append one JSON line for each figure to this file")
    parser.add_argument("part", nargs="*", help="operations with this text in their names")
    return parser.parse_args()


def main():
    options = arguments()
    compared = libraries()
    slower = []
    print(f"{'us':24}" + "".join(f"{name:>12}" for name in compared) + f"{'ratio':>8}")
    for title, (share, operation) in OPERATIONS.items():
        if options.part and not any(part in title for part in options.part):
            continue
        rounds = max(round(options.rounds * share), 1)
        found = compare(operation, compared, rounds, options.batches)
        line = f"{title:24}" + "".join(f"{value:12.3f}" for value in found.values())
        ratio = found["tarn.rmm"] / found["rmm"] if "rmm" in found else 0
        print(line + (f"{ratio:8.2f}" if ratio else ""), flush=True)
        if ratio > 1:
            slower.append(title)
        if options.json:
            with open(options.json, "a") as file:
                print(json.dumps({"operation": title, **found}), file=file)
    if len(compared) > 1:
        print(f"slower than RMM: {', '.join(slower) or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
