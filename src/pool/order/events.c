/* events.c -- the events of a pool: the unused ones, and the event fences of each stream
 * state. */
#include "pool/order/events.h"
#include "pool/mutations.h"
#include <stdlib.h>
#include <string.h>

CUevent_ tarn__events_take(struct tarn__heap *heap)
{
    return heap->event_count ? heap->events[--heap->event_count] : NULL;
}

bool tarn__events_keep(struct tarn__heap *heap, CUevent_ event)
{
    if (heap->event_count == heap->event_capacity) {
        size_t capacity = heap->event_capacity ? 2 * heap->event_capacity : 32;
        CUevent_ *events = realloc(heap->events, capacity * sizeof *events);
        if (!events)
            return false;
        heap->events = events;
        heap->event_capacity = capacity;
    }
    heap->events[heap->event_count++] = event;
    return true;
}

void tarn__events_collect(struct tarn__heap *heap)
{
    for (tarn__index i = 1; i < heap->states_made; i++) {
        const struct tarn__stream_state *stream_state = tarn__heap_state(heap, i);
        for (size_t j = 0; j < stream_state->fence_count; j++)
            tarn__events_keep(heap, stream_state->fences[j].event);
    }
}

bool tarn__events_are_pinned(const struct tarn__stream_state *stream_state)
{
    for (size_t i = 0; i < stream_state->fence_count; i++)
        if (stream_state->fences[i].pins)
            return true;
    return false;
}

CUevent_ tarn__events_pin(struct tarn__stream_state *stream_state,
                          struct tarn__fence *fence)
{
    fence->pins++;
    stream_state->users++;
    return fence->event;
}

void tarn__events_unpin(struct tarn__stream_state *stream_state, CUevent_ event)
{
    for (size_t i = 0; i < stream_state->fence_count; i++)
        if (stream_state->fences[i].event == event)
            stream_state->fences[i].pins--;
    stream_state->users--;
}

size_t tarn__events_fence_for(const struct tarn__stream_state *stream_state,
                              uint64_t epoch)
{
    size_t fence = 0;

    while (stream_state->fences[fence].epoch < epoch)
        fence++;
    return fence;
}

void tarn__events_drop(struct tarn__heap *heap, struct tarn__stream_state *stream_state,
                       size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < stream_state->fence_count; i++) {
        struct tarn__fence *fence = &stream_state->fences[i];
        bool in_use = fence->pins > 0 && !TARN_MUTATION(event_recycled_in_use);
        if (i < count && !in_use && tarn__events_keep(heap, fence->event))
            continue;
        stream_state->fences[kept++] = *fence;
    }
    stream_state->fence_count = kept;
    if (kept == 0)
        tarn__heap_list_state(heap, stream_state);
}

/* Find an event fence that can be dropped, because the next one covers the same frees. 0:
 * none. */
static size_t dispensable(const struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    for (size_t i = stream_state->fence_count; i-- > 1;)
        if (stream_state->fences[i].pins == 0 || TARN_MUTATION(event_recycled_in_use))
            return i;
    return 0;
}

/* The mutation uses a smaller bound, so that it takes effect. */
enum { FENCES_MAX = 16, FENCES_FEW = 2 };

/* Reserve capacity for one more event fence. */
static bool fence_capacity(struct tarn__heap *heap,
                           struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    size_t most = TARN_MUTATION(event_recycled_in_use) ? FENCES_FEW : FENCES_MAX;
    size_t dispensable_at =
        stream_state->fence_count >= most ? dispensable(stream_state) : 0;

    if (dispensable_at &&
        tarn__events_keep(heap, stream_state->fences[dispensable_at].event)) {
        memmove(&stream_state->fences[dispensable_at],
                &stream_state->fences[dispensable_at + 1],
                (stream_state->fence_count - dispensable_at - 1) *
                    sizeof *stream_state->fences);
        stream_state->fence_count--;
    }
    if (stream_state->fence_count < stream_state->fence_capacity)
        return true;
    size_t capacity = stream_state->fence_capacity ? 2 * stream_state->fence_capacity : 4;
    struct tarn__fence *fences = realloc(stream_state->fences, capacity * sizeof *fences);
    if (!fences)
        return false;
    stream_state->fences = fences;
    stream_state->fence_capacity = capacity;
    return true;
}

bool tarn__events_add_fence(struct tarn__heap *heap,
                            struct tarn__stream_state *stream_state, uint64_t epoch,
                            CUevent_ event)
{
    if (!fence_capacity(heap, stream_state))
        return false;
    stream_state->fences[stream_state->fence_count++] =
        (struct tarn__fence){epoch, event, 0};
    if (stream_state->fence_count == 1)
        tarn__heap_list_state(heap, stream_state);
    return true;
}
