#!/usr/bin/env python3
"""Checks on a GPU what a destructor of Tarn's device runtime gets, and that kinds are checked.

    destructor   the third argument of the destructors of alloc_dtor, of filled and of varsize blocks
                 is NULL
    varsize      varsize_realloc() of a varsize block keeps its data, also in another module than the
                 one that made the block
    other        varsize_realloc() of another block stops the kernel, with a message

Each is a process of its own, because a kernel that stops ends its context. Exit 1: a check failed.
tests/nrt/device_test.c has the same on threads of the host.
"""

import pathlib
import subprocess
import sys

import tarn

HEADER = (pathlib.Path(tarn.get_include()) / "tarn/nrt_device.cuh").read_text()
PROBE = (
    HEADER
    + """
static __device__ unsigned long long seen;

static __device__ void see(void *, size_t, void *info)
{
    seen = (unsigned long long)info + 1; /* 1: it was called with NULL */
}

static __device__ unsigned long long shown(NRT_MemInfo *mi)
{
    seen = 0;
    NRT_decref(mi);
    return seen;
}

extern "C" __device__ int probe_destructor(int *result)
{
    *result = shown(NRT_MemInfo_alloc_dtor(24, see)) == 1 &&
              shown(NRT_MemInfo_alloc_dtor_safe(24, see)) == 1 &&
              shown(NRT_MemInfo_new_varsize_dtor(24, see)) == 1;
    return 0;
}

/* Make a block, or release `made`. */
extern "C" __device__ int probe_make(long long *result, int varsize, long long made)
{
    NRT_MemInfo *mi = (NRT_MemInfo *)made;
    if (mi) {
        NRT_decref(mi);
    } else {
        mi = varsize ? NRT_MemInfo_new_varsize(4) : NRT_MemInfo_alloc(4);
        *(int *)mi->data = 7;
    }
    *result = (long long)mi;
    return 0;
}

extern "C" __device__ int probe_resize(int *result, long long made)
{
    NRT_MemInfo *mi = (NRT_MemInfo *)made;
    int *data = (int *)NRT_MemInfo_varsize_realloc(mi, 4000);
    *result = data && *data == 7 && mi->size == 4000;
    return 0;
}
"""
)


def device(name, *arguments):
    """Return a device function of PROBE, and the options of a kernel that calls it."""
    from numba import cuda

    return cuda.declare_device(name, *arguments), [cuda.CUSource(PROBE, nrt=True)]


def destructor():
    import numpy as np
    from numba import cuda, types

    ask, link = device("probe_destructor", types.int32())

    @cuda.jit("void(int32[:])", link=link)
    def work(out):
        out[0] = ask()

    out = cuda.device_array(1, np.int32)
    work[1, 1](out)
    return bool(out.copy_to_host()[0])


def resized(is_varsize):
    """Make a block in one kernel and resize it in another; return if its data was kept.

    The module that made the block releases it: CUDA calls no function of another module.
    """
    import numpy as np
    from numba import cuda, types

    make, link = device("probe_make", types.int64(types.int32, types.int64))

    @cuda.jit("void(int64[:], int32, int64)", link=link)
    def first(out, kind, made):
        out[0] = make(kind, made)

    resize, link = device("probe_resize", types.int32(types.int64))

    @cuda.jit("void(int64[:], int32[:])", link=link)
    def second(made, out):
        out[0] = resize(made[0])

    made, out = cuda.device_array(1, np.int64), cuda.device_array(1, np.int32)
    first[1, 1](made, is_varsize, 0)
    second[1, 1](made, out)
    first[1, 1](made, is_varsize, int(made.copy_to_host()[0]))
    cuda.synchronize()
    return bool(out.copy_to_host()[0])


def varsize():
    return resized(1)


def other():
    return resized(0)


CHECKS = {"destructor": "", "varsize": "", "other": "has no variable size"}


def main():
    bad = 0
    for name, message in CHECKS.items():
        done = subprocess.run(
            [sys.executable, __file__, name],
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
        )
        right = message in done.stdout and (done.returncode != 0) == bool(message)
        bad += not right
        print(f"{name}: {'right' if right else 'WRONG'}, exit {done.returncode}", flush=True)
        if not right:
            print(done.stdout[-3000:])
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) == 2:
        import os

        os.environ["NUMBA_CUDA_ENABLE_NRT"] = "1"
        import tarn.nrt

        tarn.nrt.use_device_runtime()
        sys.exit(0 if globals()[sys.argv[1]]() else 1)
    sys.exit(main())
