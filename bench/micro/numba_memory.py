#!/usr/bin/env python3
"""numba_memory.py -- the cost of an array under Numba with different memory managers.

    numba_memory.py [CASE...]        all cases, each in a process of its own, as a table

    nothing       a plugin that always returns one pointer: Numba's own cost
    numba         Numba's own manager
    rmm-pool      RMM's plugin on its pool, where RMM is installed
    tarn-null     Tarn's manager over one in C that does nothing (bench/null/manager.c): the
                  difference to `nothing` is the share of tarn.numba and of Tarn's manager calls
    tarn, tarn-single-stream, tarn-cuda-pool, tarn-cuda, tarn-log
                  Tarn's manager on a pool; with one stream promised; on a pool over cuMemAlloc's
                  memory; without a pool; on a pool and with the log on

Microseconds for an array of 1 MiB and its end, the minimum of many batches. `kernel`: with the
launch of a kernel that fills the array between the two, the median of batches that end with a wait
for the device. `nan` on the simulator, which runs no kernels.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import time

CASES = ("nothing", "tarn-null", "numba", "rmm-pool", "tarn", "tarn-single-stream",
         "tarn-cuda-pool", "tarn-cuda", "tarn-log")  # fmt: skip
COLUMNS = ("memalloc", "device_array", "pinned_array", "to_device", "kernel")
ELEMENTS = 1 << 17
NULL_MANAGER = pathlib.Path(__file__).parents[2] / "build/release/bench/null/manager.so"


def use_nothing(cuda):
    class Nothing(cuda.HostOnlyCUDAMemoryManager):
        interface_version = 1
        pointer = None

        def initialize(self): ...
        def get_ipc_handle(self, memory): ...
        def get_memory_info(self): ...

        def memalloc(self, size):
            return self.pointer

    from numba.cuda.cudadrv import driver

    cuda.set_memory_manager(Nothing)
    context = cuda.current_context()
    address = driver.driver.cuMemAlloc(8 * ELEMENTS)
    Nothing.pointer = cuda.MemoryPointer(context, address, 8 * ELEMENTS)


def use_rmm(cuda):
    import rmm
    from rmm.allocators.numba import RMMNumbaManager

    pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), 1 << 30)
    rmm.mr.set_current_device_resource(pool)
    cuda.set_memory_manager(RMMNumbaManager)


def use_tarn(case):
    import tarn

    if case == "tarn-null":
        os.environ["TARN_MEMORY_MANAGER"] = str(NULL_MANAGER)
    resource = {"tarn-cuda": "cuda", "tarn-cuda-pool": "cuda-pool"}.get(case, "pool")
    mode = "single-stream" if case == "tarn-single-stream" else "any-stream"
    tarn.use_tarn_for_numba(resource=resource, mode=mode, logging=case == "tarn-log")


def prepare(case, cuda):
    if case == "nothing":
        use_nothing(cuda)
    elif case == "rmm-pool":
        use_rmm(cuda)
    elif case.startswith("tarn"):
        use_tarn(case)


def least(call, batch, batches):
    """Return microseconds per call."""
    for _ in range(batch):
        call()
    found = []
    for _ in range(batches):
        began = time.perf_counter_ns()
        for _ in range(batch):
            call()
        found.append((time.perf_counter_ns() - began) / batch)
    return min(found) / 1e3


def with_kernel(cuda, batch, batches):
    """Return microseconds for an array, a kernel that fills it, and the array's end."""

    @cuda.jit
    def fill(array):
        i = cuda.grid(1)
        if i < array.size:
            array[i] = 1.0

    fill_all, found = fill[ELEMENTS // 256, 256], []
    try:
        fill_all(cuda.device_array(ELEMENTS))
    except Exception as error:
        if "NOT_SUPPORTED" not in str(error):
            raise
        return float("nan")
    for _ in range(batches):
        cuda.synchronize()
        began = time.perf_counter_ns()
        for _ in range(batch):
            fill_all(cuda.device_array(ELEMENTS))
        cuda.synchronize()
        found.append((time.perf_counter_ns() - began) / batch)
    return statistics.median(found) / 1e3


def run(case):
    import numpy as np
    from numba import cuda

    prepare(case, cuda)
    context, host = cuda.current_context(), np.ones(ELEMENTS)
    print(
        least(lambda: context.memalloc(8 * ELEMENTS), 100, 100),
        least(lambda: cuda.device_array(ELEMENTS), 100, 100),
        least(lambda: cuda.pinned_array(ELEMENTS), 20, 20),
        least(lambda: cuda.to_device(host), 20, 20),
        with_kernel(cuda, 1000, 15),
    )


def main(cases):
    print(f"{'us':18}" + "".join(f"{name:>14}" for name in COLUMNS), flush=True)
    failed = 0
    for case in cases or CASES:
        done = subprocess.run(
            [sys.executable, __file__, "--case", case], capture_output=True, text=True
        )
        failed += done.returncode != 0 and case != "rmm-pool"
        words = done.stdout.split()
        numbers = "".join(f"{float(word):14.2f}" for word in words)
        print(f"{case:18}{numbers or done.stderr.strip().splitlines()[-1:]}", flush=True)
    return failed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        run(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
