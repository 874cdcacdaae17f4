#!/usr/bin/env python3
"""Does numba-cuda's device runtime free a block more than once?

Its NRT_decref() decrements the count and then reads it again, so two threads that release
the last two references can both see 0. Here all threads of many blocks release one
reference each of the same MemInfos, and the destructor counts its calls. Prints how many
MemInfos ended once, never and more often, for their NRT_decref() and for one that looks at what
its own decrement returned. Exit 1: the right one was wrong as well.
"""
import os
import sys

os.environ["NUMBA_CUDA_ENABLE_NRT"] = "1"

import numpy as np
from numba import cuda, types

MEMINFOS, BLOCKS, THREADS, ROUNDS = 512, 64, 256, 20

SOURCE = """
#include <cuda/atomic>

struct meminfo { /* numba-cuda's */
    cuda::atomic<size_t, cuda::thread_scope_device> count;
    void (*destructor)(void *data, size_t size, void *info);
    void *info, *data;
    size_t size;
};
extern "C" __device__ meminfo *NRT_MemInfo_new(
    void *data, size_t size, void (*destructor)(void *, size_t, void *), void *info);
extern "C" __device__ void NRT_decref(meminfo *);
extern "C" __device__ void NRT_MemInfo_call_dtor(meminfo *);

static __device__ meminfo *made[512];
static __device__ unsigned ended[512];

/* A second end frees a second time, which may end the kernel: that shows it as well. */
static __device__ void note(void *data, size_t, void *)
{
    atomicAdd((unsigned *)data, 1);
}

extern "C" __device__ int probe_make(int *result, int which, int references)
{
    ended[which] = 0;
    made[which] = NRT_MemInfo_new(&ended[which], 0, note, nullptr);
    *result = made[which] != nullptr;
    if (*result)
        made[which]->count = references;
    return 0;
}

extern "C" __device__ int probe_release(int *result, int which, int right)
{
    *result = 0;
    if (!right)
        NRT_decref(made[which]);
    else if (made[which]->count.fetch_sub(1) == 1)
        NRT_MemInfo_call_dtor(made[which]);
    return 0;
}

extern "C" __device__ int probe_ended(int *result, int which)
{
    *result = (int)ended[which];
    return 0;
}
"""

LINKED = [cuda.CUSource(SOURCE, nrt=True)]
make = cuda.declare_device("probe_make", types.int32(types.int32, types.int32))
release = cuda.declare_device("probe_release", types.int32(types.int32, types.int32))
ended = cuda.declare_device("probe_ended", types.int32(types.int32))


@cuda.jit(link=LINKED)  # one kernel, because each has device variables of its own
def work(step, right, out):
    place = cuda.grid(1)
    if step == 0 and place < MEMINFOS:
        out[place] = make(place, BLOCKS * THREADS)
    elif step == 1:
        for which in range(MEMINFOS):
            release(which, right)
    elif step == 2 and place < MEMINFOS:
        out[place] = ended(place)


def ends(right):
    """How often each MemInfo of a round ended."""
    out = cuda.device_array(MEMINFOS, np.int32)
    work[BLOCKS, THREADS](0, right, out)
    assert out.copy_to_host().all(), "no device memory for MemInfos"
    work[BLOCKS, THREADS](1, right, out)
    work[BLOCKS, THREADS](2, right, out)
    return out.copy_to_host()


def main():
    wrong = {}
    for right in (1, 0):
        seen = np.concatenate([ends(right) for _ in range(ROUNDS)])
        wrong[right] = int((seen != 1).sum())
        print(f"{'fetch_sub' if right else 'NRT_decref'}: of {seen.size} MemInfos "
              f"{int((seen == 1).sum())} ended once, {int((seen == 0).sum())} never, "
              f"{int((seen > 1).sum())} more often, at most {seen.max()} times", flush=True)
    return 1 if wrong[1] else 0


if __name__ == "__main__":
    sys.exit(main())
