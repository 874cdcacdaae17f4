/* pool.c -- the operations of the pool as a resource.
 *
 * An operation has three paths, tried in this order.
 *
 *    cache hit  The block comes from the thread cache (magazine) of this stream.
 *    fast path  The thread cache identifies the stream, and the operation takes the
 *               heap's lock once.
 *    slow path  caller.c resolves the stream, and search.c finds the memory.
 */
#include "resource/internal.h"
#include "resource/pool/magazine_hit.h"
#include "base/sizes.h"
#include "base/wait.h"
#include <stdlib.h>
#include <string.h>

_Static_assert(TARN__GRANULE == TARN_POOL_QUANTUM, "the quantum is public");

/* --- the end of a context, a device, a process --- */

tarn_status tarn__pool_gone(struct tarn__pool *pool)
{
    atomic_fetch_or(&pool->gate, TARN__GATE_OVER);
    return tarn_error_set(TARN_DRIVER_FAILURE,
                          "pool: the context of device %d was reset or the device is "
                          "lost, the pool cannot be used",
                          pool->device);
}

/* Return the lifecycle state. If it is not 0, cache hits are off. */
static unsigned gate(const struct tarn__pool *pool)
{
    return atomic_load_explicit(&((struct tarn__pool *)pool)->gate, memory_order_acquire);
}

bool tarn__pool_is_over(const struct tarn__pool *pool)
{
    return tarn__driver_gone() || (gate(pool) & TARN__GATE_OVER);
}

bool tarn__pool_check_context(struct tarn__pool *pool)
{
    if (!tarn__pool_is_over(pool) && !tarn__context_lives(pool->device, pool->life))
        atomic_fetch_or(&pool->gate, TARN__GATE_OVER);
    return tarn__pool_is_over(pool);
}

static tarn_status check_gate(struct tarn__pool *pool)
{
    if (tarn__driver_gone())
        return tarn_error_set(
            TARN_DRIVER_FAILURE,
            "pool: this process is exiting or is a forked child: no memory of device %d",
            pool->device);
    if (gate(pool) & TARN__GATE_OVER)
        return tarn__pool_gone(pool);
    if (!(gate(pool) & TARN__GATE_ASLEEP))
        return TARN_OK;
    if (pool->options.suspended_policy == TARN_POOL_SUSPENDED_RESUME)
        return tarn_pool_resume(pool->resource);
    return tarn_error_set(TARN_SUSPENDED, "pool: the pool is suspended, device %d",
                          pool->device);
}

/* --- allocate --- */

static tarn_device_ptr hand_out(struct tarn__pool *pool, tarn__index index, size_t asked,
                                size_t alignment)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    /* once it is live, another thread may free it */
    tarn_device_ptr block = node->address;

    tarn__node_go_out(node, asked, alignment);
    return block;
}

static void note_peak_out(struct tarn__pool *pool)
{
    if (pool->peak_allocated < pool->heap.out_bytes)
        pool->peak_allocated = pool->heap.out_bytes;
}

/* Fence the stream's frees: another stream needs that memory, or it is much. A thread
 * that only frees on a raw stream learns here that the handle names another stream by
 * now. It gets a thread cache for that one. */
static void fence_now(struct tarn__pool *pool, tarn_stream stream)
{
    struct tarn__caller caller;

    if (tarn__caller_begin(pool, stream, &caller) != TARN_OK)
        return;
    tarn__fence_if_due(&caller);
    tarn__magazine_make(&caller);
    tarn__caller_end(&caller);
}

/* Take a same-stream free or a completed free (magazine NULL: a completed one alone),
 * with one lock taken. */
static tarn__index quick_take(struct tarn__pool *pool, struct tarn__magazine *magazine,
                              const struct tarn__request *request, size_t asked)
{
    struct tarn__lane *lane = magazine ? magazine->lane : NULL;
    bool was_ready, no_memory;

    tarn__pool_lock(pool);
    if (magazine)
        tarn__magazine_search(pool, magazine);
    tarn__index index =
        gate(pool) ? 0
                   : tarn__heap_take(&pool->heap, lane, request, &was_ready, &no_memory);
    if (index) {
        *(was_ready ? &pool->ready : &pool->own) += 1;
        tarn__count_allocation(&pool->counts, asked);
        note_peak_out(pool);
    }
    tarn__pool_unlock(pool);
    return index;
}

static tarn_status allocate_slowly(struct tarn__pool *pool,
                                   const struct tarn__request *request, size_t asked,
                                   tarn_stream stream, tarn_device_ptr *out)
{
    struct tarn__caller caller;
    tarn__index index = 0;

    tarn__wait_ahead();
    tarn_status status = check_gate(pool);
    if (status == TARN_OK)
        status = tarn__caller_begin(pool, stream, &caller);
    if (status != TARN_OK)
        return status;
    status = tarn__search(&caller, request, asked, &index);
    /* It may have been suspended meanwhile. */
    if (status != TARN_OK && gate(pool) && (status = check_gate(pool)) == TARN_OK)
        status = tarn__search(&caller, request, asked, &index);
    tarn__pool_lock(pool);
    if (status == TARN_OK) {
        tarn__capture_note(&caller, tarn__node(&pool->heap.nodes, index));
        tarn__count_allocation(&pool->counts, asked);
        note_peak_out(pool);
        *out = hand_out(pool, index, asked, request->alignment);
    } else {
        pool->failures++;
    }
    tarn__pool_unlock(pool);
    if (!tarn__pool_is_over(pool)) /* a callback may have reset the context */
        tarn__fence_if_due(&caller);
    tarn__magazine_make(&caller);
    tarn__caller_end(&caller);
    return status;
}

static tarn_status too_large(const struct tarn__pool *pool, size_t bytes)
{
    if (pool->least_bytes > 0)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "slab: %zu bytes exceed the block size of %zu", bytes,
                              pool->most_bytes);
    return tarn_error_set(TARN_OUT_OF_MEMORY,
                          "pool: %zu bytes exceed the largest possible pool", bytes);
}

/* With TARN_POOL_NO_STREAM_SINGLE, a call without a stream means the legacy stream. */
static tarn_stream named(const struct tarn__pool *pool, tarn_stream stream)
{
    bool is_one = pool->options.no_stream_policy == TARN_POOL_NO_STREAM_SINGLE;

    return is_one && stream == TARN_STREAM_NONE ? TARN_STREAM_LEGACY : stream;
}

/* Return true if the call names no stream and the pool's context is current. A call
 * without a stream makes no driver call that would detect another context, so this
 * queries it. Without a clear answer the call takes the slow path. */
static bool is_nobody(const struct tarn__pool *pool, tarn_stream stream)
{
    unsigned long long id = 0;

    return stream == TARN_STREAM_NONE &&
           pool->calls->ctx_get_id(pool->context, &id) == CUDA_SUCCESS_ &&
           id == pool->life;
}

static tarn_status pool_allocate(void *self, size_t bytes, size_t alignment,
                                 tarn_stream stream, tarn_device_ptr *out)
{
    struct tarn__pool *pool = self;
    uint64_t taken = bytes < pool->least_bytes ? pool->least_bytes : bytes;
    uint64_t granules = (taken + TARN__GRANULE - 1) >> TARN__GRANULE_SHIFT;
    struct tarn__request request = {(uint32_t)granules, alignment};
    struct tarn__magazine *magazine;
    tarn__index index = 0;

    if (bytes > pool->most_bytes || granules > UINT32_MAX / 2 ||
        alignment > (size_t)1 << 40)
        return too_large(pool, bytes);
    stream = named(pool, stream);
    if (gate(pool) == 0 && !tarn__driver_gone()) {
        magazine = tarn__magazine_find(pool, stream);
        if (magazine && tarn__magazine_check(pool, magazine, TARN__TO_ALLOCATE)) {
            if (alignment <= TARN__GRANULE)
                index = tarn__magazine_take(pool, magazine, request.granules, bytes);
            if (!index)
                index = quick_take(pool, magazine, &request, bytes);
        } else if (is_nobody(pool, stream)) {
            index = quick_take(pool, NULL, &request, bytes);
        }
    }
    if (!index)
        return allocate_slowly(pool, &request, bytes, stream, out);
    *out = hand_out(pool, index, bytes, alignment);
    return TARN_OK;
}

/* --- deallocate --- */

__attribute__((noinline)) static tarn_status not_out(tarn_device_ptr block)
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
static bool is_as_asked(const struct tarn__pool *pool, tarn__index index, size_t bytes,
                        size_t alignment)
{
    const struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    return tarn__node_asked(node) == bytes && tarn__node_alignment(node) == alignment;
}

/* A lookup without the lock may miss a block while other threads change the tables. This
 * looks again, with the lock. */
__attribute__((noinline)) static tarn__index find_locked(struct tarn__pool *pool,
                                                         tarn_device_ptr block)
{
    if (tarn__driver_gone())
        return 0;
    tarn__pool_lock(pool);
    tarn__index index = tarn__heap_find(&pool->heap, block);
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
__attribute__((noinline)) static tarn_status not_as_asked(struct tarn__pool *pool,
                                                          tarn__index index,
                                                          tarn_device_ptr block,
                                                          size_t bytes, size_t alignment)
{
    const struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    uint64_t asked = tarn__node_asked(node), its_alignment = tarn__node_alignment(node);

    if (!is_still(pool, index, block))
        return not_out(block);
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "pool: 0x%llx was allocated with %llu bytes aligned to %llu, "
                          "freed with %zu aligned to %zu",
                          block, (unsigned long long)asked,
                          (unsigned long long)its_alignment, bytes, alignment);
}

static inline tarn__index find(struct tarn__pool *pool, tarn_device_ptr block)
{
    tarn__index index =
        tarn__addresses_look(&pool->heap.addresses, &pool->heap.nodes, block);

    return is_live(pool, index) ? index : find_locked(pool, block);
}

/* Find the node of a live block, if bytes and alignment match. */
static inline tarn_status find_live(struct tarn__pool *pool, tarn_device_ptr block,
                                    size_t bytes, size_t alignment, tarn__index *out)
{
    tarn__index index = find(pool, block);

    if (!index)
        return not_out(block);
    *out = index;
    return is_as_asked(pool, index, bytes, alignment)
               ? TARN_OK
               : not_as_asked(pool, index, block, bytes, alignment);
}

/* Release reclaimable memory above a limit that was lowered. `growth` held. */
static void shrink_to_limit(struct tarn__pool *pool)
{
    uint64_t released;

    for (int turn = 0; turn < 3; turn++) {
        tarn__pool_lock(pool);
        uint64_t reserved = tarn__pages_reserved(pool->pages), limit = pool->limit;
        uint64_t over = reserved > limit ? reserved - limit : 0;
        uint64_t free_bytes = pool->heap.free_bytes;
        tarn__pool_unlock(pool);
        atomic_store(&pool->over_limit, over > 0);
        if (over == 0 || turn == 2)
            return;
        /* Handles may be larger than the excess. */
        bool exactly = turn == 0 && free_bytes > over;
        tarn__shrink(pool, exactly ? free_bytes - over : 0, &released);
    }
}

bool tarn__pool_gives_back(const struct tarn__pool *pool)
{
    return pool->options.release_threshold_bytes > 0 ||
           atomic_load(&((struct tarn__pool *)pool)->over_limit);
}

static void shrink_to_threshold_now(struct tarn__pool *pool)
{
    uint64_t threshold = pool->options.release_threshold_bytes, released;

    if (gate(pool))
        return;
    tarn__wait_ahead();
    if (tarn__pool_check_context(pool))
        return;
    tarn__pool_lock(pool);
    bool over = threshold && pool->heap.free_bytes > threshold;
    tarn__pool_unlock(pool);
    if ((!over && !atomic_load(&pool->over_limit)) ||
        pthread_mutex_trylock(&pool->growth) != 0)
        return;
    atomic_store(&pool->grower, pthread_self());
    tarn__fences_poll_all(pool);
    if (over)
        tarn__shrink(pool, threshold, &released);
    shrink_to_limit(pool);
    tarn__growth_leave(pool);
}

static inline void shrink_to_threshold(struct tarn__pool *pool)
{
    if (tarn__pool_gives_back(pool))
        shrink_to_threshold_now(pool);
}

/* Free a block with one lock taken: as the last-freed block (the spare) of the thread
 * cache, or into the heap, in the lane of its stream. Raises the cache's capacity if its
 * blocks do not fit. */
static tarn_status quick_put(struct tarn__pool *pool, struct tarn__magazine *magazine,
                             tarn__index index, tarn_device_ptr block, tarn_stream stream)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    if (!tarn__node_claim(node, block, TARN__MOVING))
        return not_out(block);
    tarn__pool_lock(pool);
    tarn__magazine_ask(pool, magazine, tarn__node_bytes(node));
    tarn__count_free(&pool->counts, tarn__node_asked(node));
    tarn__magazine_search(pool, magazine);
    if (!tarn__magazine_keep(pool, magazine, index))
        tarn__heap_put(&pool->heap, index, magazine->lane);
    bool due = tarn__fence_is_due(pool, magazine->lane);
    tarn__pool_unlock(pool);
    if (due)
        fence_now(pool, stream);
    shrink_to_threshold(pool);
    return TARN_OK;
}

/* Free a block into the no-stream lane, with one lock taken. */
static tarn_status quick_put_nobodys(struct tarn__pool *pool, tarn__index index,
                                     tarn_device_ptr block)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    if (!tarn__node_claim(node, block, TARN__MOVING))
        return not_out(block);
    uint32_t granules = node->granules;
    tarn__pool_lock(pool);
    tarn__count_free(&pool->counts, tarn__node_asked(node));
    tarn__heap_put(&pool->heap, index,
                   tarn__heap_known_lane(&pool->heap, TARN__KEY_NOBODY));
    bool due = tarn__streamless_is_due(pool, granules);
    tarn__pool_unlock(pool);
    if (due)
        tarn__streamless_fence(pool);
    shrink_to_threshold(pool);
    return TARN_OK;
}

static tarn_status free_slowly(struct tarn__pool *pool, tarn__index index,
                               tarn_device_ptr block, tarn_stream stream)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    struct tarn__caller caller;
    tarn_status status = tarn__caller_begin(pool, stream, &caller);

    if (status != TARN_OK)
        return tarn__pool_is_over(pool) ? TARN_OK : status;
    if (!tarn__node_claim(node, block, TARN__MOVING)) {
        tarn__caller_end(&caller);
        return not_out(block);
    }
    tarn__pool_lock(pool);
    tarn__count_free(&pool->counts, tarn__node_asked(node));
    tarn__heap_put(&pool->heap, index, tarn__capture_lane_for(&caller, node));
    tarn__pool_unlock(pool);
    tarn__fence_if_due(&caller);
    tarn__magazine_make(&caller);
    tarn__caller_end(&caller);
    shrink_to_threshold(pool);
    return TARN_OK;
}

static tarn_status pool_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                   size_t alignment, tarn_stream stream)
{
    struct tarn__pool *pool = self;
    tarn__index index = 0;

    if (tarn__pool_is_over(pool))
        return TARN_OK;
    tarn_status status = find_live(pool, block, bytes, alignment, &index);
    if (status != TARN_OK)
        return status;
    stream = named(pool, stream);
    if (gate(pool) || tarn__node_capture(tarn__node(&pool->heap.nodes, index)))
        return free_slowly(pool, index, block, stream);
    struct tarn__magazine *magazine = tarn__magazine_find(pool, stream);
    if (!magazine && is_nobody(pool, stream))
        return quick_put_nobodys(pool, index, block);
    if (!magazine || !tarn__magazine_check(pool, magazine, TARN__TO_FREE))
        return free_slowly(pool, index, block, stream);
    enum tarn__put put = tarn__magazine_put(pool, magazine, index, block);
    if (put == TARN__PUT_NO_ROOM)
        return quick_put(pool, magazine, index, block, stream);
    return put == TARN__PUT_DONE ? TARN_OK : not_out(block);
}

/* --- the other operations --- */

static bool pool_supports_streams(const void *self)
{
    (void)self;
    return true;
}

/* No-stream frees stay in their own lane until a device-wide wait, and calls without a
 * stream get completed memory alone. New memory is completed if the upstream guarantees
 * it, or by the wait that growth makes. An upstream that does not support streams
 * guarantees nothing. */
static bool pool_serves_no_stream(const void *self)
{
    const struct tarn__pool *pool = self;

    return pool->options.no_stream_policy == TARN_POOL_NO_STREAM_SINGLE ||
           tarn__pages_are_done(pool->pages) || tarn__pages_is_ordered(pool->pages);
}

static tarn_status pool_block_bytes(void *self, tarn_device_ptr block, size_t *out)
{
    struct tarn__pool *pool = self;
    tarn__index index = find(pool, block);

    uint64_t asked = index ? tarn__node_asked(tarn__node(&pool->heap.nodes, index)) : 0;
    if (!index || !is_still(pool, index, block))
        return not_out(block);
    *out = asked;
    return TARN_OK;
}

static size_t pool_blocks_out(const void *self)
{
    struct tarn__pool *pool = (struct tarn__pool *)self;
    struct tarn__counts counts;
    uint64_t bytes = 0, blocks = 0;
    size_t metadata = 0;

    if (tarn__pool_check_context(pool))
        return 0;
    tarn__pool_lock(pool);
    counts = pool->counts;
    tarn__magazines_sum(pool, &counts, &bytes, &blocks, &metadata);
    tarn__pool_unlock(pool);
    return counts.allocations - counts.frees;
}

/* Return true if more is free than may stay, and some of it has no event fence to
 * query. */
static bool trim_has_to_wait(struct tarn__pool *pool, size_t keep_bytes)
{
    tarn__pool_lock(pool);
    bool may_wait = pool->options.oom_policy == TARN_POOL_OOM_SYNCHRONIZE ||
                    tarn__streamless_bytes(pool) > 0;
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

    if (tarn__pool_check_context(pool) || gate(pool)) {
        *released_out = 0;
        return TARN_OK;
    }
    status = tarn__growth_take(pool);
    if (status != TARN_OK)
        return status;
    tarn__magazines_drain(pool);
    tarn__fences_poll_all(pool);
    if (trim_has_to_wait(pool, keep_bytes))
        status = tarn__fences_barrier(pool);
    if (status == TARN_OK)
        status = tarn__shrink(pool, keep_bytes, &released);
    tarn__growth_leave(pool);
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
    size_t free_bytes = 0, total_bytes = 0, metadata = 0;
    uint64_t parked = 0, blocks = 0;
    struct tarn__counts counts = {0};
    tarn_status status = check_gate(pool);

    (void)stream;
    if (status == TARN_OK)
        status = tarn__scope_enter(pool->device, &scope);
    if (status != TARN_OK)
        return status;
    CUresult_ result = scope.calls->mem_get_info(&free_bytes, &total_bytes);
    tarn__scope_leave(&scope);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("pool", "cuMemGetInfo", result, "device %d",
                                   pool->device);
    tarn__pool_lock(pool);
    size_t reserved = tarn__pages_reserved(pool->pages);
    uint64_t room = pool->limit > reserved ? pool->limit - reserved : 0;
    uint64_t more = free_bytes < room ? free_bytes : room;
    tarn__magazines_sum(pool, &counts, &parked, &blocks, &metadata);
    uint64_t free_in_all = more + pool->heap.free_bytes + parked;
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
    .destroy = tarn__pool_destroy,
    .memory_info = pool_memory_info,
    .supports_streams = pool_supports_streams,
    .trim = pool_trim,
    .requested_bytes = pool_block_bytes,
    .live_blocks = pool_blocks_out,
    .supports_no_stream = pool_serves_no_stream,
};

tarn_status tarn__pool_of(tarn_resource *resource, const char *who,
                          struct tarn__pool **out)
{
    if (!resource || resource->ops.allocate != pool_allocate)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "%s: %s is not a pool", who,
                              resource ? resource->ops.name : "NULL");
    *out = resource->self;
    return TARN_OK;
}

tarn_status tarn_pool_set_maximum(tarn_resource *resource, size_t bytes)
{
    struct tarn__pool *pool = NULL;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status != TARN_OK)
        return status;
    if (tarn__pool_check_context(pool))
        return check_gate(pool);
    status = tarn__growth_take(pool);
    if (status != TARN_OK)
        return status;
    tarn__magazines_drain(pool);
    tarn__pool_lock(pool);
    uint64_t out_bytes = pool->heap.out_bytes;
    if (bytes == 0 || bytes >= out_bytes) {
        pool->limit = bytes ? bytes : UINT64_MAX;
        tarn__pages_may_have(pool->pages, pool->limit);
    } else {
        status =
            tarn_error_set(TARN_INVALID_ARGUMENT,
                           "pool: the maximum of %zu bytes is below the %llu live bytes",
                           bytes, (unsigned long long)out_bytes);
    }
    tarn__pool_unlock(pool);
    if (status == TARN_OK && !gate(pool)) {
        tarn__fences_poll_all(pool);
        shrink_to_limit(pool);
    }
    tarn__growth_leave(pool);
    return status;
}
