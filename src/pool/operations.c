/* operations.c -- the operations of the pool as a resource.
 *
 * An operation has three paths, tried in this order.
 *
 *    cache hit  The block comes from the thread cache of this stream.
 *    fast path  The thread cache identifies the stream, and the operation takes the
 *               heap's lock once.
 *    slow path  resolve.c resolves the stream, and search.c finds the memory.
 */
#include "resource/internal.h"
#include "pool/blocks/take.h"
#include "pool/cache/grants.h"
#include "pool/cache/thread_cache.h"
#include "pool/cache/thread_table.h"
#include "pool/compact/reclaimable.h"
#include "pool/follow/follow.h"
#include "pool/follow/guard.h"
#include "pool/follow/repeat.h"
#include "pool/follow/state.h"
#include "pool/order/capture.h"
#include "pool/order/fence.h"
#include "pool/order/identity.h"
#include "pool/order/no_stream.h"
#include "pool/resolve.h"
#include "pool/search.h"
#include "base/error.h"
#include "base/size.h"
#include "base/blocking_hook.h"
#include "driver/stream.h"
#include <stdlib.h>
#include <string.h>

_Static_assert(TARN__QUANTUM == TARN_POOL_QUANTUM, "the quantum is public");

/* --- lifecycle --- */

static tarn_status check_lifecycle(struct tarn__pool *pool)
{
    if (tarn__driver_gone())
        return tarn_error_set(
            TARN_DRIVER_FAILURE,
            "pool: this process is exiting or is a forked child: no memory of device %d",
            pool->device);
    if (tarn__pool_lifecycle(pool) & TARN__POOL_ENDED)
        return tarn__pool_fail_ended(pool);
    if (!(tarn__pool_lifecycle(pool) & TARN__POOL_SUSPENDED))
        return TARN_OK;
    if (pool->options.suspended_policy == TARN_POOL_SUSPENDED_RESUME)
        return tarn_pool_resume(pool->resource);
    return tarn_error_set(TARN_SUSPENDED, "pool: the pool is suspended, device %d",
                          pool->device);
}

/* --- allocate --- */

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

/* Fence the stream's frees: another stream needs that memory, or it is much. A thread
 * that only frees on a raw stream learns here that the handle names another stream by
 * now. It gets a thread cache for that one. */
static void fence_now(struct tarn__pool *pool, tarn_stream stream)
{
    struct tarn__caller caller;

    if (tarn__resolve_begin(pool, stream, &caller) != TARN_OK)
        return;
    tarn__fence_if_due(&caller);
    tarn__thread_table_make(&caller);
    tarn__resolve_end(&caller);
}

/* Return true if a registered stream captures, without an announcement for it: an event
 * of a capturing stream makes a stream join the capture. A cache hit does not query that.
 * The operation then takes the slow path. */
__attribute__((noinline)) static bool has_joined_capture(
    const struct tarn__pool *pool, const struct tarn__thread_cache *cache)
{
    /* A raw stream is checked already. The legacy stream cannot capture, and a query of it
     * fails where no context is current. */
    if (!cache->registration || cache->key == TARN__KEY_LEGACY)
        return false;
    tarn__blocking_hook_call();
    return tarn__stream_may_capture(pool->calls, cache->handle) &&
           !TARN_MUTATION(refill_in_capture);
}

/* Begin an operation on the slow path. In a capture of a registered stream that was not
 * announced, drain the thread caches of the stream. No later call of the capture is a
 * hit then, whatever path this one took. */
static tarn_status begin_slow(struct tarn__pool *pool, tarn_stream stream,
                              struct tarn__caller *caller)
{
    tarn_status status = tarn__resolve_begin(pool, stream, caller);

    if (status != TARN_OK || !caller->capturing || !caller->registration ||
        atomic_load(&caller->registration->captures) ||
        TARN_MUTATION(cache_kept_in_capture))
        return status;
    struct tarn__thread_cache *cache = tarn__thread_table_find(pool, stream);
    if (cache) {
        tarn__pool_lock(pool);
        tarn__thread_cache_before_search(pool, cache);
        tarn__pool_unlock(pool);
    }
    tarn__thread_caches_drain_registered(pool, caller->registration);
    return TARN_OK;
}

/* Take a same-stream free or a completed free (cache NULL: a completed one alone),
 * with one lock taken. */
__attribute__((always_inline)) static inline tarn__index quick_take(
    struct tarn__pool *pool, struct tarn__thread_cache *cache,
    const struct tarn__request *request, size_t requested)
{
    struct tarn__stream_state *stream_state = cache ? cache->stream_state : NULL;
    bool was_completed, no_memory;

    if (cache && has_joined_capture(pool, cache))
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
    tarn_status status = check_lifecycle(pool);
    if (status == TARN_OK)
        status = begin_slow(pool, stream, &caller);
    if (status != TARN_OK)
        return status;
    caller.followed = followed;
    status = tarn__search(&caller, request, requested, &index);
    /* It may have been suspended meanwhile. */
    if (status != TARN_OK && tarn__pool_lifecycle(pool) &&
        (status = check_lifecycle(pool)) == TARN_OK)
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

/* With TARN_POOL_NO_STREAM_SINGLE, a call without a stream means the legacy stream. */
static tarn_stream effective_stream(const struct tarn__pool *pool, tarn_stream stream)
{
    bool is_one = pool->options.no_stream_policy == TARN_POOL_NO_STREAM_SINGLE;

    return is_one && stream == TARN_STREAM_NONE ? TARN_STREAM_LEGACY : stream;
}

/* Return true if the call names no stream and the pool's context is current. A call
 * without a stream makes no driver call that would detect another context, so this
 * queries it. Without a clear answer the call takes the slow path. */
static bool is_no_stream(const struct tarn__pool *pool, tarn_stream stream)
{
    unsigned long long id = 0;

    return stream == TARN_STREAM_NONE &&
           pool->calls->ctx_get_id(pool->context, &id) == CUDA_SUCCESS_ &&
           id == pool->context_generation;
}

/* Return the quanta of a request. */
static inline uint64_t quanta_of(const struct tarn__pool *pool, size_t bytes)
{
    uint64_t taken = bytes < pool->least_bytes ? pool->least_bytes : bytes;

    return (taken + TARN__QUANTUM - 1) >> TARN__QUANTUM_SHIFT;
}

static inline bool caches_are_on(const struct tarn__pool *pool)
{
    return tarn__pool_lifecycle(pool) == 0 && !tarn__driver_gone();
}

/* Take the block at the planned address, with one lock taken. */
static tarn__index quick_planned(struct tarn__pool *pool,
                                 struct tarn__thread_cache *cache,
                                 const struct tarn__request *request, size_t requested,
                                 struct tarn__followed *followed)
{
    tarn__index index = 0;

    if (has_joined_capture(pool, cache))
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

static tarn_status pool_trim(void *self, size_t keep_bytes, size_t *released_out);

/* Return the free memory of a pool to the device. The pool then maps new memory at the addresses
 * of a new plan, or in larger handles once it has ended learning. Between two steps nearly all
 * memory is free. Without this the pool would have both. Where it cannot wait for the device,
 * the pages move one by one. */
static void return_free_memory(struct tarn__pool *pool)
{
    struct tarn__kept_error words = tarn__error_keep();
    size_t released;

    if (pool_trim(pool, 0, &released) != TARN_OK)
        tarn__error_restore(&words);
}

/* Begin a step of a pool that has a plan, or learns one. */
static void begin_step(struct tarn__pool *pool)
{
    if (tarn__follow_mark(pool))
        return_free_memory(pool);
    tarn__guard_warn(pool);
}

/* End a repeat of the thread on a stream, before its thread cache is not used. */
static void end_repeat(struct tarn__pool *pool, tarn_stream stream)
{
    struct tarn__thread_cache *cache =
        caches_are_on(pool) ? tarn__thread_table_find(pool, stream) : NULL;

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

    if (caches_are_on(pool) && tarn__follow_detect(pool, request->quanta)) {
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
    if (cache || (caches_are_on(pool) && is_no_stream(pool, stream)))
        index = quick_take(pool, cache, &request, bytes);
    if (!index)
        return allocate_slow(pool, &request, bytes, stream, NULL, out);
    *out = make_live(pool, index, bytes, alignment);
    return TARN_OK;
}

static tarn_status pool_allocate(void *self, size_t bytes, size_t alignment,
                                 tarn_stream stream, tarn_device_ptr *out)
{
    struct tarn__pool *pool = self;
    struct tarn__thread_cache *cache = NULL;

    stream = effective_stream(pool, stream);
    if (caches_are_on(pool))
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

/* --- deallocate --- */

__attribute__((noinline)) static tarn_status not_live(tarn_device_ptr block)
{
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "pool: 0x%llx is not a live allocation of this resource",
                          block);
}

static bool is_live(const struct tarn__pool *pool, tarn__index index)
{
    return index && atomic_load_explicit(&tarn__node(&pool->heap.nodes, index)->state,
                                         memory_order_acquire) == TARN__LIVE;
}

/* Return true if this live block is freed with the bytes and the alignment of its
 * request. */
static bool matches_request(const struct tarn__node *node, size_t bytes, size_t alignment)
{
    return tarn__node_requested(node) == bytes && tarn__node_alignment(node) == alignment;
}

/* A lookup without the lock may miss a block while the table grows, or while other threads
 * change it. This looks again, in the end with the lock. */
__attribute__((noinline)) static tarn__index find_again(struct tarn__pool *pool,
                                                        tarn_device_ptr block)
{
    tarn__index index =
        tarn__addresses_look_in_older(&pool->heap.addresses, &pool->heap.nodes, block);

    if (is_live(pool, index) || tarn__driver_gone())
        return is_live(pool, index) ? index : 0;
    tarn__pool_lock(pool);
    index = tarn__heap_find(&pool->heap, block);
    tarn__pool_unlock(pool);
    return is_live(pool, index) ? index : 0;
}

/* Return true if it is still this block. Another thread may free it at any time. */
static bool is_still(const struct tarn__pool *pool, tarn__index index,
                     tarn_device_ptr block)
{
    return is_live(pool, index) &&
           tarn__node_address(tarn__node(&pool->heap.nodes, index)) == block;
}

/* Return the error of a rejected free. */
__attribute__((noinline)) static tarn_status size_mismatch(struct tarn__pool *pool,
                                                           tarn__index index,
                                                           tarn_device_ptr block,
                                                           size_t bytes, size_t alignment)
{
    const struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    uint64_t requested = tarn__node_requested(node),
             its_alignment = tarn__node_alignment(node);

    if (!is_still(pool, index, block))
        return not_live(block);
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "pool: 0x%llx was allocated with %llu bytes aligned to %llu, "
                          "freed with %zu aligned to %zu",
                          block, (unsigned long long)requested,
                          (unsigned long long)its_alignment, bytes, alignment);
}

static inline tarn__index find(struct tarn__pool *pool, tarn_device_ptr block)
{
    tarn__index index =
        tarn__addresses_look(&pool->heap.addresses, &pool->heap.nodes, block);

    return is_live(pool, index) ? index : find_again(pool, block);
}

/* Release reclaimable memory above a limit that was lowered. `growth` held. */
static void shrink_to_limit(struct tarn__pool *pool) TARN__REQUIRES(growth)
{
    tarn__assert_held(&pool->growth);

    uint64_t released;

    for (int turn = 0; turn < 3; turn++) {
        tarn__pool_lock(pool);
        uint64_t reserved = tarn__pages_reserved(pool->pages), limit = pool->limit;
        uint64_t over = reserved > limit ? reserved - limit : 0;
        uint64_t free_bytes = pool->heap.free_bytes;
        tarn__pool_unlock(pool);
        atomic_store(&pool->over_limit, over > 0 && !tarn__pool_never_moves(pool));
        if (over == 0 || turn == 2)
            return;
        /* Handles may be larger than the excess. */
        bool exactly = turn == 0 && free_bytes > over;
        tarn__reclaimable_shrink(pool, exactly ? free_bytes - over : 0, &released);
    }
}

static void shrink_to_threshold_now(struct tarn__pool *pool)
{
    uint64_t threshold = pool->options.release_threshold_bytes, released;

    if (tarn__pool_lifecycle(pool))
        return;
    tarn__blocking_hook_call();
    if (tarn__pool_end_after_reset(pool))
        return;
    tarn__pool_lock(pool);
    bool over = threshold && pool->heap.free_bytes > threshold;
    tarn__pool_unlock(pool);
    if ((!over && !atomic_load(&pool->over_limit)) || !tarn__pool_try_growth(pool))
        return;
    tarn__fences_poll_all(pool);
    if (over)
        tarn__reclaimable_shrink(pool, threshold, &released);
    shrink_to_limit(pool);
    tarn__pool_leave_growth(pool);
}

static inline void shrink_to_threshold(struct tarn__pool *pool)
{
    if (tarn__pool_releases_memory(pool))
        shrink_to_threshold_now(pool);
}

/* Free a block with one lock taken: as the last-freed block of the thread
 * cache, or into the heap, in the state of its stream. Raises the cache's capacity if its
 * blocks do not fit. */
__attribute__((noinline)) static tarn_status quick_put(struct tarn__pool *pool,
                                                       struct tarn__thread_cache *cache,
                                                       tarn__index index,
                                                       tarn_device_ptr block,
                                                       tarn_stream stream)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    if (!tarn__node_claim(node, block, TARN__IN_TRANSIT))
        return not_live(block);
    tarn__pool_lock(pool);
    tarn__counts_note_free(&pool->counts, tarn__node_requested(node));
    cache->stream_state->last_free = pool->counts.frees;
    tarn__thread_cache_note_slow_free(pool, cache);
    bool is_put = (pool->follow && tarn__follow_put(pool, cache, index)) ||
                  (tarn__grants_raise(pool, cache, tarn__node_bytes(node)) &&
                   tarn__thread_cache_keep(pool, cache, index));
    if (!is_put) {
        tarn__thread_cache_before_search(pool, cache);
        if (!tarn__thread_cache_keep_last_freed(pool, cache, index))
            tarn__heap_put(&pool->heap, index, cache->stream_state);
    }
    bool due = tarn__fence_is_due(pool, cache->stream_state);
    tarn__pool_unlock(pool);
    if (due)
        fence_now(pool, stream);
    shrink_to_threshold(pool);
    return TARN_OK;
}

/* Free a block into the no-stream state, with one lock taken. */
static tarn_status quick_put_no_stream(struct tarn__pool *pool, tarn__index index,
                                       tarn_device_ptr block)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    if (!tarn__node_claim(node, block, TARN__IN_TRANSIT))
        return not_live(block);
    uint32_t quanta = node->quanta;
    tarn__pool_lock(pool);
    tarn__counts_note_free(&pool->counts, tarn__node_requested(node));
    if (pool->follow)
        tarn__follow_forget(pool, index,
                            tarn__identity_find(&pool->heap, TARN__KEY_NO_STREAM));
    tarn__heap_put(&pool->heap, index,
                   tarn__identity_find(&pool->heap, TARN__KEY_NO_STREAM));
    bool due = tarn__no_stream_fence_is_due(pool, quanta);
    tarn__pool_unlock(pool);
    if (due)
        tarn__no_stream_fence(pool);
    shrink_to_threshold(pool);
    return TARN_OK;
}

__attribute__((noinline)) static tarn_status free_slow(struct tarn__pool *pool,
                                                       tarn__index index,
                                                       tarn_device_ptr block,
                                                       tarn_stream stream)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    struct tarn__caller caller;
    tarn_status status = begin_slow(pool, stream, &caller);

    if (status != TARN_OK)
        return tarn__pool_has_ended(pool) ? TARN_OK : status;
    if (!tarn__node_claim(node, block, TARN__IN_TRANSIT)) {
        tarn__resolve_end(&caller);
        return not_live(block);
    }
    tarn__pool_lock(pool);
    tarn__counts_note_free(&pool->counts, tarn__node_requested(node));
    caller.stream_state->last_free = pool->counts.frees;
    if (pool->follow)
        tarn__follow_forget(pool, index, caller.stream_state);
    tarn__heap_put(&pool->heap, index, tarn__capture_state_for_free(&caller, node));
    tarn__pool_unlock(pool);
    tarn__fence_if_due(&caller);
    tarn__thread_table_make(&caller);
    tarn__resolve_end(&caller);
    shrink_to_threshold(pool);
    return TARN_OK;
}

/* Free a block of a stream that has no thread cache. */
__attribute__((noinline)) static tarn_status free_without_cache(struct tarn__pool *pool,
                                                                tarn__index index,
                                                                tarn_device_ptr block,
                                                                tarn_stream stream)
{
    if (is_no_stream(pool, stream))
        return quick_put_no_stream(pool, index, block);
    return free_slow(pool, index, block, stream);
}

/* Free a block of a capture, a planned one, or any while the pool is suspended. */
__attribute__((noinline)) static tarn_status free_special(struct tarn__pool *pool,
                                                          tarn__index index,
                                                          tarn_device_ptr block,
                                                          tarn_stream stream)
{
    const struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    if (tarn__pool_lifecycle(pool) || tarn__node_capture(node) != TARN__NODE_PLANNED)
        return free_slow(pool, index, block, stream);
    struct tarn__thread_cache *cache = tarn__thread_table_find(pool, stream);
    if (!cache)
        return free_without_cache(pool, index, block, stream);
    if (!tarn__thread_cache_check(pool, cache, TARN__TO_FREE) ||
        has_joined_capture(pool, cache))
        return free_slow(pool, index, block, stream);
    return quick_put(pool, cache, index, block, stream);
}

static tarn_status pool_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                   size_t alignment, tarn_stream stream)
{
    struct tarn__pool *pool = self;

    if (tarn__pool_has_ended(pool))
        return TARN_OK;
    tarn__index index = find(pool, block);
    if (!index)
        return not_live(block);
    const struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    if (!matches_request(node, bytes, alignment))
        return size_mismatch(pool, index, block, bytes, alignment);
    stream = effective_stream(pool, stream);
    if (tarn__pool_lifecycle(pool) || tarn__node_capture(node))
        return free_special(pool, index, block, stream);
    struct tarn__thread_cache *cache = tarn__thread_table_find(pool, stream);
    if (!cache)
        return free_without_cache(pool, index, block, stream);
    if (!tarn__thread_cache_check(pool, cache, TARN__TO_FREE))
        return free_slow(pool, index, block, stream);
    enum tarn__put put = tarn__thread_cache_put(pool, cache, index, block);
    if (put == TARN__PUT_FULL)
        return has_joined_capture(pool, cache)
                   ? free_slow(pool, index, block, stream)
                   : quick_put(pool, cache, index, block, stream);
    return put == TARN__PUT_DONE ? TARN_OK : not_live(block);
}

/* --- the other operations --- */

static bool pool_supports_streams(const void *self)
{
    (void)self;
    return true;
}

/* No-stream frees stay in their own stream state until a device-wide wait, and calls
 * without a stream get completed memory alone. New memory is completed if the upstream
 * guarantees it, or by the wait that growth makes. An upstream that does not support
 * streams guarantees nothing. */
static bool pool_supports_no_stream(const void *self)
{
    const struct tarn__pool *pool = self;

    return pool->options.no_stream_policy == TARN_POOL_NO_STREAM_SINGLE ||
           tarn__pages_are_done(pool->pages) || tarn__pages_is_ordered(pool->pages);
}

static tarn_status pool_requested_bytes(void *self, tarn_device_ptr block, size_t *out)
{
    struct tarn__pool *pool = self;
    tarn__index index = find(pool, block);

    uint64_t requested =
        index ? tarn__node_requested(tarn__node(&pool->heap.nodes, index)) : 0;
    if (!index || !is_still(pool, index, block))
        return not_live(block);
    *out = requested;
    return TARN_OK;
}

static size_t pool_live_blocks(const void *self)
{
    struct tarn__pool *pool = (struct tarn__pool *)self;
    struct tarn__thread_cache_sums sums;

    if (tarn__pool_end_after_reset(pool))
        return 0;
    tarn__pool_lock(pool);
    tarn__thread_caches_sum(pool, &sums);
    tarn__pool_unlock(pool);
    /* Other threads count between the reads of two caches. */
    return sums.counts.allocations > sums.counts.frees
               ? sums.counts.allocations - sums.counts.frees
               : 0;
}

/* Return true if more is free than may stay, and some of it has no event fence to
 * query. */
static bool trim_needs_wait(struct tarn__pool *pool, size_t keep_bytes)
{
    tarn__pool_lock(pool);
    bool may_wait = pool->options.oom_policy == TARN_POOL_OOM_SYNCHRONIZE ||
                    tarn__no_stream_bytes(pool) > 0;
    bool waits =
        pool->heap.free_bytes > keep_bytes && pool->heap.unfenced_bytes > 0 && may_wait;
    tarn__pool_unlock(pool);
    return waits;
}

static tarn_status pool_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    struct tarn__pool *pool = self;
    uint64_t released = 0;
    tarn_status status;

    if (tarn__pool_end_after_reset(pool) || tarn__pool_lifecycle(pool)) {
        *released_out = 0;
        return TARN_OK;
    }
    status = tarn__pool_take_growth(pool);
    if (status != TARN_OK)
        return status;
    tarn__pool_assert_growth(pool);
    tarn__thread_caches_drain(pool);
    tarn__fences_poll_all(pool);
    if (trim_needs_wait(pool, keep_bytes))
        status = tarn__fences_wait_for_device(pool);
    if (status == TARN_OK)
        status = tarn__reclaimable_shrink(pool, keep_bytes, &released);
    tarn__pool_leave_growth(pool);
    if (status == TARN_OK)
        *released_out = released;
    return status;
}

/* Report the device's free memory, and the pool's free part of it, thread-cached blocks
 * included. The sum can exceed the total: over pinned or managed memory, the pool's free
 * memory is not the device's. Other threads also move memory between the two queries. */
static tarn_status pool_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                    size_t *total_out)
{
    struct tarn__pool *pool = self;
    struct tarn__scope scope;
    size_t free_bytes = 0, total_bytes = 0;
    struct tarn__thread_cache_sums sums;
    tarn_status status = check_lifecycle(pool);

    (void)stream;
    if (status == TARN_OK)
        status = tarn__scope_enter(pool->device, &scope);
    if (status != TARN_OK)
        return status;
    tarn__pages_note_call(pool->pages);
    CUresult_ result = scope.calls->mem_get_info(&free_bytes, &total_bytes);
    tarn__scope_leave(&scope);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemGetInfo", result, "device %d",
                                   pool->device);
    tarn__pool_lock(pool);
    tarn__thread_caches_sum(pool, &sums);
    size_t reserved = tarn__pages_reserved(pool->pages);
    uint64_t room = pool->limit > reserved ? pool->limit - reserved : 0;
    uint64_t more = free_bytes < room ? free_bytes : room;
    uint64_t free_in_all = more + pool->heap.free_bytes + sums.bytes;
    *total_out = pool->limit < total_bytes ? pool->limit : total_bytes;
    *free_out = free_in_all < *total_out ? free_in_all : *total_out;
    tarn__pool_unlock(pool);
    return TARN_OK;
}

/* --- the pool as a resource --- */

const tarn_resource_ops tarn__pool_ops = {
    .size = sizeof tarn__pool_ops,
    .name = "pool",
    .allocate = pool_allocate,
    .deallocate = pool_deallocate,
    .memory_info = pool_memory_info,
    .supports_streams = pool_supports_streams,
    .trim = pool_trim,
    .requested_bytes = pool_requested_bytes,
    .live_blocks = pool_live_blocks,
    .supports_no_stream = pool_supports_no_stream,
};

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

tarn_status tarn_pool_set_maximum(tarn_resource *resource, size_t bytes)
{
    struct tarn__pool *pool = NULL;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status != TARN_OK)
        return status;
    if (tarn__pool_end_after_reset(pool))
        return check_lifecycle(pool);
    status = tarn__pool_take_growth(pool);
    if (status != TARN_OK)
        return status;
    tarn__pool_assert_growth(pool);
    tarn__thread_caches_drain(pool);
    tarn__pool_lock(pool);
    uint64_t allocated_bytes = pool->heap.allocated_bytes;
    if (bytes == 0 || bytes >= allocated_bytes) {
        pool->limit = bytes ? bytes : UINT64_MAX;
        tarn__pages_set_maximum(pool->pages, pool->limit);
    } else {
        status =
            tarn_error_set(TARN_INVALID_ARGUMENT,
                           "pool: the maximum of %zu bytes is below the %llu live bytes",
                           bytes, (unsigned long long)allocated_bytes);
    }
    tarn__pool_unlock(pool);
    if (status == TARN_OK && !tarn__pool_lifecycle(pool)) {
        tarn__fences_poll_all(pool);
        shrink_to_limit(pool);
    }
    tarn__pool_leave_growth(pool);
    return status;
}
