/* stats.c -- the statistics of an instance: the sum over its threads, ended ones
 * included.
 */
#include "base/mutex_assert.h"
#include "nrt/count.h"
#include "nrt/registry.h"
#include <string.h>

/* The sum of one counter over the threads. `tarn__registry_mutex` held. */
static uint64_t sum(const tarn_runtime *runtime, size_t offset)
{
    tarn__assert_mutex_held(&tarn__registry_mutex);

    uint64_t total = atomic_load_explicit(
        (const _Atomic uint64_t *)(const void *)((const char *)&runtime->folded + offset),
        memory_order_acquire);

    for (struct tarn__shard *shard = runtime->shards; shard; shard = shard->next)
        total += atomic_load_explicit(
            (const _Atomic uint64_t *)(const void *)((const char *)&shard->counters +
                                                     offset),
            memory_order_acquire);
    return total;
}

#define SUM(runtime, field) sum(runtime, offsetof(struct tarn__counters, field))

/* Blocks allocated, in total and by size. `tarn__registry_mutex` held. */
static uint64_t sum_histogram(const tarn_runtime *runtime, uint64_t *histogram)
{
    tarn__assert_mutex_held(&tarn__registry_mutex);

    uint64_t total = 0;

    for (size_t i = 0; i < TARN_NRT_HISTOGRAM; i++)
        total += histogram[i] = SUM(runtime, histogram[i]);
    return total;
}

/* Frees are read first. A block that is allocated and freed in between is then counted as
 * still live, and never as freed before its allocation. Raw blocks are read before all
 * blocks, for the same reason. `tarn__registry_mutex` held. */
static void read_blocks(const tarn_runtime *runtime, tarn_runtime_stats *stats)
{
    tarn__assert_mutex_held(&tarn__registry_mutex);

    stats->mi_free = SUM(runtime, mi_free);
    stats->free = stats->mi_free + SUM(runtime, raw_free);
    uint64_t raw = SUM(runtime, raw_alloc);
    stats->alloc = sum_histogram(runtime, stats->histogram);
    stats->mi_alloc = stats->alloc - raw;
}

void tarn_runtime_counts_read(tarn_runtime *runtime, tarn_runtime_counts *out)
{
    tarn_runtime_stats stats = {.size = sizeof stats};

    tarn__registry_lock();
    read_blocks(runtime, &stats);
    tarn__registry_unlock();
    out->created = stats.mi_alloc;
    out->destroyed = stats.mi_free;
}

/* The highest peak of all shards, if the others stayed as they are now. Under the
 * registry's lock.
 */
static int64_t peak_now(tarn_runtime *runtime, int64_t live)
{
    int64_t peak = atomic_load(&runtime->peak);

    for (struct tarn__shard *shard = runtime->shards; shard; shard = shard->next) {
        int64_t high = atomic_load_explicit(&shard->high, memory_order_relaxed);
        int64_t seen = live + high - tarn__count_difference(shard);
        if (seen > peak)
            peak = seen;
    }
    return live > peak ? live : peak;
}

static void read_shards(tarn_runtime *runtime, tarn_runtime_stats *stats)
{
    tarn__registry_lock();
    uint64_t gone = SUM(runtime, bytes_gone);
    read_blocks(runtime, stats);
    stats->failed = SUM(runtime, failed);
    stats->bytes_total = SUM(runtime, bytes_made);
    stats->bytes_live = stats->bytes_total - gone;
    stats->bytes_peak = (uint64_t)peak_now(runtime, (int64_t)stats->bytes_live);
    tarn__registry_unlock();
}

tarn_status tarn_runtime_stats_read(tarn_runtime *runtime, tarn_runtime_stats *out)
{
    tarn_runtime_stats stats = {.size = sizeof stats};

    if (!runtime || !out || out->size < sizeof out->size)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: stats_read: %s",
                              !runtime ? "runtime is NULL"
                              : !out   ? "out is NULL"
                                       : "out.size is not set");
    read_shards(runtime, &stats);
    stats.misuses = atomic_load(&runtime->misuses);
    stats.bytes_chunks = atomic_load(&runtime->bytes_chunks);
    pthread_mutex_lock(&runtime->lock);
    stats.bytes_quarantine = runtime->quarantine_bytes;
    pthread_mutex_unlock(&runtime->lock);
    size_t size = out->size < sizeof stats ? out->size : sizeof stats;
    memcpy((char *)out + sizeof size, (char *)&stats + sizeof size, size - sizeof size);
    return TARN_OK;
}
