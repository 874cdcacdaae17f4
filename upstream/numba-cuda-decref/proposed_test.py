import os
import unittest

import numpy as np

os.environ["NUMBA_CUDA_ENABLE_NRT"] = "1"

SOURCE = """
typedef void (*destructor)(void *, size_t, void *);
struct meminfo {
    unsigned long long refct;
    destructor dtor;
    void *dtor_info, *data;
    size_t size;
};
extern "C" __device__ meminfo *NRT_MemInfo_new(void *, size_t, destructor, void *);
extern "C" __device__ void NRT_decref(meminfo *);
static __device__ meminfo *shared;
static __device__ int ends;
static __device__ void end(void *, size_t, void *) { atomicAdd(&ends, 1); }

extern "C" __device__ int test_make(int *out, int references)
{
    ends = 0;
    shared = NRT_MemInfo_new(nullptr, 0, end, nullptr);
    shared->refct = references;
    return 0;
}
extern "C" __device__ int test_release(int *out) { NRT_decref(shared); return 0; }
extern "C" __device__ int test_ends(int *out) { *out = ends; return 0; }
"""


class TestConcurrentRelease(unittest.TestCase):
    """For numba_cuda/numba/cuda/tests/nrt/test_nrt.py. It needs a GPU."""

    def test_block_ends_once(self):
        from numba import cuda, types

        make = cuda.declare_device("test_make", types.int32(types.int32))
        release = cuda.declare_device("test_release", types.int32())
        ends = cuda.declare_device("test_ends", types.int32())

        @cuda.jit("void(int32, int32[:])", link=[cuda.CUSource(SOURCE, nrt=True)])
        def kernel(step, out):
            if step == 0:
                make(64 * 256)
            elif step == 1:
                release()
            else:
                out[0] = ends()

        out = cuda.device_array(1, np.int32)
        kernel[1, 1](0, out)
        kernel[64, 256](1, out)
        kernel[1, 1](2, out)
        self.assertEqual(out.copy_to_host()[0], 1)


if __name__ == "__main__":
    unittest.main()
