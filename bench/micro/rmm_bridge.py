#!/usr/bin/env python3
"""rmm_bridge.py -- the cost of an allocation and its free through tarn.mr.to_rmm().

    rmm_bridge.py [--pairs N] [--json FILE]

    tarn             a pool of Tarn, called directly
    to_rmm callback  the pool behind rmm.mr.CallbackMemoryResource
    to_rmm compiled  the pool behind the extension
    rmm pool         RMM's own pool over cudaMalloc; on the simulator over Tarn's `cuda`, since RMM's
                     resources need the CUDA runtime

Nanoseconds for a pair, the median of 21 batches. `allocate`: allocate() and deallocate() of the
resource. `DeviceBuffer`: an rmm.DeviceBuffer (tarn: a tarn.DeviceBuffer) and its end. `4 threads`:
the wall time of that for each pair of all, on four threads with a stream each.
"""

import argparse
import json
import statistics
import threading
import time

import rmm
import tarn
from rmm.pylibrmm import stream as rmm_stream

BATCHES = 21
SIZES = (1000, 1 << 20)


def median_ns(call, pairs):
    """Return the median over batches of the mean of a call."""
    call()
    means = []
    for _ in range(BATCHES):
        start = time.perf_counter_ns()
        for _ in range(pairs):
            call()
        means.append((time.perf_counter_ns() - start) / pairs)
    return statistics.median(means)


def threads_ns(make, pairs):
    """Return the wall time of a pair on four threads; make() returns a thread's own call."""
    calls = [make() for _ in range(4)]
    for call in calls:
        call()

    def work(call):
        for _ in range(pairs):
            call()

    means = []
    for _ in range(5):
        threads = [threading.Thread(target=work, args=(call,)) for call in calls]
        start = time.perf_counter_ns()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        means.append((time.perf_counter_ns() - start) / (len(calls) * pairs))
    return statistics.median(means)


def rmm_pool():
    """Return a pool of RMM with memory for all sizes."""
    if tarn.driver_info().is_simulator:
        upstream = tarn.mr.to_rmm(tarn.mr.CudaMemoryResource())
    else:
        upstream = rmm.mr.CudaMemoryResource()
    return rmm.mr.PoolMemoryResource(upstream, 256 << 20)


def cases():
    """Yield the name of each case, its resource and the class of its buffers."""
    yield "tarn", tarn.mr.PoolMemoryResource(), tarn.DeviceBuffer
    for compiled, name in ((False, "to_rmm callback"), (True, "to_rmm compiled")):
        pool = tarn.mr.PoolMemoryResource()
        yield name, tarn.mr.to_rmm(pool, compiled=compiled), rmm.DeviceBuffer
    yield "rmm pool", rmm_pool(), rmm.DeviceBuffer


def measure(mr, buffer, size, pairs):
    """Return the figures of a resource for a size, by column."""

    def pair():
        mr.deallocate(mr.allocate(size), size)

    def on_own_stream():
        own = tarn.Stream(flags=tarn.CudaStreamFlags.NON_BLOCKING)
        stream = own if buffer is tarn.DeviceBuffer else rmm_stream.Stream(own)
        return lambda: buffer(size=size, stream=stream, mr=mr)

    return {
        "allocate": median_ns(pair, pairs),
        "DeviceBuffer": median_ns(lambda: buffer(size=size, mr=mr), pairs),
        "4 threads": threads_ns(on_own_stream, pairs),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20000, help="pairs in a batch")
    parser.add_argument("--json", help="append one JSON line for each figure to this file")
    arguments = parser.parse_args()
    driver = "simulator" if tarn.driver_info().is_simulator else "driver"
    print(f"RMM {rmm.__version__}, Tarn {tarn.__version__}, {driver}; ns for a pair\n")
    print(f"{'':16}{'bytes':>9}{'allocate':>12}{'DeviceBuffer':>14}{'4 threads':>11}")
    for name, mr, buffer in cases():
        for size in SIZES:
            found = measure(mr, buffer, size, arguments.pairs)
            print(
                f"{name:16}{size:9}{found['allocate']:12.0f}{found['DeviceBuffer']:14.0f}"
                f"{found['4 threads']:11.0f}"
            )
            if arguments.json:
                with open(arguments.json, "a") as file:
                    print(json.dumps({"case": name, "bytes": size, **found}), file=file)


if __name__ == "__main__":
    main()
