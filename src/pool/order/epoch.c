/* epoch.c -- epochs: groups of frees of one stream, each closed by an event fence, and
 * completed when the device has finished with them. */
#include "pool/order/epoch.h"
#include "pool/mutations.h"
#include "pool/order/events.h"
#include "pool/order/identity.h"

#define NODE(index) tarn__node(&heap->nodes, (index))

uint64_t tarn__epoch_close(struct tarn__heap *heap,
                           struct tarn__stream_state *stream_state)
{
    (void)heap;
    stream_state->free.closed_bytes += stream_state->free.open_bytes;
    stream_state->free.open_bytes = 0;
    stream_state->recording = true;
    return stream_state->open_epoch++;
}

/* Return the bytes that were freed after `epoch`, before the open one. */
static uint64_t bytes_closed_after(const struct tarn__heap *heap,
                                   const struct tarn__stream_state *stream_state,
                                   uint64_t epoch) TARN__REQUIRES(pool_lock)
{
    uint64_t bytes = 0;

    for (tarn__index i = stream_state->free.youngest; i && NODE(i)->epoch > epoch;
         i = NODE(i)->age.older)
        if (NODE(i)->epoch != stream_state->open_epoch)
            bytes += tarn__node_bytes(NODE(i));
    return bytes;
}

/* Recount the unfenced bytes: an epoch can complete without ever having had an event
 * fence. Usually no epoch was closed since, so there is nothing to count. */
static void recount(struct tarn__heap *heap, struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    bool is_last = stream_state->fenced_epoch + 1 >= stream_state->open_epoch;
    uint64_t rest =
        is_last ? 0 : bytes_closed_after(heap, stream_state, stream_state->fenced_epoch);

    heap->unfenced_bytes -= stream_state->free.closed_bytes - rest;
    stream_state->free.closed_bytes = rest;
}

bool tarn__epoch_publish_fence(struct tarn__heap *heap,
                               struct tarn__stream_state *stream_state, uint64_t epoch,
                               CUevent_ event)
{
    if (!tarn__events_add_fence(heap, stream_state, epoch, event))
        return false;
    if (stream_state->fenced_epoch <
        epoch) /* a device-wide wait may have come in between */
        stream_state->fenced_epoch = epoch;
    recount(heap, stream_state);
    return true;
}

void tarn__epoch_fence_completed(struct tarn__heap *heap,
                                 struct tarn__stream_state *stream_state, uint64_t epoch)
{
    size_t count = 0;

    if (stream_state->done_epoch < epoch)
        stream_state->done_epoch = epoch + (TARN_MUTATION(completed_too_early) ? 1 : 0);
    if (!stream_state->is_finished) {
        stream_state->is_finished = true;
        stream_state->next_finished = heap->finished;
        heap->finished = stream_state->index;
    }
    while (count < stream_state->fence_count &&
           stream_state->fences[count].epoch <= epoch)
        count++;
    tarn__events_drop(heap, stream_state, count);
}

void tarn__epoch_complete(struct tarn__heap *heap,
                          struct tarn__stream_state *stream_state, uint64_t epoch)
{
    if (stream_state->fenced_epoch < epoch) {
        stream_state->fenced_epoch = epoch;
        recount(heap, stream_state);
    }
    tarn__epoch_fence_completed(heap, stream_state, epoch);
}

/* Make the finished frees of `stream_state` completed, up to `*most` blocks. */
static void sweep_state(struct tarn__heap *heap, struct tarn__stream_state *stream_state,
                        size_t *most) TARN__REQUIRES(pool_lock)
{
    tarn__index index;

    while ((index = stream_state->free.oldest) != 0 &&
           NODE(index)->epoch <= stream_state->done_epoch && *most > 0) {
        tarn__heap_complete(heap, index);
        --*most;
    }
}

bool tarn__epoch_sweep(struct tarn__heap *heap, size_t most)
{
    while (heap->finished) {
        struct tarn__stream_state *stream_state = tarn__heap_state(heap, heap->finished);
        sweep_state(heap, stream_state, &most);
        if (most == 0)
            return true;
        most--;
        heap->finished = stream_state->next_finished;
        stream_state->is_finished = false;
        if (!stream_state->free.oldest)
            tarn__identity_delete_if_unused(heap, stream_state);
    }
    return false;
}

/* --- a device-wide wait --- */

/* Return the next stream state that has free blocks, up to `most` indices on; NULL: there
 * are none among these. */
static struct tarn__stream_state *next_state(const struct tarn__heap *heap,
                                             tarn__index *next, size_t *most)
    TARN__REQUIRES(pool_lock)
{
    while (*next < heap->states_made && *most > 0) {
        struct tarn__stream_state *stream_state = tarn__heap_state(heap, (*next)++);
        --*most;
        if (stream_state->free.oldest)
            return stream_state;
    }
    return NULL;
}

/* Close the open epoch. A graph may use the memory of a capture again after the wait. */
static void close_for_wait(struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    if (stream_state->is_capture)
        return;
    stream_state->device_wait_epoch = stream_state->open_epoch++;
    stream_state->free.closed_bytes += stream_state->free.open_bytes;
    stream_state->free.open_bytes = 0;
}

bool tarn__epoch_close_some(struct tarn__heap *heap, tarn__index *next, size_t most)
{
    struct tarn__stream_state *stream_state;

    while ((stream_state = next_state(heap, next, &most)) != NULL)
        close_for_wait(stream_state);
    return *next < heap->states_made;
}

bool tarn__epoch_complete_some(struct tarn__heap *heap, tarn__index *next, size_t most)
{
    struct tarn__stream_state *stream_state;

    while ((stream_state = next_state(heap, next, &most)) != NULL) {
        if (TARN_MUTATION(closed_after_device_wait))
            close_for_wait(stream_state);
        if (stream_state->device_wait_epoch > stream_state->done_epoch)
            tarn__epoch_complete(heap, stream_state, stream_state->device_wait_epoch);
    }
    return *next < heap->states_made;
}
