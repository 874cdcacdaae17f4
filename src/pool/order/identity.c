/* identity.c -- lanes, the states of streams: creation and deletion, epochs, event fences,
 * source streams. */
#include "pool/blocks/heap.h"
#include "pool/mutations.h"
#include <stdlib.h>
#include <string.h>

#define NODE(index) tarn__node(&heap->nodes, (index))

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

/* Return the index of an unused lane; 0: no host memory. */
static tarn__index unused_state(struct tarn__heap *heap)
{
    tarn__index index = heap->unused_state;

    if (index) {
        heap->unused_state = tarn__stream_state(heap, index)->next_unused;
        return index;
    }
    if (heap->states_made == 0) {
        if (!add_chunk(heap))
            return 0;
        heap->states_made = 1; /* lane 0 stands for completed frees */
    }
    if (heap->states_made % TARN__STATE_CHUNK == 0 && !add_chunk(heap))
        return 0;
    return heap->states_made++;
}

struct tarn__stream_state *tarn__heap_find_stream_state(const struct tarn__heap *heap,
                                                        uint64_t key)
{
    const tarn__index *index = tarn__map_get(&heap->by_key, key);

    return index ? tarn__stream_state(heap, *index) : NULL;
}

struct tarn__stream_state *tarn__heap_stream_state(struct tarn__heap *heap, uint64_t key)
{
    struct tarn__stream_state *stream_state = tarn__heap_find_stream_state(heap, key);

    if (stream_state)
        return stream_state;
    if (!tarn__map_reserve_one(&heap->by_key))
        return NULL;
    tarn__index index = unused_state(heap);
    if (!index)
        return NULL;
    stream_state = tarn__stream_state(heap, index);
    struct tarn__fence *fences = stream_state->fences;
    size_t capacity = stream_state->fence_capacity;
    memset(stream_state, 0, sizeof *stream_state);
    stream_state->index = index;
    stream_state->key = key;
    stream_state->open_epoch = 1;
    stream_state->in_order =
        key != TARN__KEY_ORPHANED &&
        (key != TARN__KEY_NO_STREAM || TARN_MUTATION(no_stream_is_in_order));
    stream_state->fences = fences; /* its array serves the next lane */
    stream_state->fence_capacity = capacity;
    tarn__map_put(&heap->by_key, key, &index);
    heap->state_count++;
    return stream_state;
}

static bool is_pinned(const struct tarn__stream_state *stream_state)
{
    for (size_t i = 0; i < stream_state->fence_count; i++)
        if (stream_state->fences[i].pins)
            return true;
    return false;
}

CUevent_ tarn__stream_state_pin(struct tarn__stream_state *stream_state,
                                struct tarn__fence *fence)
{
    fence->pins++;
    stream_state->users++;
    return fence->event;
}

void tarn__stream_state_unpin(struct tarn__stream_state *stream_state, CUevent_ event)
{
    for (size_t i = 0; i < stream_state->fence_count; i++)
        if (stream_state->fences[i].event == event)
            stream_state->fences[i].pins--;
    stream_state->users--;
}

/* Remove the first `count` event fences; their events are reused. */
static void drop_fences(struct tarn__heap *heap, struct tarn__stream_state *stream_state,
                        size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < stream_state->fence_count; i++) {
        struct tarn__fence *fence = &stream_state->fences[i];
        bool in_use = fence->pins > 0 && !TARN_MUTATION(event_recycled_in_use);
        if (i < count && !in_use && tarn__heap_keep_event(heap, fence->event))
            continue;
        stream_state->fences[kept++] = *fence;
    }
    stream_state->fence_count = kept;
}

static uint64_t handle_key(CUstream_ handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* Another stream may have the handle by now. */
static void forget_handle(struct tarn__heap *heap,
                          const struct tarn__stream_state *stream_state)
{
    uint64_t key = handle_key(stream_state->handle);
    const tarn__index *named = key ? tarn__map_get(&heap->by_handle, key) : NULL;

    if (named && *named == stream_state->index)
        tarn__map_take(&heap->by_handle, key, NULL);
}

void tarn__heap_delete_if_unused(struct tarn__heap *heap,
                                 struct tarn__stream_state *stream_state)
{
    if (stream_state->users || stream_state->oldest || stream_state->recording ||
        is_pinned(stream_state))
        return;
    drop_fences(heap, stream_state, stream_state->fence_count);
    if (stream_state->fence_count)
        return;
    forget_handle(heap, stream_state);
    tarn__map_take(&heap->by_key, stream_state->key, NULL);
    stream_state->key = 0;
    stream_state->next_unused = heap->unused_state;
    heap->unused_state = stream_state->index;
    heap->state_count--;
}

/* --- streams that end --- */

struct tarn__stream_state *tarn__heap_orphaned(struct tarn__heap *heap)
{
    if (!heap->orphaned &&
        (heap->orphaned = tarn__heap_stream_state(heap, TARN__KEY_ORPHANED)) != NULL)
        heap->orphaned->users++;
    return heap->orphaned;
}

struct tarn__stream_state *tarn__heap_bind_handle(struct tarn__heap *heap,
                                                  struct tarn__stream_state *stream_state,
                                                  CUstream_ handle)
{
    tarn__index *named = tarn__map_get(&heap->by_handle, handle_key(handle));
    struct tarn__stream_state *earlier = named ? tarn__stream_state(heap, *named) : NULL;

    /* the memory of the earlier stream is going to move there */
    if (named && !tarn__heap_orphaned(heap))
        return NULL;
    if (named)
        *named = stream_state->index;
    else if (!tarn__map_put(&heap->by_handle, handle_key(handle), &stream_state->index))
        return NULL;
    stream_state->handle = handle;
    return earlier;
}

bool tarn__heap_orphan_unfenced(struct tarn__heap *heap,
                                struct tarn__stream_state *stream_state, size_t most)
{
    tarn__index index;

    while ((index = stream_state->youngest) != 0 &&
           NODE(index)->epoch > stream_state->fenced_epoch) {
        if (most-- == 0)
            return true;
        tarn__heap_take_whole(heap, index);
        tarn__heap_put(heap, index,
                       TARN_MUTATION(orphaned_taken_as_completed) ? NULL : stream_state);
    }
    return false;
}

void tarn__heap_free(struct tarn__heap *heap)
{
    for (tarn__index i = 1; i < heap->states_made; i++)
        free(tarn__stream_state(heap, i)->fences);
    for (size_t i = 0; i < TARN__STATE_CHUNKS && heap->stream_states[i]; i++)
        free(heap->stream_states[i]);
    tarn__map_free(&heap->by_key);
    tarn__map_free(&heap->by_handle);
    tarn__nodes_free(&heap->nodes);
    tarn__addresses_free(&heap->addresses);
    free(heap->events);
    free(heap->starts);
}

void tarn__stream_state_link(struct tarn__heap *heap,
                             struct tarn__stream_state *stream_state)
{
    stream_state->previous_with_memory = 0;
    stream_state->next_with_memory = heap->with_memory;
    if (heap->with_memory)
        tarn__stream_state(heap, heap->with_memory)->previous_with_memory =
            stream_state->index;
    heap->with_memory = stream_state->index;
    heap->with_memory_count++;
}

void tarn__stream_state_unlink(struct tarn__heap *heap,
                               struct tarn__stream_state *stream_state)
{
    tarn__index next = stream_state->next_with_memory,
                previous = stream_state->previous_with_memory;

    if (next)
        tarn__stream_state(heap, next)->previous_with_memory = previous;
    *(previous ? &tarn__stream_state(heap, previous)->next_with_memory
               : &heap->with_memory) = next;
    stream_state->next_with_memory = stream_state->previous_with_memory = 0;
    heap->with_memory_count--;
}

/* --- events --- */

CUevent_ tarn__heap_event(struct tarn__heap *heap)
{
    return heap->event_count ? heap->events[--heap->event_count] : NULL;
}

bool tarn__heap_keep_event(struct tarn__heap *heap, CUevent_ event)
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

void tarn__heap_collect_events(struct tarn__heap *heap)
{
    for (tarn__index i = 1; i < heap->states_made; i++) {
        struct tarn__stream_state *stream_state = tarn__stream_state(heap, i);
        for (size_t j = 0; j < stream_state->fence_count; j++)
            tarn__heap_keep_event(heap, stream_state->fences[j].event);
        stream_state->fence_count = 0;
    }
}

/* --- epochs and event fences --- */

uint64_t tarn__stream_state_close_epoch(struct tarn__heap *heap,
                                        struct tarn__stream_state *stream_state)
{
    (void)heap;
    stream_state->closed_bytes += stream_state->open_bytes;
    stream_state->open_bytes = 0;
    stream_state->recording = true;
    return stream_state->open_epoch++;
}

/* Return the bytes that were freed after `epoch`, before the open one. */
static uint64_t bytes_closed_after(const struct tarn__heap *heap,
                                   const struct tarn__stream_state *stream_state,
                                   uint64_t epoch)
{
    uint64_t bytes = 0;

    for (tarn__index i = stream_state->youngest; i && NODE(i)->epoch > epoch;
         i = NODE(i)->age.older)
        if (NODE(i)->epoch != stream_state->open_epoch)
            bytes += tarn__node_bytes(NODE(i));
    return bytes;
}

/* Recount the unfenced bytes: an epoch can complete without ever having had an event
 * fence. */
static void recount(struct tarn__heap *heap, struct tarn__stream_state *stream_state)
{
    uint64_t rest = bytes_closed_after(heap, stream_state, stream_state->fenced_epoch);

    heap->unfenced_bytes -= stream_state->closed_bytes - rest;
    stream_state->closed_bytes = rest;
}

/* Find an event fence that can be dropped, because the next one covers the same frees. 0:
 * none. */
static size_t dispensable(const struct tarn__stream_state *stream_state)
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
{
    size_t most = TARN_MUTATION(event_recycled_in_use) ? FENCES_FEW : FENCES_MAX;
    size_t dispensable_at =
        stream_state->fence_count >= most ? dispensable(stream_state) : 0;

    if (dispensable_at &&
        tarn__heap_keep_event(heap, stream_state->fences[dispensable_at].event)) {
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

bool tarn__stream_state_publish_fence(struct tarn__heap *heap,
                                      struct tarn__stream_state *stream_state,
                                      uint64_t epoch, CUevent_ event)
{
    if (!fence_capacity(heap, stream_state))
        return false;
    stream_state->fences[stream_state->fence_count++] =
        (struct tarn__fence){epoch, event, 0};
    if (stream_state->fenced_epoch <
        epoch) /* a device-wide wait may have come in between */
        stream_state->fenced_epoch = epoch;
    recount(heap, stream_state);
    return true;
}

void tarn__stream_state_fence_completed(struct tarn__heap *heap,
                                        struct tarn__stream_state *stream_state,
                                        uint64_t epoch)
{
    size_t count = 0;

    if (stream_state->done_epoch < epoch)
        stream_state->done_epoch = epoch + (TARN_MUTATION(completed_too_early) ? 1 : 0);
    while (count < stream_state->fence_count &&
           stream_state->fences[count].epoch <= epoch)
        count++;
    drop_fences(heap, stream_state, count);
}

void tarn__stream_state_complete(struct tarn__heap *heap,
                                 struct tarn__stream_state *stream_state, uint64_t epoch)
{
    if (stream_state->fenced_epoch < epoch) {
        stream_state->fenced_epoch = epoch;
        recount(heap, stream_state);
    }
    tarn__stream_state_fence_completed(heap, stream_state, epoch);
}

/* Make the finished frees of `lane` completed, up to `*most` blocks. */
static void sweep_state(struct tarn__heap *heap, struct tarn__stream_state *stream_state,
                        size_t *most)
{
    tarn__index index;

    while ((index = stream_state->oldest) != 0 &&
           NODE(index)->epoch <= stream_state->done_epoch && *most > 0) {
        tarn__heap_complete(heap, index);
        --*most;
    }
}

bool tarn__heap_sweep(struct tarn__heap *heap, size_t most)
{
    tarn__index next;

    for (tarn__index i = heap->with_memory; i; i = next) {
        struct tarn__stream_state *stream_state = tarn__stream_state(heap, i);
        next = stream_state->next_with_memory;
        sweep_state(heap, stream_state, &most);
        if (most == 0)
            return true;
        if (!stream_state->oldest)
            tarn__heap_delete_if_unused(heap, stream_state);
    }
    return false;
}

void tarn__heap_close_all(struct tarn__heap *heap)
{
    for (tarn__index i = heap->with_memory; i;
         i = tarn__stream_state(heap, i)->next_with_memory) {
        struct tarn__stream_state *stream_state = tarn__stream_state(heap, i);
        if (stream_state->is_capture)
            continue;
        stream_state->device_wait_epoch = stream_state->open_epoch++;
        stream_state->closed_bytes += stream_state->open_bytes;
        stream_state->open_bytes = 0;
    }
}

void tarn__heap_complete_all(struct tarn__heap *heap)
{
    for (tarn__index i = heap->with_memory; i;
         i = tarn__stream_state(heap, i)->next_with_memory) {
        struct tarn__stream_state *stream_state = tarn__stream_state(heap, i);
        if (stream_state->device_wait_epoch > stream_state->done_epoch)
            tarn__stream_state_complete(heap, stream_state,
                                        stream_state->device_wait_epoch);
    }
    while (tarn__heap_sweep(heap, SIZE_MAX))
        continue;
}

/* --- source streams --- */

size_t tarn__stream_state_fence_for(const struct tarn__stream_state *stream_state,
                                    uint64_t epoch)
{
    size_t fence = 0;

    while (fence + 1 < stream_state->fence_count &&
           stream_state->fences[fence].epoch < epoch)
        fence++;
    return fence;
}

struct source {
    const struct tarn__stream_state *stream_state;
    const struct tarn__request *request;
};

/* Return true if a published event fence covers this block of the source stream, and it
 * is large enough. */
static bool is_fenced(const void *data, const struct tarn__node *node)
{
    const struct source *source = data;

    return tarn__stream_state_has_fenced(source->stream_state, node) &&
           tarn__request_fits(source->request, node);
}

/* Source streams considered. With more streams than this the others have their turn
 * later, since a lane moves to the front of the list when it gets memory. */
enum { SOURCES_MAX = 64 };

tarn__index tarn__heap_take_from_source(struct tarn__heap *heap,
                                        const struct tarn__stream_state *stream_state,
                                        const struct tarn__request *request,
                                        struct tarn__stream_state **source_out,
                                        size_t *fence_out)
{
    tarn__index best = 0;
    int looks = 0;

    for (tarn__index i = heap->with_memory; i && looks < SOURCES_MAX;
         i = tarn__stream_state(heap, i)->next_with_memory, looks++) {
        struct tarn__stream_state *other = tarn__stream_state(heap, i);
        struct source source = {other, request};
        if (other == stream_state || other->fence_count == 0 || other->is_capture)
            continue;
        tarn__index found = tarn__bins_find(&other->bins, &heap->nodes, request->quanta,
                                            UINT32_MAX, is_fenced, &source);
        if (found && (!best || NODE(found)->quanta < NODE(best)->quanta))
            best = found;
    }
    if (!best)
        return 0;
    struct tarn__stream_state *source =
        tarn__stream_state(heap, NODE(best)->stream_state);
    uint64_t epoch = NODE(best)->epoch;
    best = tarn__heap_split_request(heap, best, request);
    if (!best)
        return 0;
    *source_out = source;
    *fence_out = tarn__stream_state_fence_for(source, epoch);
    return best;
}
