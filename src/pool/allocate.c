/* allocate.c -- how the pool allocates a block: three paths, tried in this order.
 *
 *    cache hit  The block comes from the thread cache of this stream.
 *    fast path  The thread cache identifies the stream, and the operation takes the
 *               heap's lock once.
 *    slow path  resolve.c resolves the stream, and search.c finds the memory.
 */
#include "pool/allocate.h"
#include "pool/blocks/take.h"
#include "pool/cache/thread_table.h"
#include "pool/entry.h"
#include "pool/follow/follow.h"
#include "pool/follow/guard.h"
#include "pool/follow/repeat.h"
#include "pool/follow/state.h"
#include "pool/order/capture.h"
#include "pool/order/fence.h"
#include "pool/resolve.h"
#include "pool/search.h"
#include "pool/shrink.h"
#include "base/blocking_hook.h"
#include "base/error.h"

/* --- from the heap --- */

static tarn_device_ptr make_live(struct tarn__pool *pool, tarn__index index,
                                 size_t requested, size_t alignment)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    /* once it is live, another thread may free it */
    tarn_device_ptr block = node->address;

    tarn__node_make_live(node, requested, alignment);
    return block;
}

static void note_peak_allocated(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    if (pool->recent_peak_allocated >= pool->heap.allocated_bytes)
        return;
    pool->recent_peak_allocated = pool->heap.allocated_bytes;
    if (pool->peak_allocated < pool->heap.allocated_bytes)
        pool->peak_allocated = pool->heap.allocated_bytes;
}

/* Take a same-stream free or a completed free (cache NULL: a completed one alone),
 * with one lock taken. */
__attribute__((always_inline)) static inline tarn__index quick_take(
    struct tarn__pool *pool, struct tarn__thread_cache *cache,
    const struct tarn__request *request, size_t requested)
{
    struct tarn__stream_state *stream_state = cache ? cache->stream_state : NULL;
    bool was_completed, no_memory;

    if (cache && tarn__entry_has_joined_capture(pool, cache))
        return 0;
    tarn__pool_lock(pool);
    if (cache)
        tarn__thread_cache_before_search(pool, cache);
    tarn__index index = tarn__pool_lifecycle(pool)
                            ? 0
                            : tarn__take_block(&pool->heap, stream_state, request,
                                               &was_completed, &no_memory);
    if (index) {
        *(was_completed ? &pool->counters.completed : &pool->counters.same_stream) += 1;
        tarn__counts_note_allocation(&pool->counts, requested);
        note_peak_allocated(pool);
    }
    tarn__pool_unlock(pool);
    return index;
}

__attribute__((noinline)) static tarn_status allocate_slow(
    struct tarn__pool *pool, const struct tarn__request *request, size_t requested,
    tarn_stream stream, struct tarn__followed *followed, tarn_device_ptr *out)
{
    struct tarn__caller caller;
    tarn__index index = 0;

    tarn__blocking_hook_call();
    tarn_status status = tarn__entry_check_lifecycle(pool);
    if (status == TARN_OK)
        status = tarn__entry_begin_slow(pool, stream, &caller);
    if (status != TARN_OK)
        return status;
    caller.followed = followed;
    status = tarn__search(&caller, request, requested, &index);
    /* It may have been suspended meanwhile. */
    if (status != TARN_OK && tarn__pool_lifecycle(pool) &&
        (status = tarn__entry_check_lifecycle(pool)) == TARN_OK)
        status = tarn__search(&caller, request, requested, &index);
    tarn__pool_lock(pool);
    if (status == TARN_OK) {
        tarn__capture_note(&caller, tarn__node(&pool->heap.nodes, index));
        tarn__counts_note_allocation(&pool->counts, requested);
        note_peak_allocated(pool);
        if (followed)
            tarn__follow_note(pool, index, caller.stream_state->identity.key, followed);
        *out = make_live(pool, index, requested, request->alignment);
    } else {
        pool->counters.failures++;
    }
    tarn__pool_unlock(pool);
    if (!tarn__pool_has_ended(pool)) /* a callback may have reset the context */
        tarn__fence_if_due(&caller);
    tarn__thread_table_make(&caller);
    tarn__resolve_end(&caller);
    if (pool->follow)
        tarn__guard_warn(pool);
    return status;
}

/* Of one block: 1 TiB less a quantum. */
enum { MOST_QUANTA = UINT32_MAX / 2 };

static tarn_status too_large(const struct tarn__pool *pool, size_t bytes)
{
    if (pool->least_bytes > 0)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "slab: %zu bytes exceed the block size of %zu", bytes,
                              pool->most_bytes);
    return tarn_error_set(TARN_OUT_OF_MEMORY,
                          "pool: %zu bytes exceed the largest block of %llu bytes", bytes,
                          (unsigned long long)MOST_QUANTA << TARN__QUANTUM_SHIFT);
}

/* Return the quanta of a request. */
static inline uint64_t quanta_of(const struct tarn__pool *pool, size_t bytes)
{
    uint64_t taken = bytes < pool->least_bytes ? pool->least_bytes : bytes;

    return (taken + TARN__QUANTUM - 1) >> TARN__QUANTUM_SHIFT;
}

/* --- with a plan --- */

/* Take the block at the planned address, with one lock taken. */
static tarn__index quick_planned(struct tarn__pool *pool,
                                 struct tarn__thread_cache *cache,
                                 const struct tarn__request *request, size_t requested,
                                 struct tarn__followed *followed)
{
    tarn__index index = 0;

    if (tarn__entry_has_joined_capture(pool, cache))
        return 0;
    tarn__pool_lock(pool);
    tarn__repeat_end(pool, cache);
    if (!tarn__pool_lifecycle(pool))
        index = tarn__follow_take(pool, cache, request, followed);
    if (index) {
        tarn__counts_note_allocation(&pool->counts, requested);
        note_peak_allocated(pool);
        tarn__follow_note(pool, index, cache->key, followed);
    }
    tarn__pool_unlock(pool);
    return index;
}

/* Take a block outside of the plan, with one lock taken; a second time where the pool
 * learns. */
static tarn__index quick_unplanned(struct tarn__pool *pool,
                                   struct tarn__thread_cache *cache,
                                   const struct tarn__request *request, size_t requested,
                                   const struct tarn__followed *followed)
{
    tarn__index index = quick_take(pool, cache, request, requested);

    if (index && pool->follow->learn) {
        tarn__pool_lock(pool);
        tarn__follow_note(pool, index, cache->key, followed);
        tarn__pool_unlock(pool);
    }
    return index;
}

/* Begin a step of a pool that has a plan, or learns one. */
static void begin_step(struct tarn__pool *pool)
{
    if (tarn__follow_mark(pool))
        tarn__shrink_fully(pool);
    tarn__guard_warn(pool);
}

tarn_status tarn_pool_mark_step(tarn_resource *resource)
{
    struct tarn__pool *pool = NULL;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status == TARN_OK)
        status = tarn__driver_check();
    if (status != TARN_OK || !pool->follow)
        return status;
    tarn__follow_end_detection(pool);
    begin_step(pool);
    return TARN_OK;
}

/* End a repeat of the thread on a stream, before its thread cache is not used. */
static void end_repeat(struct tarn__pool *pool, tarn_stream stream)
{
    struct tarn__thread_cache *cache =
        tarn__entry_caches_are_on(pool) ? tarn__thread_table_find(pool, stream) : NULL;

    if (!cache)
        return;
    tarn__pool_lock(pool);
    tarn__repeat_end(pool, cache);
    tarn__pool_unlock(pool);
}

/* Allocate in a pool that has a plan, or learns one. */
__attribute__((noinline)) static tarn_status allocate_planned(
    struct tarn__pool *pool, struct tarn__thread_cache *cache,
    const struct tarn__request *request, size_t bytes, tarn_stream stream,
    tarn_device_ptr *out)
{
    struct tarn__followed followed = {.is_made = false};
    tarn__index index = 0;

    if (tarn__entry_caches_are_on(pool) && tarn__follow_detect(pool, request->quanta)) {
        tarn__blocking_hook_call();
        begin_step(pool);
        cache = NULL; /* that may take long: resolve the stream anew */
    }
    if (tarn__follow_begin(pool))
        cache = NULL;
    if (!cache)
        end_repeat(pool, stream);
    else
        index = quick_planned(pool, cache, request, bytes, &followed);
    if (cache && !index && !followed.has_slot)
        index = quick_unplanned(pool, cache, request, bytes, &followed);
    if (!index)
        return allocate_slow(pool, request, bytes, stream, &followed, out);
    *out = make_live(pool, index, bytes, request->alignment);
    return TARN_OK;
}

/* Allocate what is no cache hit. `cache` is the thread's cache if the stream is still its
 * stream, else NULL. Not inline: its frame would slow down cache hits. */
__attribute__((noinline)) static tarn_status allocate_miss(
    struct tarn__pool *pool, struct tarn__thread_cache *cache, size_t bytes,
    size_t alignment, tarn_stream stream, tarn_device_ptr *out)
{
    uint64_t quanta = quanta_of(pool, bytes);
    struct tarn__request request = {(uint32_t)quanta, alignment};
    tarn__index index = 0;

    if (bytes > pool->most_bytes || quanta > MOST_QUANTA || alignment > (size_t)1 << 40)
        return too_large(pool, bytes);
    if (pool->follow && atomic_load(&pool->follow->is_asked))
        return allocate_planned(pool, cache, &request, bytes, stream, out);
    if (cache ||
        (tarn__entry_caches_are_on(pool) && tarn__entry_is_no_stream(pool, stream)))
        index = quick_take(pool, cache, &request, bytes);
    if (!index)
        return allocate_slow(pool, &request, bytes, stream, NULL, out);
    *out = make_live(pool, index, bytes, alignment);
    return TARN_OK;
}

tarn_status tarn__allocate_block(void *self, size_t bytes, size_t alignment,
                                 tarn_stream stream, tarn_device_ptr *out)
{
    struct tarn__pool *pool = self;
    struct tarn__thread_cache *cache = NULL;

    stream = tarn__entry_effective_stream(pool, stream);
    if (tarn__entry_caches_are_on(pool))
        cache = tarn__thread_table_find(pool, stream);
    if (cache && !tarn__thread_cache_check(pool, cache, TARN__TO_ALLOCATE))
        cache = NULL;
    if (cache && bytes <= pool->most_bytes && alignment <= TARN__QUANTUM) {
        tarn__index index =
            tarn__thread_cache_take(pool, cache, (uint32_t)quanta_of(pool, bytes), bytes);
        if (index) {
            *out = make_live(pool, index, bytes, alignment);
            return TARN_OK;
        }
    }
    return allocate_miss(pool, cache, bytes, alignment, stream, out);
}
