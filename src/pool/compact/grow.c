/* grow.c -- growth: what VMM and segments share, and the segments of an upstream.
 *
 * All of it runs under the growth lock, one growth at a time: a second thread that misses
 * waits for this growth instead of growing as well. The heap's lock is held only to
 * choose and to publish. In between, no other thread can reach the pages that change.
 */
#include "pool/pool.h"
#include "pool/compact/reclaimable.h"
#include "pool/backing/handle_size.h"
#include "base/error.h"

/* The largest fenced or completed neighbour that a free coalesces with, as a part of the
 * pool. In trials on bench/traces/, a smaller part kept memory in pieces, and a larger
 * one left too much of it unfenced. */
enum { ABSORB_PART = 8 };

void tarn__note_peaks(struct tarn__pool *pool)
{
    uint64_t reserved = tarn__pages_reserved(pool->pages);

    if (pool->peak_reserved < reserved)
        pool->peak_reserved = reserved;
    pool->heap.absorb_bytes = reserved / ABSORB_PART;
}

tarn_status tarn__over_limit(const struct tarn__pool *pool, uint64_t bytes)
{
    if (tarn__pages_is_vmm(pool->pages) && pool->limit > pool->device_bytes &&
        bytes > tarn__pool_headroom(pool))
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: %llu bytes more are over the device's memory, %zu "
                              "of %llu are reserved",
                              (unsigned long long)bytes,
                              tarn__pages_reserved(pool->pages),
                              (unsigned long long)pool->device_bytes);
    if (pool->limit == UINT64_MAX) /* distance of addresses with this alignment */
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: the address range has no space for %llu bytes more, "
                              "%zu bytes are reserved",
                              (unsigned long long)bytes,
                              tarn__pages_reserved(pool->pages));
    return tarn_error_set(
        TARN_OUT_OF_MEMORY,
        "pool: %llu bytes more exceed the maximum, %zu of %llu bytes are reserved",
        (unsigned long long)bytes, tarn__pages_reserved(pool->pages),
        (unsigned long long)pool->limit);
}

uint64_t tarn__pool_headroom(const struct tarn__pool *pool)
{
    size_t reserved = tarn__pages_reserved(pool->pages);
    uint64_t most =
        tarn__pages_is_vmm(pool->pages) ? tarn__pool_maximum(pool) : pool->limit;

    return most > reserved ? most - reserved : 0;
}

/* Return the lane that orders new memory; NULL: it is completed. The pool makes no
 * request to the upstream on legacy while a blocking stream captures: that would end the
 * capture. */
static struct tarn__stream_state *state_of_new_memory(const struct tarn__caller *caller)
{
    bool in_order = tarn__pages_is_ordered(caller->pool->pages) && caller->may_record;

    return in_order ? caller->stream_state : NULL;
}

/* --- segments --- */

/* Request memory in the order of `lane`. Without a lane it has to be completed, which an
 * upstream that orders by stream does not guarantee. */
static tarn_status request_from_upstream(struct tarn__pool *pool,
                                         const struct tarn__caller *caller,
                                         const struct tarn__stream_state *stream_state,
                                         size_t bytes, struct tarn__span *out)
{
    tarn_stream stream = stream_state ? (tarn_stream)caller->handle : TARN_STREAM_NONE;
    tarn_status status = tarn__pages_grow(pool->pages, 0, bytes, stream, out);

    if (status != TARN_OK || stream_state || tarn__pages_are_done(pool->pages) ||
        !tarn__pages_is_ordered(pool->pages))
        return status;
    status = tarn__pages_wait_for_device(pool->pages);
    if (status != TARN_OK) {
        struct tarn__kept_error why = tarn__error_keep();
        tarn__pages_remove(pool->pages, *out);
        tarn__error_restore(&why);
    }
    return status;
}

static tarn_status grow_segment(struct tarn__caller *caller,
                                const struct tarn__request *request, tarn__index *out)
{
    struct tarn__pool *pool = caller->pool;
    uint64_t bytes = (uint64_t)request->quanta << TARN__QUANTUM_SHIFT;
    uint64_t slack =
        request->alignment > TARN__QUANTUM ? request->alignment : TARN__QUANTUM;
    struct tarn__span span;

    tarn__pool_lock(pool);
    uint64_t most = tarn__pool_headroom(pool);
    tarn__pool_unlock(pool);
    uint64_t step = tarn__handle_size_step(pool->pages, bytes + slack, most);
    if (step == 0) /* without the slack it may just fit */
        step = tarn__handle_size_step(pool->pages, bytes, most);
    if (step == 0)
        return tarn__over_limit(pool, bytes);
    struct tarn__stream_state *stream_state = state_of_new_memory(caller);
    tarn_status status = request_from_upstream(pool, caller, stream_state, step, &span);
    if (status == TARN_OUT_OF_MEMORY && step > bytes + slack)
        status = request_from_upstream(pool, caller, stream_state, bytes + slack, &span);
    if (status != TARN_OK)
        return status;

    tarn__pool_lock(pool);
    bool added =
        tarn__ranges_add_segment(&pool->heap, span.address, span.bytes, stream_state);
    if (added) {
        *out = tarn__runs_take_block(&pool->heap, caller->stream_state, request);
        pool->grown += *out != 0;
        pool->growths++;
        tarn__note_peaks(pool);
    }
    tarn__pool_unlock(pool);
    if (!added) {
        tarn__pages_remove(pool->pages, span);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to grow");
    }
    return TARN_OK;
}

tarn_status tarn__grow(struct tarn__caller *caller, const struct tarn__request *request,
                       tarn__index *out)
{
    return tarn__pages_is_vmm(caller->pool->pages) ? tarn__grow_vmm(caller, request, out)
                                                   : grow_segment(caller, request, out);
}

tarn_status tarn__growth_take(struct tarn__pool *pool)
{
    if (pthread_equal(atomic_load(&pool->grower), pthread_self()))
        return tarn_error_set(TARN_REENTRANT_CALL,
                              "pool: the upstream of the pool of device %d called the "
                              "pool while it was growing",
                              pool->device);
    pthread_mutex_lock(&pool->growth);
    atomic_store(&pool->grower, pthread_self());
    return TARN_OK;
}

void tarn__growth_leave(struct tarn__pool *pool)
{
    atomic_store(&pool->grower, 0);
    pthread_mutex_unlock(&pool->growth);
}

tarn_status tarn__grow_by(struct tarn__pool *pool, uint64_t bytes)
{
    struct tarn__caller caller;
    struct tarn__request request = {.alignment = TARN__QUANTUM};
    tarn__index index = 0;
    tarn_status status;

    if (bytes > (uint64_t)INT32_MAX << TARN__QUANTUM_SHIFT)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: %llu bytes exceed the largest possible pool",
                              (unsigned long long)bytes);
    request.quanta = (uint32_t)((bytes + TARN__QUANTUM - 1) >> TARN__QUANTUM_SHIFT);
    status = tarn__caller_begin(pool, TARN_STREAM_NONE, &caller);
    if (status != TARN_OK)
        return status;
    status = tarn__growth_take(pool);
    if (status == TARN_OK) {
        status = tarn__grow(&caller, &request, &index);
        tarn__growth_leave(pool);
    }
    if (index) {
        tarn__pool_lock(pool);
        tarn__heap_put(&pool->heap, index, NULL);
        tarn__pool_unlock(pool);
    }
    tarn__caller_end(&caller);
    return status;
}
