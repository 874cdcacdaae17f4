/* count.h -- counting in a shard: one writer, so no atomic addition, only whole words.
 *
 * The peak is a maximum over time of a sum over threads, which no thread can observe. A
 * shard knows its own difference of allocated and freed bytes, and its highest value
 * since the last flush to the instance. It flushes again when the difference has moved by
 * 64 KiB. With one thread the peak is exact. With more threads its error is at most 64
 * KiB a thread. A thread that allocates and frees one large block over and over flushes
 * less: its error is at most that block, if it has 16 MiB at most.
 */
#ifndef TARN_NRT_COUNT_H
#define TARN_NRT_COUNT_H

#include "nrt/runtime.h"

enum {
    TARN__FLUSH = 65536,
    TARN__SWINGS = 64, /* flushes that undo each other, until swings need none */
    TARN__LARGEST_SWING = 16 << 20
};

static inline uint64_t tarn__count_read(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void tarn__count_bump(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, tarn__count_read(counter) + more,
                          memory_order_relaxed);
}

/* The same; a thread that reads it with acquire sees all that came before. */
static inline void tarn__count_bump_last(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, tarn__count_read(counter) + 1, memory_order_release);
}

/* 0 for 0, n for 2^(n-1) and more. */
static inline unsigned tarn__count_bucket(size_t bytes)
{
    unsigned bits =
        bytes > SIZE_MAX / 2 ? 64u : 63u - (unsigned)__builtin_clzll(2 * bytes + 1);

    return bits < TARN_NRT_HISTOGRAM ? bits : TARN_NRT_HISTOGRAM - 1;
}

static inline int64_t tarn__count_difference(const struct tarn__shard *shard)
{
    return (int64_t)(tarn__count_read(&shard->counters.bytes_made) -
                     tarn__count_read(&shard->counters.bytes_gone));
}

/* Flush this shard's counts to the instance. */
void tarn__count_flush(struct tarn__shard *shard);
/* Count in the instance itself (`folded`), for a thread that could get no shard. The
 * additions are atomic. */
void tarn__count_made_shared(tarn_runtime *runtime, size_t bytes, bool mi);
void tarn__count_gone_shared(tarn_runtime *runtime, size_t bytes, bool mi);
void tarn__count_bytes_shared(tarn_runtime *runtime, size_t made, size_t gone);

static inline void tarn__count_bytes_made(struct tarn__shard *shard, size_t bytes)
{
    uint64_t made = tarn__count_read(&shard->counters.bytes_made) + bytes;

    atomic_store_explicit(&shard->counters.bytes_made, made, memory_order_relaxed);
    int64_t now = (int64_t)(made - tarn__count_read(&shard->counters.bytes_gone));
    if (now <= atomic_load_explicit(&shard->high, memory_order_relaxed))
        return;
    atomic_store_explicit(&shard->high, now, memory_order_relaxed);
    if (now > shard->over)
        tarn__count_flush(shard);
}

static inline void tarn__count_bytes_gone(struct tarn__shard *shard, size_t bytes)
{
    uint64_t gone = tarn__count_read(&shard->counters.bytes_gone) + bytes;

    atomic_store_explicit(&shard->counters.bytes_gone, gone, memory_order_relaxed);
    if ((int64_t)(tarn__count_read(&shard->counters.bytes_made) - gone) < shard->low)
        tarn__count_flush(shard);
}

/* Count the block first, then that it is raw. A thread that reads in the reverse order
 * never sees more raw blocks than blocks. */
static inline void tarn__count_made(struct tarn__shard *shard, size_t bytes, bool mi)
{
    tarn__count_bump(&shard->counters.histogram[tarn__count_bucket(bytes)], 1);
    if (!mi)
        tarn__count_bump_last(&shard->counters.raw_alloc);
    tarn__count_bytes_made(shard, bytes);
}

/* The last access to the instance: another thread may release it right after. */
static inline void tarn__count_gone(struct tarn__shard *shard, size_t bytes, bool mi)
{
    tarn__count_bytes_gone(shard, bytes);
    tarn__count_bump_last(mi ? &shard->counters.mi_free : &shard->counters.raw_free);
}

#endif
