// rmm.cpp -- RMM's pool, arena, binning and async resources as peers. Needs librmm's headers.
#include "peer.h"
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <rmm/cuda_device.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

namespace
{

// The memory that all resources of the run have taken from the device; one is open at a
// time.
std::atomic<std::size_t> taken{0}, peak{0};

void count_up(std::size_t bytes)
{
    std::size_t now = taken += bytes, seen = peak;

    while (seen < now && !peak.compare_exchange_weak(seen, now))
        ;
}

// A counting cudaMalloc: the peak of a pool's memory is its reserved memory.
struct counting {
    rmm::mr::cuda_memory_resource upstream;

    void *allocate(cuda::stream_ref stream, std::size_t bytes,
                   std::size_t alignment = 256)
    {
        void *block = upstream.allocate(stream, bytes, alignment);
        count_up(bytes);
        return block;
    }
    void deallocate(cuda::stream_ref stream, void *block, std::size_t bytes,
                    std::size_t alignment = 256) noexcept
    {
        taken -= bytes;
        upstream.deallocate(stream, block, bytes, alignment);
    }
    void *allocate_sync(std::size_t bytes, std::size_t alignment = 256)
    {
        void *block = upstream.allocate_sync(bytes, alignment);
        count_up(bytes);
        return block;
    }
    void deallocate_sync(void *block, std::size_t bytes,
                         std::size_t alignment = 256) noexcept
    {
        taken -= bytes;
        upstream.deallocate_sync(block, bytes, alignment);
    }
    bool operator==(counting const &) const noexcept
    {
        return true;
    }
    friend void get_property(counting const &, cuda::mr::device_accessible) noexcept
    {
    }
};

template <class Resource> struct held {
    std::unique_ptr<rmm::mr::pool_memory_resource> beneath; // only for binning
    std::unique_ptr<Resource> resource;
};

template <class Resource>
unsigned long long allocate(void *self, std::size_t bytes, void *stream)
{
    auto &resource = *static_cast<held<Resource> *>(self)->resource;

    try {
        return reinterpret_cast<unsigned long long>(resource.allocate(
            cuda::stream_ref(static_cast<cudaStream_t>(stream)), bytes, 256));
    } catch (...) {
        return 0;
    }
}

template <class Resource>
void deallocate(void *self, unsigned long long block, std::size_t bytes, void *stream)
{
    static_cast<held<Resource> *>(self)->resource->deallocate(
        cuda::stream_ref(static_cast<cudaStream_t>(stream)),
        reinterpret_cast<void *>(block), bytes, 256);
}

template <class Resource> void close(void *self)
{
    delete static_cast<held<Resource> *>(self);
}

std::size_t reserved_peak(void *)
{
    return peak;
}

std::size_t round_up(std::size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

// `make` returns the held resource; an exception means that it is unavailable.
template <class Make> void *try_open(Make make)
{
    taken = 0;
    peak = 0;
    try {
        return make();
    } catch (std::exception const &error) {
        std::fprintf(stderr, "rmm: %s\n", error.what());
        return nullptr;
    }
}

void *open_pool(const peer *, const peer_setup *setup)
{
    using resource = rmm::mr::pool_memory_resource;
    return try_open([&] {
        auto made = std::make_unique<held<resource>>();
        std::size_t most = round_up(setup->most_bytes);
        std::size_t initial = most ? most : round_up(setup->initial_bytes);
        made->resource = most ? std::make_unique<resource>(counting{}, initial, most)
                              : std::make_unique<resource>(counting{}, initial);
        return made.release();
    });
}

void *open_arena(const peer *, const peer_setup *setup)
{
    using resource = rmm::mr::arena_memory_resource;
    return try_open([&] {
        auto made = std::make_unique<held<resource>>();
        made->resource = std::make_unique<resource>(
            counting{},
            round_up(setup->most_bytes ? setup->most_bytes : setup->initial_bytes));
        return made.release();
    });
}

void *open_binning(const peer *, const peer_setup *)
{
    using resource = rmm::mr::binning_memory_resource;
    return try_open([&] {
        auto made = std::make_unique<held<resource>>();
        made->beneath =
            std::make_unique<rmm::mr::pool_memory_resource>(counting{}, std::size_t{0});
        made->resource = std::make_unique<resource>(*made->beneath, 8, 22);
        return made.release();
    });
}

void *open_async(const peer *, const peer_setup *)
{
    using resource = rmm::mr::cuda_async_memory_resource;
    return try_open([&] {
        auto made = std::make_unique<held<resource>>();
        made->resource = std::make_unique<resource>();
        return made.release();
    });
}

template <class Resource>
constexpr peer entry(char const *name, bool limits, bool reserves, bool starts,
                     void *(*open)(const peer *, const peer_setup *))
{
    return {name,
            limits,
            reserves,
            starts,
            open,
            allocate<Resource>,
            deallocate<Resource>,
            reserved_peak,
            close<Resource>,
            nullptr,
            nullptr,
            nullptr};
}

const peer peers[] = {
    entry<rmm::mr::pool_memory_resource>("RMM pool", true, true, false, open_pool),
    entry<rmm::mr::pool_memory_resource>("RMM pool, initial", false, true, true,
                                         open_pool),
    entry<rmm::mr::arena_memory_resource>("RMM arena, initial", true, true, true,
                                          open_arena),
    entry<rmm::mr::binning_memory_resource>("RMM binning", false, true, false,
                                            open_binning),
    entry<rmm::mr::cuda_async_memory_resource>("RMM async", false, false, false,
                                               open_async),
};

} // namespace

extern "C" __attribute__((visibility("default"))) const peer *bench_peers(
    std::size_t *count_out)
{
    *count_out = sizeof peers / sizeof *peers;
    return peers;
}
