/* main.cu -- device code without Numba on Tarn's device runtime: many threads release a block.
 */
#include <cstdio>
#include <tarn/nrt_device.cuh>

__device__ unsigned ends;

static __device__ void note(void *, size_t, void *info)
{
    if (!info)
        atomicAdd(&ends, 1u);
}

__device__ NRT_MemInfo *shared;

__global__ void make(unsigned long long references)
{
    shared = NRT_MemInfo_alloc_dtor(64, note);
    shared->refct = references;
}

__global__ void release()
{
    NRT_decref(shared);
}

int main()
{
    unsigned ended = 0;

    make<<<1, 1>>>(64 * 256);
    release<<<64, 256>>>();
    cudaMemcpyFromSymbol(&ended, ends, sizeof ended);
    std::printf("%s, %u end\n", cudaGetErrorString(cudaGetLastError()), ended);
    return ended == 1 ? 0 : 1;
}
