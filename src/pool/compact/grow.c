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

static tarn_status grow_segment(struct tarn__caller *caller,
                                const struct tarn__request *request, tarn__index *out)
    TARN__REQUIRES(growth)
{
    struct tarn__pool *pool = caller->pool;
    uint64_t bytes = (uint64_t)request->quanta << TARN__QUANTUM_SHIFT;
    uint64_t slack =
        request->alignment > TARN__QUANTUM ? request->alignment : TARN__QUANTUM;
    struct tarn__span span;

    tarn__pool_lock(pool);
    uint64_t most = tarn__budget_headroom(pool);
    tarn__pool_unlock(pool);
    uint64_t step = tarn__handle_size_step(pool->pages, bytes + slack, most);
    if (step == 0) /* without the slack it may just fit */
        step = tarn__handle_size_step(pool->pages, bytes, most);
    if (step == 0)
        return tarn__budget_fail(pool, bytes);
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
