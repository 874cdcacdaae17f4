/* deallocate.c -- how the pool frees a block: three paths, tried in this order.
 *
 *    cache      The block goes into the thread cache of this stream.
 *    fast path  The thread cache identifies the stream, and the operation takes the
 *               heap's lock once.
 *    slow path  resolve.c resolves the stream.
 */
#include "pool/deallocate.h"
#include "pool/cache/grants.h"
#include "pool/cache/thread_table.h"
#include "pool/entry.h"
#include "pool/follow/follow.h"
#include "pool/live.h"
#include "pool/order/capture.h"
#include "pool/order/fence.h"
#include "pool/order/identity.h"
#include "pool/order/no_stream.h"
#include "pool/resolve.h"
#include "pool/shrink.h"
#include "base/error.h"

/* Return true if this live block is freed with the bytes and the alignment of its
 * request. */
static bool matches_request(const struct tarn__node *node, size_t bytes, size_t alignment)
{
    return tarn__node_requested(node) == bytes && tarn__node_alignment(node) == alignment;
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

    if (!tarn__live_is_still(pool, index, block))
        return tarn__live_fail(block);
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "pool: 0x%llx was allocated with %llu bytes aligned to %llu, "
                          "freed with %zu aligned to %zu",
                          block, (unsigned long long)requested,
                          (unsigned long long)its_alignment, bytes, alignment);
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
        return tarn__live_fail(block);
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
    tarn__shrink_to_threshold(pool);
    return TARN_OK;
}

/* Free a block into the no-stream state, with one lock taken. */
static tarn_status quick_put_no_stream(struct tarn__pool *pool, tarn__index index,
                                       tarn_device_ptr block)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    if (!tarn__node_claim(node, block, TARN__IN_TRANSIT))
        return tarn__live_fail(block);
    uint32_t quanta = node->quanta;
    tarn__pool_lock(pool);
    struct tarn__stream_state *stream_state =
        tarn__identity_find(&pool->heap, TARN__KEY_NO_STREAM);
    tarn__counts_note_free(&pool->counts, tarn__node_requested(node));
    if (pool->follow)
        tarn__follow_forget(pool, index, stream_state);
    tarn__heap_put(&pool->heap, index, stream_state);
    bool due = tarn__no_stream_fence_is_due(pool, quanta);
    tarn__pool_unlock(pool);
    if (due)
        tarn__no_stream_fence(pool);
    tarn__shrink_to_threshold(pool);
    return TARN_OK;
}

__attribute__((noinline)) static tarn_status free_slow(struct tarn__pool *pool,
                                                       tarn__index index,
                                                       tarn_device_ptr block,
                                                       tarn_stream stream)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    struct tarn__caller caller;
    tarn_status status = tarn__entry_begin_slow(pool, stream, &caller);

    if (status != TARN_OK)
        return tarn__pool_has_ended(pool) ? TARN_OK : status;
    if (!tarn__node_claim(node, block, TARN__IN_TRANSIT)) {
        tarn__resolve_end(&caller);
        return tarn__live_fail(block);
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
    tarn__shrink_to_threshold(pool);
    return TARN_OK;
}

/* Free a block of a stream that has no thread cache. */
__attribute__((noinline)) static tarn_status free_without_cache(struct tarn__pool *pool,
                                                                tarn__index index,
                                                                tarn_device_ptr block,
                                                                tarn_stream stream)
{
    if (tarn__entry_is_no_stream(pool, stream))
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
        tarn__entry_has_joined_capture(pool, cache))
        return free_slow(pool, index, block, stream);
    return quick_put(pool, cache, index, block, stream);
}

tarn_status tarn__deallocate_block(void *self, tarn_device_ptr block, size_t bytes,
                                   size_t alignment, tarn_stream stream)
{
    struct tarn__pool *pool = self;

    if (tarn__pool_has_ended(pool))
        return TARN_OK;
    tarn__index index = tarn__live_find(pool, block);
    if (!index)
        return tarn__live_fail(block);
    const struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    if (!matches_request(node, bytes, alignment))
        return size_mismatch(pool, index, block, bytes, alignment);
    stream = tarn__entry_effective_stream(pool, stream);
    if (tarn__pool_lifecycle(pool) || tarn__node_capture(node))
        return free_special(pool, index, block, stream);
    struct tarn__thread_cache *cache = tarn__thread_table_find(pool, stream);
    if (!cache)
        return free_without_cache(pool, index, block, stream);
    if (!tarn__thread_cache_check(pool, cache, TARN__TO_FREE))
        return free_slow(pool, index, block, stream);
    enum tarn__put put = tarn__thread_cache_put(pool, cache, index, block);
    if (put == TARN__PUT_FULL)
        return tarn__entry_has_joined_capture(pool, cache)
                   ? free_slow(pool, index, block, stream)
                   : quick_put(pool, cache, index, block, stream);
    return put == TARN__PUT_DONE ? TARN_OK : tarn__live_fail(block);
}
