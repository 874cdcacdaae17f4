/* check.c -- the named invariants of a heap, for debug builds and tests. */
#include "pool/blocks/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE(index) tarn__node(&heap->nodes, (index))

struct totals {
    uint64_t free_bytes, completed_bytes, unfenced_bytes, captured_bytes;
    uint64_t allocated_bytes, unmapped_bytes;
    size_t blocks;
};

static void add(const struct tarn__heap *heap, const struct tarn__node *node,
                struct totals *totals) TARN__REQUIRES(pool_lock)
{
    uint64_t bytes = tarn__node_bytes(node);

    totals->blocks++;
    switch (tarn__node_state(node)) {
    case TARN__UNMAPPED:
    case TARN__RETIRED:
        totals->unmapped_bytes += bytes;
        return;
    case TARN__FREE:
        break;
    default:
        totals->allocated_bytes += bytes;
        return;
    }
    totals->free_bytes += bytes;
    if (node->stream_state == 0)
        totals->completed_bytes += bytes;
    else if (node->epoch > tarn__heap_state(heap, node->stream_state)->fenced_epoch)
        totals->unfenced_bytes += bytes;
    if (node->stream_state && tarn__heap_state(heap, node->stream_state)->is_capture)
        totals->captured_bytes += bytes;
}

/* Return true if the node is live, or the first of its segment. */
static bool is_entered(const struct tarn__node *node)
{
    enum tarn__node_state state = tarn__node_state(node);

    return node->before == 0 ||
           (state != TARN__FREE && state != TARN__UNMAPPED && state != TARN__RETIRED);
}

/* Borders: neighbours touch, link to each other, and the address table holds them. */
static const char *check_neighbours(const struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *node = NODE(index);

    if (node->quanta == 0)
        return "borders: a block of 0 bytes";
    if (is_entered(node) != (tarn__heap_find(heap, node->address) == index))
        return "borders: a live block is missing in the address table, or a free one is "
               "in it";
    if (!node->after)
        return NULL;
    if (NODE(node->after)->before != index)
        return "borders: the links of two neighbours differ";
    if (NODE(node->after)->address != tarn__node_end(node))
        return "borders: two neighbours are not adjacent";
    return NULL;
}

/* Fence: no coalesced block lost an event fence that it must wait for. */
static const char *check_free(const struct tarn__heap *heap,
                              const struct tarn__node *node) TARN__REQUIRES(pool_lock)
{
    if (tarn__node_state(node) != TARN__FREE)
        return NULL;
    if (node->stream_state) {
        const struct tarn__stream_state *stream_state =
            tarn__heap_state(heap, node->stream_state);
        if (stream_state->identity.key == 0)
            return "fence: a free block belongs to a deleted stream state";
        if (node->epoch > stream_state->open_epoch)
            return "fence: a block has an epoch that has not begun";
        if (node->age.younger && NODE(node->age.younger)->epoch < node->epoch)
            return "fence: the list of free blocks is not ordered by epoch";
        return NULL;
    }
    if (node->after && tarn__node_state(NODE(node->after)) == TARN__FREE &&
        NODE(node->after)->stream_state == 0 &&
        NODE(node->after)->quanta <= UINT32_MAX - node->quanta)
        return "fence: two completed neighbours are not coalesced";
    return NULL;
}

static const char *check_segment(const struct tarn__heap *heap, uint64_t start,
                                 struct totals *totals) TARN__REQUIRES(pool_lock)
{
    tarn__index index = tarn__heap_find(heap, start);

    if (!index)
        return "borders: no block begins at the start of a segment";
    if (NODE(index)->before)
        return "borders: the first block of a segment has a left neighbour";
    for (; index; index = NODE(index)->after) {
        const char *message = check_neighbours(heap, index);
        if (!message)
            message = check_free(heap, NODE(index));
        if (message)
            return message;
        add(heap, NODE(index), totals);
    }
    return NULL;
}

static const char *check_stream_state(const struct tarn__heap *heap,
                                      const struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    uint64_t free_bytes = 0, open_bytes = 0, closed_bytes = 0;

    for (tarn__index i = stream_state->free.oldest; i; i = NODE(i)->age.younger) {
        uint64_t bytes = tarn__node_bytes(NODE(i));
        if (NODE(i)->stream_state != stream_state->index)
            return "identity: a block is in the list of another stream state";
        free_bytes += bytes;
        if (NODE(i)->epoch == stream_state->open_epoch)
            open_bytes += bytes;
        else if (NODE(i)->epoch > stream_state->fenced_epoch)
            closed_bytes += bytes;
    }
    if (free_bytes != stream_state->free.bytes)
        return "bounded hoards: the free bytes of a stream state are wrong";
    if (open_bytes != stream_state->free.open_bytes ||
        closed_bytes != stream_state->free.closed_bytes)
        return "bounded hoards: the unfenced bytes of a stream state are wrong";
    if (stream_state->done_epoch > stream_state->fenced_epoch ||
        stream_state->fenced_epoch >= stream_state->open_epoch)
        return "fence: the epochs of a stream state are out of order";
    for (size_t i = 1; i < stream_state->fence_count; i++)
        if (stream_state->fences[i].epoch < stream_state->fences[i - 1].epoch)
            return "fence: the event fences are out of order";
    if (stream_state->with_fences.is_linked != (stream_state->fence_count > 0))
        return "fence: the list of stream states with event fences is wrong";
    return NULL;
}

/* A known handle maps to a stream state which has it. */
static const char *check_handles(const struct tarn__heap *heap)
{
    size_t cursor = 0;
    uint64_t handle;
    void *index;

    while (tarn__map_next(&heap->by_handle, &cursor, &handle, &index)) {
        const struct tarn__stream_state *stream_state =
            tarn__heap_state(heap, *(const tarn__index *)index);
        if (stream_state->identity.key == 0 ||
            (uint64_t)(uintptr_t)stream_state->identity.handle != handle)
            return "identity: a stream handle maps to another stream state";
    }
    return NULL;
}

const char *tarn__check_heap(const struct tarn__heap *heap)
{
    struct totals totals = {0};
    const char *message = NULL;

    for (size_t i = 0; !message && i < heap->segments; i++)
        message = check_segment(heap, heap->starts[i], &totals);
    for (tarn__index i = heap->with_memory.first; !message && i;
         i = tarn__heap_state(heap, i)->with_memory.next)
        message = check_stream_state(heap, tarn__heap_state(heap, i));
    if (!message)
        message = check_handles(heap);
    if (message)
        return message;
    if (totals.free_bytes != heap->free_bytes ||
        totals.completed_bytes != heap->completed_bytes)
        return "bounded hoards: the sum of the free bytes is wrong";
    if (totals.unfenced_bytes != heap->unfenced_bytes ||
        totals.captured_bytes != heap->captured_bytes)
        return "bounded hoards: the sum of the unfenced bytes is wrong";
    if (totals.allocated_bytes != heap->allocated_bytes ||
        totals.unmapped_bytes != heap->unmapped_bytes)
        return "pages: the sum of the live or unmapped bytes is wrong";
    if (totals.blocks != heap->blocks)
        return "borders: the number of blocks is wrong";
    return NULL;
}

/* In a heap of many blocks or streams a walk at every change would take hours. */
void tarn__check_or_abort(const struct tarn__heap *heap, int device)
{
    static _Thread_local unsigned turns;
    size_t walked = heap->blocks + heap->by_handle.count;
    const char *message;

    if (walked > 64 && ++turns % (walked / 16) != 0)
        return;
    message = tarn__check_heap(heap);
    if (!message)
        return;
    fprintf(stderr, "tarn: pool of device %d: %s\n", device, message);
    abort();
}
