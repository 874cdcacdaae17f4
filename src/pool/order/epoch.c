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
    stream_state->closed_bytes += stream_state->open_bytes;
    stream_state->open_bytes = 0;
    stream_state->recording = true;
    return stream_state->open_epoch++;
}

/* Return the bytes that were freed after `epoch`, before the open one. */
static uint64_t bytes_closed_after(const struct tarn__heap *heap,
                                   const struct tarn__stream_state *stream_state,
                                   uint64_t epoch) TARN__REQUIRES(pool_lock)
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
    TARN__REQUIRES(pool_lock)
{
    uint64_t rest = bytes_closed_after(heap, stream_state, stream_state->fenced_epoch);

    heap->unfenced_bytes -= stream_state->closed_bytes - rest;
    stream_state->closed_bytes = rest;
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

    while ((index = stream_state->oldest) != 0 &&
           NODE(index)->epoch <= stream_state->done_epoch && *most > 0) {
        tarn__heap_complete(heap, index);
        --*most;
    }
}

bool tarn__epoch_sweep(struct tarn__heap *heap, size_t most)
{
    tarn__index next;

    for (tarn__index i = heap->with_memory; i; i = next) {
        struct tarn__stream_state *stream_state = tarn__heap_state(heap, i);
        next = stream_state->next_with_memory;
        sweep_state(heap, stream_state, &most);
        if (most == 0)
            return true;
        if (!stream_state->oldest)
            tarn__identity_delete_if_unused(heap, stream_state);
    }
    return false;
}

void tarn__epoch_close_all(struct tarn__heap *heap)
{
    for (tarn__index i = heap->with_memory; i;
         i = tarn__heap_state(heap, i)->next_with_memory) {
        struct tarn__stream_state *stream_state = tarn__heap_state(heap, i);
        if (stream_state->is_capture)
            continue;
        stream_state->device_wait_epoch = stream_state->open_epoch++;
        stream_state->closed_bytes += stream_state->open_bytes;
        stream_state->open_bytes = 0;
    }
}

void tarn__epoch_complete_all(struct tarn__heap *heap)
{
    for (tarn__index i = heap->with_memory; i;
         i = tarn__heap_state(heap, i)->next_with_memory) {
        struct tarn__stream_state *stream_state = tarn__heap_state(heap, i);
        if (stream_state->device_wait_epoch > stream_state->done_epoch)
            tarn__epoch_complete(heap, stream_state, stream_state->device_wait_epoch);
    }
    while (tarn__epoch_sweep(heap, SIZE_MAX))
        continue;
}
