/* wait_set.c -- wait sets: the event fences that a stream waits for before it uses other
 * streams' frees; and the waits that it has made. */
#include "pool/order/wait_set.h"
#include "pool/blocks/runs.h"
#include "pool/order/events.h"
#include "pool/order/identity.h"

void tarn__wait_set_note(const struct tarn__caller *caller, tarn__index source,
                         uint64_t epoch)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn__stream_state *consumer = caller->stream_state;
    struct tarn__wait *wait = &consumer->waits[source % TARN__WAITS];

    if (caller->capturing || consumer->is_capture || !consumer->in_order)
        return;
    if (TARN_MUTATION(wait_remembered_too_far))
        epoch++;
    if (wait->source != source || wait->epoch < epoch)
        *wait = (struct tarn__wait){source, epoch};
}

bool tarn__wait_set_wait_once(const struct tarn__caller *caller, tarn__index source,
                              uint64_t epoch, CUevent_ event)
{
    struct tarn__pool *pool = caller->pool;

    tarn__pool_lock(pool);
    bool must_wait = epoch > tarn__wait_set_waited(caller->stream_state, source);
    pool->counters.waits += must_wait;
    tarn__pool_unlock(pool);
    if (!must_wait)
        return true;
    if (caller->scope.calls->stream_wait_event(caller->handle, event, 0) != CUDA_SUCCESS_)
        return false;
    tarn__pool_lock(pool);
    tarn__wait_set_note(caller, source, epoch);
    tarn__pool_unlock(pool);
    return true;
}

static void add_to_wait_set(struct tarn__wait_set *wait_set,
                            struct tarn__stream_state *stream_state, uint64_t epoch)
    TARN__REQUIRES(pool_lock)
{
    unsigned i = 0;

    while (i < wait_set->count && wait_set->all[i].stream_state != stream_state)
        i++;
    if (i == wait_set->count)
        wait_set->all[wait_set->count++] =
            (struct tarn__fence_wait){stream_state, 0, NULL};
    struct tarn__fence_wait *one = &wait_set->all[i];
    if (one->epoch >= epoch)
        return;
    one->epoch = epoch;
    if (one->event) /* it needs a younger one */
        tarn__events_unpin(stream_state, one->event);
    one->event = NULL;
}

void tarn__wait_set_add(struct tarn__wait_set *wait_set,
                        const struct tarn__caller *caller, const struct tarn__run *run)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn__heap *heap = &caller->pool->heap;

    for (size_t i = 0; i < run->count; i++) {
        tarn__index source = run->stream_states[i];
        if (source && source != caller->stream_state->index &&
            run->epochs[i] > tarn__wait_set_waited(caller->stream_state, source))
            add_to_wait_set(wait_set, tarn__heap_state(heap, source), run->epochs[i]);
    }
}

void tarn__wait_set_pin(struct tarn__wait_set *wait_set, struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    for (unsigned i = 0; i < wait_set->count; i++) {
        struct tarn__fence_wait *one = &wait_set->all[i];
        if (one->event)
            continue;
        struct tarn__fence *fence =
            &one->stream_state
                 ->fences[tarn__events_fence_for(one->stream_state, one->epoch)];
        one->event = tarn__events_pin(one->stream_state, fence);
        one->epoch = fence->epoch;
    }
}

bool tarn__wait_set_wait(const struct tarn__wait_set *wait_set,
                         const struct tarn__caller *caller)
{
    bool waited = true;

    for (unsigned i = 0; i < wait_set->count; i++)
        if (!TARN_MUTATION(steal_without_wait) &&
            caller->scope.calls->stream_wait_event(caller->handle, wait_set->all[i].event,
                                                   0) != CUDA_SUCCESS_)
            waited = false;
    return waited;
}

void tarn__wait_set_release(const struct tarn__wait_set *wait_set,
                            const struct tarn__caller *caller, bool waited)
{
    tarn__assert_held(&caller->pool->lock);

    caller->pool->counters.waits += wait_set->count;
    for (unsigned i = 0; i < wait_set->count; i++) {
        const struct tarn__fence_wait *one = &wait_set->all[i];
        if (waited)
            tarn__wait_set_note(caller, one->stream_state->index, one->epoch);
        tarn__identity_unpin(&caller->pool->heap, one->stream_state, one->event);
    }
}
