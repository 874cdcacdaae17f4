#!/usr/bin/env python3
"""Checks whether memory that Numba frees is reused while a stream still reads it.

    no_stream.py [CASE]...

An array is deleted while queued work on stream X still reads it; the next array is written on
stream Y. X has to read the first array. On a GPU the work is kernels. The simulator runs none, so
there it is a host function that holds the stream up and a copy. Each line reports the number of
wrong elements of 81,920. The exit status is 1 if one was wrong in any case but `one-stream`: this
program breaks its promise. If the kind is `capturing`, a third stream captures meanwhile, in global
mode. A lost capture also fails, except in the two cases that are known to end captures.
"""

import ctypes
import os
import sys

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")  # its kernels are small

import numpy as np
import tarn
from numba import cuda

N, ROUNDS = 1 << 14, 5
KINDS = ("blocking", "non-blocking", "per-thread", "destroyed", "capturing")
CASES = {
    "pool": lambda: tarn.mr.PoolMemoryResource(),
    "pool-event": lambda: tarn.mr.PoolMemoryResource(no_stream="event"),
    "pool-tight": lambda: tight(),
    "pool-event-tight": lambda: tight(no_stream="event"),
    "pool-on-cuda": lambda: tarn.mr.PoolMemoryResource(tarn.mr.CudaMemoryResource()),
    "binning": lambda: tarn.mr.BinningMemoryResource(tarn.mr.PoolMemoryResource(), 16, 20),
    "cuda": lambda: tarn.mr.CudaMemoryResource(),
    "async": lambda: tarn.mr.CudaAsyncMemoryResource(),
    "one-stream": lambda: tarn.mr.PoolMemoryResource(no_stream="single-stream"),
}
# In the free, or in the next allocation, so that nothing may wait for later calls.
WAITS = ("cuda", "async", "pool-tight", "pool-event-tight")
ENDS_CAPTURES = (
    "pool-event",
    "pool-event-tight",
    "async",
)  # docs/design/pool.md, "Memory without a stream"
PER_THREAD = 2
GLOBAL, RELAXED = 0, 2

driver = libc = None


def tight(**options):
    """All of a pool: with `filling` two arrays fit, and the third has to reuse the memory of the
    first."""
    return tarn.mr.PoolMemoryResource(initial_pool_size="2MiB", maximum_pool_size="2MiB", **options)


def filling(case):
    return cuda.device_array((2 << 20) - 2 * 4 * N, np.uint8) if "tight" in case else None


def must(result):
    assert result == 0, f"the driver gives {result}"


def new_stream(kind):
    if kind == "per-thread":
        return ctypes.c_void_p(PER_THREAD)
    stream = ctypes.c_void_p()
    must(driver.cuStreamCreate(ctypes.byref(stream), 0 if kind == "blocking" else 1))
    return stream


def end_stream(stream):
    if stream.value not in (None, PER_THREAD):
        must(driver.cuStreamDestroy_v2(stream))


class Capture:
    """On a stream of its own, if there is one."""

    def __init__(self, is_wanted):
        self.stream = new_stream("non-blocking") if is_wanted else None
        if is_wanted:
            must(driver.cuStreamBeginCapture_v2(self.stream, GLOBAL))

    def end(self):
        """Return whether the capture was lost."""
        if self.stream is None:
            return False
        graph = ctypes.c_void_p()
        result = driver.cuStreamEndCapture(self.stream, ctypes.byref(graph))
        if graph:
            must(driver.cuGraphDestroy(graph))
        end_stream(self.stream)
        return result != 0


def address(array):
    return ctypes.c_uint64(array.device_ctypes_pointer.value)


class OnTheStandIn:
    """Work as copies, held up by a semaphore, or by time if the free waits for it."""

    def __init__(self, case):
        self.waits = case in WAITS
        self.gate = (ctypes.c_char * 64)()

    def fill(self, array, value, stream):
        word = int(np.float32(value).view(np.uint32))
        must(driver.cuMemsetD32Async(address(array), word, ctypes.c_size_t(N), stream))

    def slow_copy(self, source, target, stream):
        assert libc.sem_init(self.gate, 0, 0) == 0
        hold, data = libc.sem_wait, ctypes.cast(self.gate, ctypes.c_void_p)
        if self.waits:
            hold, data = libc.usleep, ctypes.c_void_p(20000)
        must(driver.cuLaunchHostFunc(stream, ctypes.cast(hold, ctypes.c_void_p), data))
        count = ctypes.c_size_t(4 * N)
        must(driver.cuMemcpyDtoDAsync_v2(address(target), address(source), count, stream))

    def let_on(self, written_on):
        if not self.waits:
            mode = ctypes.c_int(RELAXED)  # otherwise this would end a capture, and not Tarn
            must(driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode)))
            must(driver.cuStreamSynchronize(written_on))
            must(driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode)))
            libc.sem_post(self.gate)


class OnTheGpu:
    """Work as kernels; the slow one runs for a tenth of a second."""

    def __init__(self, _case):
        @cuda.jit
        def slow_copy(source, target):
            for _ in range(100):
                cuda.nanosleep(1000000)
            i = cuda.grid(1)
            if i < source.size:
                target[i] = source[i]

        @cuda.jit
        def fill(array, value):
            i = cuda.grid(1)
            if i < array.size:
                array[i] = value

        self.kernels = slow_copy, fill
        warm = cuda.device_array(N, np.float32)
        slow_copy[1, 1](warm, warm)
        fill[N // 256, 256](warm, np.float32(0))
        cuda.synchronize()

    def fill(self, array, value, stream):
        self.kernels[1][N // 256, 256, cuda.external_stream(stream.value)](array, np.float32(value))

    def slow_copy(self, source, target, stream):
        self.kernels[0][N // 256, 256, cuda.external_stream(stream.value)](source, target)

    def let_on(self, written_on):
        pass


def wrong_elements(work, kind):
    """Return (wrong elements, number of immediate reuses, lost captures)."""
    wrong = same = lost = 0
    for _ in range(ROUNDS):
        x = new_stream(kind)
        y = new_stream("blocking" if kind == "blocking" else "non-blocking")
        a, b = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
        work.fill(a, 1, x)
        work.fill(b, 0, x)
        cuda.synchronize()
        capture = Capture(kind == "capturing")
        work.slow_copy(a, b, x)
        if kind == "destroyed":
            end_stream(x)
        was_at = a.device_ctypes_pointer.value
        del a
        c = cuda.device_array(N, np.float32)
        same += c.device_ctypes_pointer.value == was_at
        work.fill(c, 2, y)
        work.let_on(y)
        lost += capture.end()
        cuda.synchronize()
        wrong += int((b.copy_to_host() != 1).sum())
        end_stream(y)
        if kind != "destroyed":
            end_stream(x)
        del b, c
    return wrong, same, lost


def main(cases):
    global driver, libc
    tarn.use_tarn_for_numba(logging=False)
    cuda.current_context()
    driver = ctypes.CDLL("libcuda.so.1")
    libc = ctypes.CDLL(None)
    on_sim = hasattr(driver, "tarn_sim_calls")
    refused = []  # frees that the capture forbids; Tarn reports each one, and retries
    sys.unraisablehook = lambda args: refused.append(str(args.exc_value))
    bad = 0
    for case in cases or CASES:
        work = OnTheStandIn(case) if on_sim else OnTheGpu(case)
        tarn.mr.set_current_device_resource(CASES[case]())  # not before: the inputs of `work` stay
        fills = filling(case)
        for kind in KINDS:
            wrong, same, lost = wrong_elements(work, kind)
            print(f"{case}, {kind}: {wrong} of {ROUNDS * N} wrong, came back {same} times"
                  + f", {lost} captures lost" * (kind == "capturing"))  # fmt: skip
            bad += wrong if case != "one-stream" else 0
            bad += lost if case not in ENDS_CAPTURES else 0
            if refused and not (kind == "capturing" and case in ENDS_CAPTURES):
                print(f"{case}, {kind}: {refused}")
                bad += 1
            refused.clear()
        del fills
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
