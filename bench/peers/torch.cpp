// torch.cpp -- PyTorch's caching allocator as a peer, without Python.
#include "peer.h"
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

namespace
{

using c10::cuda::CUDACachingAllocator::get;

void *open(const peer *, const peer_setup *setup)
{
    static bool started = false;
    std::size_t unused = 0, total = 0;

    if (!started)
        c10::cuda::CUDACachingAllocator::init(1);
    started = true;
    cudaMemGetInfo(&unused, &total);
    get()->emptyCache();
    get()->setMemoryFraction(
        setup->most_bytes ? double(setup->most_bytes) / double(total) : 1.0, 0);
    get()->resetPeakStats(0);
    return get();
}

unsigned long long allocate(void *, std::size_t bytes, void *stream)
{
    try {
        return reinterpret_cast<unsigned long long>(
            get()->raw_alloc_with_stream(bytes, static_cast<cudaStream_t>(stream)));
    } catch (...) {
        return 0;
    }
}

// A block returns to the stream of its allocation, whatever stream the free names.
void deallocate(void *, unsigned long long block, std::size_t, void *)
{
    get()->raw_delete(reinterpret_cast<void *>(block));
}

std::size_t reserved_peak(void *)
{
    return static_cast<std::size_t>(get()->getDeviceStats(0).reserved_bytes[0].peak);
}

void close(void *)
{
    get()->emptyCache();
}

const peer peers[] = {
    {"PyTorch", true, true, false, open, allocate, deallocate, reserved_peak, close,
     nullptr, nullptr, nullptr},
};

} // namespace

extern "C" __attribute__((visibility("default"))) const peer *bench_peers(
    std::size_t *count_out)
{
    *count_out = sizeof peers / sizeof *peers;
    return peers;
}
