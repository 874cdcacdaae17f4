/* wait_set.c -- wait sets: the event fences that a stream waits for before it uses other
 * streams' frees. */
#include "pool/order/wait_set.h"
#include "pool/blocks/runs.h"
#include "pool/order/events.h"
#include "pool/order/identity.h"

static void add_to_wait_set(struct tarn__wait_set *wait_set,
                            struct tarn__stream_state *stream_state, uint64_t epoch)
{
    unsigned i = 0;

    while (i < wait_set->count && wait_set->all[i].stream_state != stream_state)
        i++;
    if (i == wait_set->count)
        wait_set->all[wait_set->count++] =
            (struct tarn__fence_wait){stream_state, epoch, NULL};
    if (wait_set->all[i].epoch < epoch)
        wait_set->all[i].epoch = epoch;
}

void tarn__wait_set_add(struct tarn__wait_set *wait_set,
                        const struct tarn__caller *caller, const struct tarn__run *run)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn__heap *heap = &caller->pool->heap;

    for (size_t i = 0; i < run->count; i++)
        if (run->stream_states[i] && run->stream_states[i] != caller->stream_state->index)
            add_to_wait_set(wait_set, tarn__heap_state(heap, run->stream_states[i]),
                            run->epochs[i]);
}

void tarn__wait_set_pin(struct tarn__wait_set *wait_set, struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    for (unsigned i = 0; i < wait_set->count; i++) {
        struct tarn__fence_wait *one = &wait_set->all[i];
        size_t fence = tarn__events_fence_for(one->stream_state, one->epoch);
        one->event =
            tarn__events_pin(one->stream_state, &one->stream_state->fences[fence]);
    }
    pool->counters.waits += wait_set->count;
}

bool tarn__wait_set_wait(const struct tarn__wait_set *wait_set,
                         const struct tarn__caller *caller)
{
    for (unsigned i = 0; i < wait_set->count; i++)
        if (!TARN_MUTATION(steal_without_wait) &&
            caller->scope.calls->stream_wait_event(caller->handle, wait_set->all[i].event,
                                                   0) != CUDA_SUCCESS_)
            return false;
    return true;
}

void tarn__wait_set_release(const struct tarn__wait_set *wait_set,
                            struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    for (unsigned i = 0; i < wait_set->count; i++)
        tarn__identity_unpin(&pool->heap, wait_set->all[i].stream_state,
                             wait_set->all[i].event);
}
