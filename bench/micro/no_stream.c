/* no_stream.c -- measure no-stream allocations and frees.
 *
 *     bench-no_stream
 *
 * A loop allocates a block, uses it and frees it without a stream, as Numba does. It runs
 * with each policy of a pool, and for comparison on a stream and on resources that wait.
 * The columns for each size are nanoseconds per pair, driver calls per pair, device-wide
 * waits and events in 1,000 pairs, and the maximum of deferred bytes. The simulator
 * counts the driver calls; the fill is one of them. On a GPU the calls are not counted.
 */
#include "bench.h"
#include <stdio.h>

enum { PAIRS = 4096, WARM = 2048 };

struct variant {
    const char *name;
    tarn_stream stream;
    int mode; /* of a pool; -1: no pool */
};

static tarn_resource *make(const struct variant *variant)
{
    tarn_resource *resource = NULL;
    tarn_pool_options options = {.size = sizeof options};

    if (variant->mode < 0) {
        bench_must(tarn_cuda_create(0, &resource), "cuda");
        return resource;
    }
    options.no_stream_policy = (tarn_pool_no_stream_policy)variant->mode;
    bench_must(tarn_pool_create(0, NULL, &options, &resource), "pool");
    return resource;
}

static uint64_t deferred_bytes(tarn_resource *resource, bool is_pool,
                               uint64_t *device_waits, uint64_t *fences)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};

    *device_waits = *fences = 0;
    if (!is_pool)
        return 0;
    bench_must(tarn_pool_get_statistics(resource, &statistics), "statistics");
    *device_waits = statistics.device_synchronizations;
    *fences = statistics.events_recorded;
    return statistics.no_stream_deferred;
}

static void pairs(tarn_resource *resource, size_t bytes, tarn_stream stream, int count)
{
    tarn_stream work = stream == TARN_STREAM_NONE ? TARN_STREAM_LEGACY : stream;

    for (int i = 0; i < count; i++) {
        tarn_device_ptr block;
        bench_must(tarn_resource_allocate(resource, bytes, 0, stream, &block),
                   "allocate");
        bench_must(tarn_memset_async(0, block, 1, 256, work), "fill");
        bench_must(tarn_resource_deallocate(resource, block, bytes, 0, stream), "free");
    }
}

static void measure(const struct variant *variant, size_t bytes)
{
    tarn_resource *resource = make(variant);
    bool is_pool = variant->mode >= 0;
    uint64_t device_waits, fences, most = 0, device_waits_before, fences_before;

    pairs(resource, bytes, variant->stream, WARM);
    deferred_bytes(resource, is_pool, &device_waits_before, &fences_before);
    uint64_t before = bench_driver_calls();
    uint64_t start = bench_now_ns();
    pairs(resource, bytes, variant->stream, PAIRS);
    uint64_t took = bench_now_ns() - start;
    uint64_t calls = bench_driver_calls() - before;
    deferred_bytes(resource, is_pool, &device_waits, &fences);
    for (int i = 0; i < WARM; i++) {
        uint64_t ignored;
        pairs(resource, bytes, variant->stream, 1);
        uint64_t held = deferred_bytes(resource, is_pool, &ignored, &ignored);
        most = held > most ? held : most;
    }
    printf("%-22s %9zu B %9.0f ns %7.2f calls %7.1f barriers %7.1f events %7.1f MiB\n",
           variant->name, bytes, (double)took / PAIRS, (double)calls / PAIRS,
           (double)(device_waits - device_waits_before) * 1000 / PAIRS,
           (double)(fences - fences_before) * 1000 / PAIRS, (double)most / (1 << 20));
    fflush(stdout);
    bench_must(tarn_driver_synchronize(0), "wait");
    bench_must(tarn_resource_release(resource), "release");
}

int main(void)
{
    static const size_t sizes[] = {256, 64 << 10, 1 << 20, 16 << 20};
    const struct variant variants[] = {
        {"default stream", TARN_STREAM_LEGACY, TARN_POOL_NO_STREAM_SYNCHRONIZE},
        {"none, one-stream", TARN_STREAM_NONE, TARN_POOL_NO_STREAM_SINGLE},
        {"none, barrier", TARN_STREAM_NONE, TARN_POOL_NO_STREAM_SYNCHRONIZE},
        {"none, event", TARN_STREAM_NONE, TARN_POOL_NO_STREAM_EVENT},
        {"none, cuda", TARN_STREAM_NONE, -1}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof variants / sizeof *variants; k++)
            measure(&variants[k], sizes[i]);
    return 0;
}
