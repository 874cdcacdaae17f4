/* search.c -- the slow path of an allocation: the steps, and their order.
 *
 * The steps are a table. Each returns a block or none, and then the pool tries the next
 * one. They go from cheap to expensive: immediately available memory; frees that turn out
 * to be completed; coalesced neighbours; another stream's memory after a wait; more
 * memory. When there is no more, the last steps are all deferred memory, the user's
 * callbacks, and a device-wide wait.
 */
#include "pool/search.h"
#include "nvtx/ranges.h"
#include "pool/blocks/runs.h"
#include "pool/blocks/take.h"
#include "pool/cache/thread_cache.h"
#include "pool/compact/background.h"
#include "pool/compact/grow.h"
#include "pool/compact/reclaimable.h"
#include "pool/follow/follow.h"
#include "pool/oom_callback.h"
#include "pool/order/capture.h"
#include "pool/order/fence.h"
#include "pool/order/no_stream.h"
#include "pool/order/steal.h"
#include "pool/pool.h"
#include "pool/report.h"

struct search {
    struct tarn__caller *caller;
    const struct tarn__request *request;
    unsigned attempts;   /* number of callbacks that freed memory */
    tarn_error upstream; /* the last failure of growth */
};

static tarn__index available(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;

    tarn__pool_lock(pool);
    tarn__captures_collect(pool);
    tarn__index index = tarn__caller_take(search->caller, search->request);
    tarn__pool_unlock(pool);
    return index;
}

/* Search again with the last-freed blocks of all threads, which a loop would
 * reuse itself. */
static tarn__index last_freed_blocks(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;
    tarn__index index = 0;

    tarn__pool_lock(pool);
    if (tarn__thread_caches_return_last_freed(pool))
        index = tarn__caller_take(search->caller, search->request);
    tarn__pool_unlock(pool);
    return index;
}

/* Return true if another stream has free memory that needs an event fence before others
 * can use it. A capture does not count as another stream: it gets no fenced memory.
 * `lock` held. */
static bool others_have_memory(const struct tarn__caller *caller)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&caller->pool->lock);

    const struct tarn__heap *heap = &caller->pool->heap;
    bool have = false;

    for (tarn__index i = heap->with_memory.first; i && !have && !caller->capturing;
         i = tarn__heap_state(heap, i)->with_memory.next) {
        const struct tarn__stream_state *stream_state = tarn__heap_state(heap, i);
        have = stream_state != caller->stream_state && stream_state->in_order &&
               !stream_state->is_capture;
    }
    return have;
}

static tarn__index missed(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;

    tarn__pool_lock(pool);
    pool->heap.misses++;
    pool->is_shared = pool->is_shared || others_have_memory(search->caller);
    tarn__pool_unlock(pool);
    return 0;
}

/* Event fences that a miss queries: more would cost more than the memory is worth. Where
 * the device is far behind, the next misses can skip the query. */
enum { QUERIES = 4 };

static tarn__index completed_now(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;

    tarn__pool_lock(pool);
    bool may_query = tarn__backoff_next(&pool->miss_backoff);
    tarn__pool_unlock(pool);
    if (!may_query)
        return 0;
    bool any = tarn__fences_poll(pool, QUERIES);
    tarn__pool_lock(pool);
    tarn__backoff_note(&pool->miss_backoff, any);
    tarn__pool_unlock(pool);
    return any ? available(search) : 0;
}

static tarn__index coalesced(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;
    tarn__index index = 0;

    tarn__pool_lock(pool);
    if (tarn__runs_coalesce_for(&pool->heap, search->caller->stream_state,
                                search->request))
        index = tarn__caller_take(search->caller, search->request);
    tarn__pool_unlock(pool);
    return index;
}

static tarn__index stolen(struct search *search)
{
    tarn__index index = tarn__steal(search->caller, search->request);

    if (!index)
        index = tarn__steal_run(search->caller, search->request);
    if (index || !search->caller->may_record)
        return index;
    tarn__fences_request(search->caller->pool, search->caller);
    index = tarn__steal(search->caller, search->request);
    return index ? index : tarn__steal_run(search->caller, search->request);
}

/* Free bytes below which the pool grows rather than asks other streams for event fences:
 * at most SPARE_BYTES, and 1/SPARE_PART of the pool's maximum. With less free memory the
 * same few blocks change streams all the time, and each change costs an event and a
 * wait. */
#define SPARE_BYTES ((uint64_t)32 << 20)
enum { SPARE_PART = 16 };

static bool has_little_free(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    uint64_t spare = tarn__pool_maximum(pool) / SPARE_PART;
    bool has_little = pool->heap.free_bytes < (spare < SPARE_BYTES ? spare : SPARE_BYTES);
    tarn__pool_unlock(pool);
    return has_little;
}

/* Steal what event fences cover already, and more if the pool has enough free memory. */
static tarn__index stolen_before_growth(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;

    if (pool->options.grow_first)
        return 0;
    return has_little_free(pool) ? tarn__steal(search->caller, search->request)
                                 : stolen(search);
}

/* Prepare growth: the blocks in the stream's thread caches coalesce with their
 * neighbours, and finished frees of every stream become completed. Both can then move to
 * where the request fits. Other streams' thread caches stay: without a call on those
 * streams their blocks get no event fence. */
static tarn__index prepared(struct search *search)
{
    tarn__thread_caches_drain_stream(search->caller->pool, search->caller->stream_state);
    tarn__fence_same_stream(search->caller);
    tarn__fences_poll_all(search->caller->pool);
    tarn__index index = available(search);
    return index ? index : coalesced(search);
}

/* Search again, since another thread may have grown while this one waited for its
 * turn. */
static tarn__index grown(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;
    tarn__index index;

    if (tarn__pool_take_growth(pool) != TARN_OK) {
        search->upstream = *tarn_error_last();
        return 0;
    }
    tarn__pool_assert_growth(pool);
    if (atomic_load(&pool->lifecycle)) {
        tarn__pool_leave_growth(pool);
        return 0;
    }
    size_t reserved = tarn__pages_reserved(pool->pages);
    index = available(search);
    if (!index && tarn__grow(search->caller, search->request, &index) != TARN_OK)
        search->upstream = *tarn_error_last();
    if (tarn__pages_reserved(pool->pages) > reserved)
        tarn__background_note_growth(pool);
    tarn__pool_leave_growth(pool);
    return index;
}

/* Drain the thread caches of all threads. */
static tarn__index drained(struct search *search)
{
    tarn__thread_caches_drain(search->caller->pool);
    tarn__index index = available(search);
    return index ? index : coalesced(search);
}

/* Return true if the reclaimable memory, once released, is enough together with new
 * memory. */
static bool is_enough(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;
    size_t free_bytes = 0, total_bytes = 0;

    if (!tarn__pages_is_vmm(pool->pages))
        return true;
    tarn__pages_note_call(pool->pages);
    if (search->caller->scope.calls->mem_get_info(&free_bytes, &total_bytes) !=
        CUDA_SUCCESS_)
        return false;
    tarn__pool_lock(pool);
    uint64_t reserved = tarn__pages_reserved(pool->pages),
             reclaimable = pool->heap.completed_bytes;
    uint64_t headroom = pool->limit > reserved ? pool->limit - reserved : 0;
    tarn__pool_unlock(pool);
    uint64_t wanted = (uint64_t)search->request->quanta << TARN__QUANTUM_SHIFT;
    return reclaimable + (free_bytes < headroom ? free_bytes : headroom) >= wanted;
}

/* Query every event fence, and release reclaimable memory so that it is available
 * elsewhere. */
static tarn__index reclaimed(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;
    uint64_t released = 0;

    tarn__fences_request(pool, search->caller);
    tarn__fence_same_stream(search->caller);
    tarn__fences_poll_all(pool);
    tarn__index index = available(search);
    if (!index)
        index = coalesced(search);
    if (!index && tarn__pages_is_vmm(pool->pages))
        index = grown(search);
    if (index || tarn__pool_never_moves(pool) || !is_enough(search))
        return index;
    if (tarn__pool_take_growth(pool) != TARN_OK)
        return 0;
    tarn__pool_assert_growth(pool);
    tarn__reclaimable_shrink(pool, 0, &released);
    tarn__pool_leave_growth(pool);
    return released ? grown(search) : 0;
}

/* Complete the no-stream frees if so much is deferred that the pool waits before it
 * grows. */
static tarn__index no_stream_frees(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;

    if (search->caller->capturing || !tarn__no_stream_complete(pool, search->request))
        return 0;
    tarn__index index = available(search);
    return index ? index : coalesced(search);
}

/* Complete all deferred memory. Memory is exhausted, so no byte of it stays deferred,
 * whatever the `oom_policy` is. */
static tarn__index deferred(struct search *search)
{
    return tarn__no_stream_complete(search->caller->pool, NULL) ? reclaimed(search) : 0;
}

static tarn__index waited_for_device(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;

    if (pool->options.oom_policy != TARN_POOL_OOM_SYNCHRONIZE ||
        tarn__fences_wait_for_device(pool) != TARN_OK)
        return 0;
    return reclaimed(search);
}

/* Use the planned address, if the pool follows a plan. */
static tarn__index planned(struct search *search)
{
    return search->caller->followed ? tarn__follow_search(search->caller, search->request,
                                                          search->caller->followed)
                                    : 0;
}

/* Search at the addresses of the plan, too. */
static tarn__index shared_area(struct search *search)
{
    struct tarn__pool *pool = search->caller->pool;

    if (!pool->follow || !tarn__follow_share(pool))
        return 0;
    tarn__index index = available(search);
    return index ? index : coalesced(search);
}

/* Do the same before a pool that learns has more memory than without a plan. */
static tarn__index shared_before_growth(struct search *search)
{
    const struct tarn__followed *followed = search->caller->followed;
    bool shares = followed && tarn__follow_share_before_growth(search->caller->pool,
                                                               search->request, followed);

    return shares ? available(search) : 0;
}

static tarn__index (*const steps[])(struct search *) = {
    planned,
    available,
    last_freed_blocks,
    missed,
    completed_now,
    coalesced,
    stolen_before_growth,
    no_stream_frees,
    prepared,
    shared_before_growth,
    grown,
    shared_area,
    stolen,
    drained,
    reclaimed,
    deferred,
};

static tarn__index try_steps(struct search *search)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        tarn__index index = steps[i](search);
        if (index)
            return index;
    }
    return 0;
}

/* Call the callbacks, and search again after each one that reports freed memory. A
 * callback may have reset the context. */
static tarn__index call_oom_callbacks(struct search *search, uint64_t requested)
{
    struct tarn__oom_progress progress = {.calls = search->caller->callbacks};
    struct tarn__pool *pool = search->caller->pool;
    tarn__index index = 0;

    while (!index && tarn__oom_callbacks_call(pool, requested, &progress) &&
           !tarn__pool_end_after_reset(pool)) {
        search->attempts++;
        index = try_steps(search);
    }
    search->caller->callbacks = progress.calls;
    return index;
}

/* The steps for a pool whose memory is exhausted. */
static tarn__index find_when_exhausted(struct search *search, uint64_t requested)
{
    bool has_range = tarn__ranges_begin("out of memory", requested);
    tarn__index index = call_oom_callbacks(search, requested);

    if (!index)
        index = waited_for_device(search);
    tarn__ranges_end(has_range);
    return index;
}

tarn_status tarn__search(struct tarn__caller *caller, const struct tarn__request *request,
                         uint64_t requested, tarn__index *out)
{
    struct search search = {.caller = caller, .request = request};
    tarn__index index = try_steps(&search);

    if (!index)
        index = find_when_exhausted(&search, requested);
    if (!index) {
        tarn_pool_oom_report report;
        tarn__report_fill(caller, requested, request->alignment, search.attempts,
                          &search.upstream, &report);
        return tarn__report_fail(&report);
    }
    *out = index;
    return TARN_OK;
}
