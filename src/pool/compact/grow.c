/* grow.c -- growth: what VMM and segments share, and the segments of an upstream.
 *
 * All of it runs under the growth lock, one growth at a time: a second thread that misses
 * waits for this growth instead of growing as well. The heap's lock is held only to
 * choose and to publish. In between, no other thread can reach the pages that change.
 */
#include "pool/compact/grow.h"
#include "pool/backing/handle_size.h"
#include "pool/blocks/ranges.h"
#include "pool/blocks/runs.h"
#include "pool/blocks/take.h"
#include "pool/compact/budget.h"
#include "pool/compact/grow_vmm.h"
#include "pool/pool.h"
#include "base/error.h"

/* Return the stream state that orders new memory; NULL: it is completed. The pool makes
 * no request to the upstream on legacy while a blocking stream captures: that would end
 * the capture. */
static struct tarn__stream_state *state_of_new_memory(const struct tarn__caller *caller)
{
    bool in_order = tarn__pages_is_ordered(caller->pool->pages) && caller->may_record;

    return in_order ? caller->stream_state : NULL;
}

/* --- segments --- */

/* Request memory in the order of `stream_state`. Without a stream state it has to be
 * completed, which an upstream that orders by stream does not guarantee. */
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

/* Most bytes of a segment: a node has less than 2^32 quanta. */
#define SEGMENT_MAX ((uint64_t)1 << (31 + TARN__QUANTUM_SHIFT))

/* Return the bytes of a new segment, `need` or more and at most `most`; 0: there is not
 * so much. Less than a page under the maximum is a segment as well. */
static uint64_t segment_bytes(const struct tarn__pool *pool, uint64_t need, uint64_t most)
{
    if (most > SEGMENT_MAX)
        most = SEGMENT_MAX;
    uint64_t step = tarn__handle_size_step(pool->pages, need, most);

    return step > 0 || need > most ? step : most - most % TARN__QUANTUM;
}

static uint64_t alignment_of(const struct tarn__request *request)
{
    return request->alignment > TARN__QUANTUM ? request->alignment : TARN__QUANTUM;
}

/* Return true if the segment has space for the request at its alignment. */
static bool fits(const struct tarn__span *span, const struct tarn__request *request)
{
    uint64_t mask = alignment_of(request) - 1;
    uint64_t start = (span->address + mask) & ~mask;

    return start + ((uint64_t)request->quanta << TARN__QUANTUM_SHIFT) <=
           span->address + span->bytes;
}

/* Return a segment without users to the upstream. Its memory may be in the order of a
 * stream, and the upstream gets it when the device has done that work. */
static tarn_status return_segment(struct tarn__pool *pool,
                                  const struct tarn__stream_state *stream_state,
                                  struct tarn__span span)
{
    tarn_status status =
        stream_state ? tarn__pages_wait_for_device(pool->pages) : TARN_OK;

    return status == TARN_OK ? tarn__pages_remove(pool->pages, span) : status;
}

/* Obtain a segment for the request. Extra bytes for the alignment are requested only
 * after a segment that was not aligned: under a maximum they are missing elsewhere. */
static tarn_status obtain(const struct tarn__caller *caller,
                          const struct tarn__request *request, uint64_t most,
                          const struct tarn__stream_state *stream_state,
                          struct tarn__span *out) TARN__REQUIRES(growth)
{
    struct tarn__pool *pool = caller->pool;
    uint64_t bytes = (uint64_t)request->quanta << TARN__QUANTUM_SHIFT;
    uint64_t step = segment_bytes(pool, bytes, most);

    if (step == 0)
        return tarn__budget_fail(pool, bytes);
    tarn_status status = request_from_upstream(pool, caller, stream_state, step, out);
    if (status == TARN_OUT_OF_MEMORY && step > bytes)
        status = request_from_upstream(pool, caller, stream_state, bytes, out);
    if (status != TARN_OK || fits(out, request))
        return status;
    bytes += alignment_of(request);
    step = segment_bytes(pool, bytes, most);
    if (step == 0 || return_segment(pool, stream_state, *out) != TARN_OK)
        return TARN_OK; /* it is of use for other requests */
    return request_from_upstream(pool, caller, stream_state, step, out);
}

static tarn_status grow_segment(struct tarn__caller *caller,
                                const struct tarn__request *request, tarn__index *out)
    TARN__REQUIRES(growth)
{
    struct tarn__pool *pool = caller->pool;
    struct tarn__span span;

    tarn__pool_lock(pool);
    uint64_t most = tarn__budget_headroom(pool);
    tarn__pool_unlock(pool);
    struct tarn__stream_state *stream_state = state_of_new_memory(caller);
    tarn_status status = obtain(caller, request, most, stream_state, &span);
    if (status != TARN_OK)
        return status;

    tarn__pool_lock(pool);
    bool added =
        tarn__ranges_add_segment(&pool->heap, span.address, span.bytes, stream_state);
    if (added) {
        *out = tarn__runs_take_block(&pool->heap, caller->stream_state, request);
        pool->counters.grown += *out != 0;
        pool->counters.growths++;
        tarn__budget_note_peaks(pool);
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
    tarn__assert_held(&caller->pool->growth);

    return tarn__pages_is_vmm(caller->pool->pages) ? tarn__grow_vmm(caller, request, out)
                                                   : grow_segment(caller, request, out);
}
