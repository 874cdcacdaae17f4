/* steal.c -- cross-stream reuse: another stream's memory, after a wait.
 *
 * The caller's stream waits for an event fence. The fence covers all the work that the
 * source stream queued before it freed the block. A split-off part stays with the source
 * stream, with its event fence. A stream that has waited for an event fence does not wait
 * again for the frees that it covers (wait_set.h). From then on the block is in the order
 * of the caller's stream. When it is freed there, it gets that stream's open epoch, whose
 * event is recorded after the wait.
 */
#include "pool/order/steal.h"
#include "pool/blocks/runs.h"
#include "pool/blocks/take.h"
#include "pool/order/events.h"
#include "pool/order/identity.h"
#include "pool/order/wait_set.h"

#define NODE(index) tarn__node(&heap->nodes, (index))

/* --- one block --- */

struct source {
    const struct tarn__heap *heap;
    const struct tarn__stream_state *stream_state;
    const struct tarn__request *request;
    uint64_t epoch; /* the youngest that is suitable */
};

/* Return true if a published event fence covers this block of the source stream, and it
 * is large enough. */
static bool is_fenced(const void *data, const struct tarn__node *node)
    TARN__REQUIRES(pool_lock)
{
    const struct source *source = data;

    return node->epoch <= source->epoch &&
           tarn__stream_state_has_fenced(source->stream_state, node) &&
           tarn__take_fits(source->heap, source->request, node);
}

/* Find the best block of one source stream: of the smallest, one that needs no wait. */
static tarn__index find_in(const struct tarn__heap *heap,
                           const struct tarn__stream_state *consumer,
                           const struct tarn__stream_state *other,
                           const struct tarn__request *request) TARN__REQUIRES(pool_lock)
{
    struct source source = {heap, other, request, UINT64_MAX};
    uint64_t waited = tarn__wait_set_waited(consumer, other->index);
    tarn__index found = tarn__bins_find(&other->free.bins, &heap->nodes, request->quanta,
                                        UINT32_MAX, is_fenced, &source);

    if (!found || NODE(found)->epoch <= waited || !waited)
        return found;
    source.epoch = waited;
    tarn__index unwaited = tarn__bins_find(
        &other->free.bins, &heap->nodes, request->quanta, UINT32_MAX, is_fenced, &source);
    return unwaited && NODE(unwaited)->quanta == NODE(found)->quanta ? unwaited : found;
}

/* Source streams considered. With more streams than this the others have their turn
 * later: a stream state moves to the front of the list when it gets an event fence after
 * it had none, or memory. */
enum { SOURCES_MAX = 64 };

tarn__index tarn__steal_from_source(struct tarn__heap *heap,
                                    const struct tarn__stream_state *stream_state,
                                    const struct tarn__request *request,
                                    struct tarn__stream_state **source_out,
                                    uint64_t *epoch_out)
{
    tarn__index best = 0;
    int looks = 0;

    for (tarn__index i = heap->with_fences.first; i && looks < SOURCES_MAX;
         i = tarn__heap_state(heap, i)->with_fences.next, looks++) {
        struct tarn__stream_state *other = tarn__heap_state(heap, i);
        if (other == stream_state || other->is_capture)
            continue;
        tarn__index found = find_in(heap, stream_state, other, request);
        if (found && (!best || NODE(found)->quanta < NODE(best)->quanta))
            best = found;
    }
    if (!best)
        return 0;
    struct tarn__stream_state *source = tarn__heap_state(heap, NODE(best)->stream_state);
    uint64_t epoch = NODE(best)->epoch;
    best = tarn__take_request(heap, best, request);
    if (!best)
        return 0;
    *source_out = source;
    *epoch_out = epoch;
    return best;
}

struct steal {
    struct tarn__stream_state *source;
    uint64_t epoch; /* of the fence */
    CUevent_ event; /* NULL: the stream has waited already */
    tarn__index block;
};

/* Choose a block, and pin its fence if the stream must wait. `lock` held. */
static bool choose(struct tarn__caller *caller, const struct tarn__request *request,
                   struct steal *out) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn__pool *pool = caller->pool;
    uint64_t epoch;

    *out = (struct steal){0};
    out->block = tarn__steal_from_source(&pool->heap, caller->stream_state, request,
                                         &out->source, &epoch);
    if (!out->block)
        return false;
    if (epoch <= tarn__wait_set_waited(caller->stream_state, out->source->index)) {
        pool->counters.steals++;
        /* its last block may be gone */
        tarn__identity_delete_if_unused(&pool->heap, out->source);
        return true;
    }
    struct tarn__fence *fence =
        &out->source->fences[tarn__events_fence_for(out->source, epoch)];
    out->epoch = fence->epoch;
    out->event = tarn__events_pin(out->source, fence);
    pool->counters.waits++;
    if (TARN_MUTATION(wait_noted_before_call))
        tarn__wait_set_note(caller, out->source->index, out->epoch);
    return true;
}

/* The bug of the mutation wait_used_in_capture: take a block for which the capturing
 * stream has waited before its capture. */
static tarn__index take_waited(struct tarn__caller *caller,
                               const struct tarn__request *request)
{
    struct tarn__heap *heap = &caller->pool->heap;
    const struct tarn__stream_state *consumer = NULL;
    struct tarn__stream_state *source;
    tarn__index block = 0;
    uint64_t epoch = 0;

    tarn__pool_lock(caller->pool);
    if (caller->registration)
        consumer = tarn__identity_find_registered(heap, caller->registration);
    if (consumer)
        block = tarn__steal_from_source(heap, consumer, request, &source, &epoch);
    if (block && epoch > tarn__wait_set_waited(consumer, source->index)) {
        tarn__heap_put(heap, block, source);
        block = 0;
    }
    tarn__pool_unlock(caller->pool);
    return block;
}

tarn__index tarn__steal(struct tarn__caller *caller, const struct tarn__request *request)
{
    struct tarn__pool *pool = caller->pool;
    struct steal steal;

    if (TARN_MUTATION(wait_used_in_capture) && caller->capturing)
        return take_waited(caller, request);
    if (!caller->may_record || caller->stream_state->is_capture ||
        atomic_load(&pool->lifecycle))
        return 0;
    tarn__pool_lock(pool);
    bool found = choose(caller, request, &steal);
    tarn__pool_unlock(pool);
    if (!found || !steal.event)
        return steal.block;
    CUresult_ result =
        TARN_MUTATION(steal_without_wait)
            ? CUDA_SUCCESS_
            : caller->scope.calls->stream_wait_event(caller->handle, steal.event, 0);
    tarn__pool_lock(pool);
    if (result == CUDA_SUCCESS_ || TARN_MUTATION(wait_failed_taken_as_done)) {
        pool->counters.steals++;
        tarn__wait_set_note(caller, steal.source->index, steal.epoch);
    } else {
        /* The stream did not wait: the block returns to the source stream, in its open
         * epoch. */
        tarn__heap_put(&pool->heap, steal.block, steal.source);
        steal.block = 0;
    }
    tarn__identity_unpin(&pool->heap, steal.source, steal.event);
    tarn__pool_unlock(pool);
    return steal.block;
}

/* --- adjacent blocks of several streams --- */

/* Take a run, and pin the event fences that cover its pieces. `lock` held; it is released
 * between parts of the search. */
static bool choose_run(struct tarn__caller *caller, const struct tarn__request *request,
                       struct tarn__run *run, struct tarn__wait_set *wait_set)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn__runs_cursor cursor = {0};

    wait_set->count = 0;
    while (tarn__runs_take_part(&caller->pool->heap, caller->stream_state, request,
                                &cursor, run))
        tarn__pool_relock(caller->pool);
    tarn__wait_set_add(wait_set, caller, run);
    tarn__wait_set_pin(wait_set, caller->pool);
    return run->count > 0;
}

tarn__index tarn__steal_run(struct tarn__caller *caller,
                            const struct tarn__request *request)
{
    struct tarn__pool *pool = caller->pool;
    struct tarn__run run;
    struct tarn__wait_set wait_set;
    tarn__index index = 0;

    if (!caller->may_record || caller->stream_state->is_capture ||
        atomic_load(&pool->lifecycle))
        return 0;
    tarn__pool_lock(pool);
    bool found = choose_run(caller, request, &run, &wait_set);
    tarn__pool_unlock(pool);
    if (!found)
        return 0;
    bool waited = tarn__wait_set_wait(&wait_set, caller) ||
                  TARN_MUTATION(wait_failed_taken_as_done);

    tarn__pool_lock(pool);
    if (waited) {
        index = tarn__runs_coalesce(&pool->heap, &run);
        pool->counters.steals++;
    } else {
        tarn__runs_put(&pool->heap, &run);
    }
    tarn__wait_set_release(&wait_set, caller, waited);
    tarn__pool_unlock(pool);
    return index;
}
