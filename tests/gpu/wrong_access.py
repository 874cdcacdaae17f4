#!/usr/bin/env python3
"""Makes one kind of wrong access to a block, by a kernel of Numba; sanitizer.sh runs it.

wrong_access.py KIND RESOURCE

RESOURCE is the name of a resource, or pool/cuda: a pool over cuMemAlloc.
"""

import sys

import tarn
import tarn.mr
from numba import cuda

COUNT = 1000  # bytes of a block, which no pool has as a size
FAR = 500
KINDS = {
    # (first byte, bytes, what the kernel does, whether the block is freed before)
    "correct": (0, COUNT, "write", False),
    "leak": (0, COUNT, "write", False),
    "two-streams": (0, COUNT, "write", False),
    "write-before": (-4, 4, "write", False),
    "write-behind": (COUNT, 4, "write", False),
    "write-far-behind": (COUNT + FAR, 4, "write", False),
    "write-after-free": (16, 4, "write", True),
    "read-behind": (COUNT, 4, "read", False),
    "read-after-free": (16, 4, "read", True),
    "read-unwritten": (16, 4, "read", False),
}

kept = []  # what a leak keeps


@cuda.jit
def write(array, first, count):
    for i in range(count):
        array[first + i] = 42


@cuda.jit
def read(array, first, count, out):
    for i in range(count):
        out[i] = array[first + i]


def view(address, count):
    """An array of Numba at an address, which owns no memory."""

    class Memory:
        __cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
            "stream": None,
        }

    return cuda.as_cuda_array(Memory(), sync=False)


def main():
    kind, resource = sys.argv[1:]
    first, count, what, is_freed = KINDS[kind]
    if resource == "pool/cuda":
        resource = tarn.mr.PoolMemoryResource(tarn.mr.CudaMemoryResource())
    tarn.use(resource, frameworks="numba")
    out = cuda.device_array(COUNT, dtype="u1")
    block, neighbour = (cuda.device_array(COUNT, dtype="u1") for _ in range(2))
    cuda.synchronize()
    address = block.device_ctypes_pointer.value
    if kind == "two-streams":
        one, two = cuda.stream(), cuda.stream()
        write[1, 1, one](block, 0, COUNT)
        event = cuda.event()
        event.record(one)
        event.wait(two)
        read[1, 1, two](block, 0, COUNT, out)
        two.synchronize()
        return
    if is_freed:
        del block
    # Numba's negative indices count from the end, so the view begins at the first byte.
    target = view(address + first, count)
    if what == "write":
        write[1, 1](target, 0, count)
    else:
        read[1, 1](target, 0, count, out)
    cuda.synchronize()
    if kind == "leak":
        kept.append(block)
    del neighbour


main()
print("the program ended")
