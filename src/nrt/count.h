/* count.h -- counting in a shard: one writer, so no atomic addition, only whole words.
 *
 * The peak is a maximum over time of a sum over threads, which nobody sees. A shard knows
 * its own difference of bytes made and gone, and its highest since it last told the
 * instance; it tells again when the difference has moved by 64 KiB. With one thread the
 * peak is exact, with more of them off by at most that much a thread.
 */
#ifndef TARN_NRT_COUNT_H
#define TARN_NRT_COUNT_H

#include "nrt/runtime.h"

enum { TARN__FLUSH = 65536 };

static inline void tarn__bump(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter,
                          atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/* The same, and whoever reads it with acquire sees all that came before. */
static inline void tarn__bump_last(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter,
                          atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_release);
}

static inline unsigned tarn__bucket(size_t bytes)
{
    unsigned bits = bytes ? 64u - (unsigned)__builtin_clzll(bytes) : 0;

    return bits < TARN_NRT_HISTOGRAM ? bits : TARN_NRT_HISTOGRAM - 1;
}

static inline int64_t tarn__difference(const struct tarn__shard *shard)
{
    const struct tarn__counters *counters = &shard->counters;

    return (int64_t)(atomic_load_explicit(&counters->bytes_made, memory_order_relaxed) -
                     atomic_load_explicit(&counters->bytes_gone, memory_order_relaxed));
}

/* stats.c: tell the instance. */
void tarn__count_flush(struct tarn__shard *shard);
/* The same for a thread that could get no shard. */
void tarn__count_made_shared(tarn_runtime *runtime, size_t bytes, bool mi);
void tarn__count_gone_shared(tarn_runtime *runtime, size_t bytes, bool mi);
void tarn__count_bytes_shared(tarn_runtime *runtime, size_t made, size_t gone);

static inline void tarn__count_bytes_made(struct tarn__shard *shard, size_t bytes)
{
    tarn__bump(&shard->counters.bytes_made, bytes);
    int64_t now = tarn__difference(shard);
    if (now > atomic_load_explicit(&shard->high, memory_order_relaxed)) {
        atomic_store_explicit(&shard->high, now, memory_order_relaxed);
        if (now - atomic_load_explicit(&shard->flushed, memory_order_relaxed) >
            TARN__FLUSH)
            tarn__count_flush(shard);
    }
}

static inline void tarn__count_bytes_gone(struct tarn__shard *shard, size_t bytes)
{
    tarn__bump(&shard->counters.bytes_gone, bytes);
    if (tarn__difference(shard) < shard->low)
        tarn__count_flush(shard);
}

static inline void tarn__count_made(struct tarn__shard *shard, size_t bytes, bool mi)
{
    tarn__bump(&shard->counters.histogram[tarn__bucket(bytes)], 1);
    if (mi)
        tarn__bump(&shard->counters.mi_alloc, 1);
    tarn__count_bytes_made(shard, bytes);
}

/* The last touch of the instance: it may be released by another thread right after. */
static inline void tarn__count_gone(struct tarn__shard *shard, size_t bytes, bool mi)
{
    tarn__count_bytes_gone(shard, bytes);
    if (!mi) {
        tarn__bump_last(&shard->counters.free);
        return;
    }
    tarn__bump_last(&shard->counters.free);
    tarn__bump_last(&shard->counters.mi_free);
}

#endif
