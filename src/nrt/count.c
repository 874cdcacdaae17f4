/* count.c -- counting where one thread's shard is not enough: the peak of an instance,
 * and threads without a shard.
 */
#include "nrt/count.h"

static void raise_peak(tarn_runtime *runtime, int64_t seen)
{
    long long peak = atomic_load(&runtime->peak);

    while (seen > peak && !atomic_compare_exchange_weak(&runtime->peak, &peak, seen))
        ;
}

/* How far the difference may move before the next flush. A loop that allocates and frees a
 * large block would flush twice a turn. Once it has done so for a while, a swing of that
 * size needs no flush. */
static int64_t next_distance(struct tarn__shard *shard, int64_t moved)
{
    bool undone = moved == -shard->moved && moved != 0;
    int64_t size = moved < 0 ? -moved : moved;

    shard->swings = undone ? shard->swings + 1 : 0;
    shard->moved = moved;
    return shard->swings < TARN__SWINGS || size > TARN__LARGEST_SWING ||
                   size < TARN__FLUSH
               ? TARN__FLUSH
               : size;
}

__attribute__((cold)) void tarn__count_flush(struct tarn__shard *shard)
{
    tarn_runtime *runtime = shard->runtime;
    int64_t now = tarn__count_difference(shard);
    int64_t flushed = atomic_load_explicit(&shard->flushed, memory_order_relaxed);
    int64_t high = atomic_load_explicit(&shard->high, memory_order_relaxed);

    int64_t before = atomic_fetch_add(&runtime->live, now - flushed);
    raise_peak(runtime, before + high - flushed);
    atomic_store_explicit(&shard->flushed, now, memory_order_relaxed);
    atomic_store_explicit(&shard->high, now, memory_order_relaxed);
    int64_t distance = next_distance(shard, now - flushed);
    shard->low = now - distance;
    shard->over = now + distance;
}

/* A thread without a shard counts in the instance itself. */
void tarn__count_made_shared(tarn_runtime *runtime, size_t bytes, bool mi)
{
    struct tarn__counters *counters = &runtime->folded;

    atomic_fetch_add(&counters->histogram[tarn__count_bucket(bytes)], 1);
    if (!mi)
        atomic_fetch_add(&counters->raw_alloc, 1);
    tarn__count_bytes_shared(runtime, bytes, 0);
}

void tarn__count_gone_shared(tarn_runtime *runtime, size_t bytes, bool mi)
{
    struct tarn__counters *counters = &runtime->folded;

    tarn__count_bytes_shared(runtime, 0, bytes);
    atomic_fetch_add(mi ? &counters->mi_free : &counters->raw_free, 1);
}

void tarn__count_bytes_shared(tarn_runtime *runtime, size_t made, size_t gone)
{
    atomic_fetch_add(&runtime->folded.bytes_made, made);
    atomic_fetch_add(&runtime->folded.bytes_gone, gone);
    int64_t more = (int64_t)(made - gone);
    raise_peak(runtime, atomic_fetch_add(&runtime->live, more) + more);
}
