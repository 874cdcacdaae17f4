/* identity.c -- which stream state belongs to a stream: creation, look-up and
 * deletion. */
#include "pool/order/identity.h"
#include "pool/mutations.h"
#include "pool/order/events.h"
#include <stdlib.h>
#include <string.h>

/* --- creation and deletion --- */

static bool add_chunk(struct tarn__heap *heap)
{
    size_t chunk = heap->states_made / TARN__STATE_CHUNK;

    if (chunk == TARN__STATE_CHUNKS)
        return false;
    heap->stream_states[chunk] =
        calloc(TARN__STATE_CHUNK, sizeof *heap->stream_states[chunk]);
    if (!heap->stream_states[chunk])
        return false;
    heap->state_metadata += TARN__STATE_CHUNK * sizeof *heap->stream_states[chunk];
    return true;
}

/* Return the index of an unused stream state; 0: no host memory. */
static tarn__index unused_state(struct tarn__heap *heap)
{
    tarn__index index = heap->unused_state;

    if (index) {
        heap->unused_state = tarn__heap_state(heap, index)->next_unused;
        return index;
    }
    if (heap->states_made == 0) {
        if (!add_chunk(heap))
            return 0;
        heap->states_made = 1; /* state 0 stands for completed frees */
    }
    if (heap->states_made % TARN__STATE_CHUNK == 0 && !add_chunk(heap))
        return 0;
    return heap->states_made++;
}

struct tarn__stream_state *tarn__identity_find(const struct tarn__heap *heap,
                                               uint64_t key)
{
    const tarn__index *index = tarn__map_get(&heap->by_key, key);

    return index ? tarn__heap_state(heap, *index) : NULL;
}

struct tarn__stream_state *tarn__identity_find_registered(
    const struct tarn__heap *heap, const struct tarn__registration *registration)
{
    bool is_legacy = registration->id == TARN__LEGACY_ID;

    return tarn__identity_find(heap, is_legacy ? TARN__KEY_LEGACY : registration->id);
}

struct tarn__stream_state *tarn__identity_get(struct tarn__heap *heap, uint64_t key)
{
    struct tarn__stream_state *stream_state = tarn__identity_find(heap, key);

    if (stream_state)
        return stream_state;
    if (!tarn__map_reserve(&heap->by_key, 1))
        return NULL;
    tarn__index index = unused_state(heap);
    if (!index)
        return NULL;
    stream_state = tarn__heap_state(heap, index);
    struct tarn__fence *fences = stream_state->fences;
    size_t capacity = stream_state->fence_capacity;
    uint64_t last_epoch = stream_state->open_epoch; /* of the stream before; 0: none */
    memset(stream_state, 0, sizeof *stream_state);
    stream_state->index = index;
    stream_state->identity.key = key;
    stream_state->open_epoch = last_epoch + 1;
    stream_state->fenced_epoch = stream_state->done_epoch = last_epoch;
    stream_state->in_order =
        key != TARN__KEY_ORPHANED &&
        (key != TARN__KEY_NO_STREAM || TARN_MUTATION(no_stream_is_in_order));
    stream_state->fences = fences; /* its array serves the next stream state */
    stream_state->fence_capacity = capacity;
    tarn__map_put(&heap->by_key, key, &index);
    heap->state_count++;
    return stream_state;
}

static uint64_t handle_key(CUstream_ handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* Another stream may have the handle by now. */
static void forget_handle(struct tarn__heap *heap,
                          const struct tarn__stream_state *stream_state)
{
    uint64_t key = handle_key(stream_state->identity.handle);
    const tarn__index *named = key ? tarn__map_get(&heap->by_handle, key) : NULL;

    if (named && *named == stream_state->index)
        tarn__map_take(&heap->by_handle, key, NULL);
}

void tarn__identity_delete_if_unused(struct tarn__heap *heap,
                                     struct tarn__stream_state *stream_state)
{
    if (stream_state->users || stream_state->free.oldest || stream_state->recording ||
        stream_state->is_finished || tarn__events_are_pinned(stream_state))
        return;
    tarn__events_drop(heap, stream_state, stream_state->fence_count);
    if (stream_state->fence_count)
        return;
    forget_handle(heap, stream_state);
    tarn__map_take(&heap->by_key, stream_state->identity.key, NULL);
    stream_state->identity.key = 0;
    stream_state->next_unused = heap->unused_state;
    heap->unused_state = stream_state->index;
    heap->state_count--;
}

void tarn__identity_unpin(struct tarn__heap *heap,
                          struct tarn__stream_state *stream_state, CUevent_ event)
{
    tarn__events_unpin(stream_state, event);
    tarn__identity_delete_if_unused(heap, stream_state);
}

/* --- streams that end --- */

struct tarn__stream_state *tarn__identity_orphaned(struct tarn__heap *heap)
{
    if (!heap->orphaned &&
        (heap->orphaned = tarn__identity_get(heap, TARN__KEY_ORPHANED)) != NULL)
        heap->orphaned->users++;
    return heap->orphaned;
}

struct tarn__stream_state *tarn__identity_bind_handle(
    struct tarn__heap *heap, struct tarn__stream_state *stream_state, CUstream_ handle)
{
    tarn__index *named = tarn__map_get(&heap->by_handle, handle_key(handle));
    struct tarn__stream_state *earlier = named ? tarn__heap_state(heap, *named) : NULL;

    /* the memory of the earlier stream is going to move there */
    if (named && !tarn__identity_orphaned(heap))
        return NULL;
    if (named)
        *named = stream_state->index;
    else if (!tarn__map_put(&heap->by_handle, handle_key(handle), &stream_state->index))
        return NULL;
    stream_state->identity.handle = handle;
    return earlier;
}
