#!/usr/bin/env python3
"""Measures the allocators of Python's libraries from Python: an allocation and its free.

    python.py [--quick] RESULTS.jsonl

Tarn, RMM, CuPy and PyTorch, if installed; medians of 21 batches, one line each, and the same as
JSON lines for table.py.
"""

import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from batches import median_ns


def tarn_calls(size):
    import tarn

    pool = tarn.mr.PoolMemoryResource(tarn.mr.CudaMemoryResource())
    tarn.mr.set_current_device_resource(pool)
    yield "Tarn", f"DeviceBuffer({size}) and back", lambda: tarn.DeviceBuffer(size=size)


def rmm_calls(size):
    import rmm

    for name, resource in [
        (
            "RMM pool",
            rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 30),
        ),
        ("RMM async", rmm.mr.CudaAsyncMemoryResource()),
    ]:
        rmm.mr.set_current_device_resource(resource)
        yield name, f"DeviceBuffer({size}) and back", lambda: rmm.DeviceBuffer(size=size)


def cupy_calls(size):
    import cupy

    yield "CuPy", f"DeviceBuffer({size}) and back", lambda: cupy.cuda.alloc(size)
    yield "CuPy", f"empty({size}) and back", lambda: cupy.empty(size, "u1")


def torch_calls(size):
    import torch

    yield (
        "PyTorch",
        f"empty({size}) and back",
        lambda: torch.empty(size, dtype=torch.uint8, device="cuda"),
    )


def main(arguments):
    pairs = 20 if "--quick" in arguments else 2000
    results = next(a for a in arguments if not a.startswith("--"))
    with open(results, "a", encoding="utf-8") as file:
        for calls in tarn_calls, rmm_calls, cupy_calls, torch_calls:
            for size in 256, 1 << 20, 64 << 20:
                try:
                    for who, case, call in calls(size):
                        call()
                        ns = median_ns(call, pairs)
                        print(f"{who:10} {case:36} {ns:9.0f} ns", flush=True)
                        json.dump(
                            {
                                "bench": "python",
                                "who": who,
                                "case": case,
                                "metric": "ns",
                                "value": ns,
                            },
                            file,
                        )
                        file.write("\n")
                except Exception as error:
                    print(f"{calls.__name__}: {type(error).__name__}: {error}", flush=True)
                    break
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
