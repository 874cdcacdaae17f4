/* area.c -- the blocks at given addresses, and what a stream may do with them. */
#include "pool/follow/area.h"
#include "pool/blocks/ranges.h"
#include "pool/backing/pages.h"
#include "pool/mutations.h"

#define NODE(index) tarn__node(&heap->nodes, (index))

/* Nodes that one look passes. Many small frees of several streams lie beside each other
 * now and then. */
enum { LOOKS = 128 };

static enum tarn__area_use use_of(const struct tarn__heap *heap,
                                  const struct tarn__stream_state *stream_state,
                                  const struct tarn__node *node) TARN__REQUIRES(pool_lock)
{
    if (tarn__node_state(node) == TARN__UNMAPPED)
        return TARN__AREA_MAP;
    if (tarn__node_state(node) != TARN__FREE)
        return TARN__AREA_BLOCKED;
    if (tarn__stream_state_may_use(stream_state, node) ||
        TARN_MUTATION(plan_trusted_for_order))
        return TARN__AREA_NOW;
    if (tarn__heap_may_use_after_wait(heap, stream_state, node))
        return TARN__AREA_WAIT;
    const struct tarn__stream_state *owner = tarn__heap_state(heap, node->stream_state);
    if (owner->identity.key == TARN__KEY_NO_STREAM && owner == stream_state)
        return TARN__AREA_DEVICE; /* freed without a stream, for another such block */
    return owner->in_order && !owner->is_capture ? TARN__AREA_FENCE : TARN__AREA_BLOCKED;
}

enum tarn__area_use tarn__area_look(const struct tarn__heap *heap,
                                    const struct tarn__stream_state *stream_state,
                                    tarn__index before, uint64_t address, uint64_t bytes,
                                    struct tarn__area_look *out)
{
    enum tarn__area_use worst = TARN__AREA_NOW;
    uint64_t end = address + bytes;
    tarn__index index = before;
    int looks = 0;

    while (index && tarn__node_end(NODE(index)) <= address && ++looks < LOOKS)
        index = NODE(index)->after;
    if (!index || tarn__node_end(NODE(index)) <= address)
        return TARN__AREA_BLOCKED;
    *out = (struct tarn__area_look){.address = address,
                                    .bytes = bytes,
                                    .first = index,
                                    .begin = NODE(index)->address};
    for (int pieces = 0; index && NODE(index)->address < end; pieces++) {
        enum tarn__area_use use = use_of(heap, stream_state, NODE(index));
        if (use == TARN__AREA_BLOCKED || pieces == TARN__RUN_MAX)
            return TARN__AREA_BLOCKED;
        if (use == TARN__AREA_MAP && !out->unmapped)
            out->unmapped = index;
        worst = use > worst ? use : worst;
        out->end = tarn__node_end(NODE(index));
        index = NODE(index)->after;
    }
    return out->end >= end ? worst : TARN__AREA_BLOCKED;
}

bool tarn__area_open(struct tarn__heap *heap, uint64_t address, uint64_t bytes)
{
    heap->area_address = address;
    heap->area_bytes = bytes;
    if (tarn__ranges_add(heap, address, bytes)) {
        heap->area_ranges[heap->area_range_count++] = address;
        return true;
    }
    heap->area_bytes = 0;
    return false;
}

tarn__index tarn__area_first(const struct tarn__heap *heap)
{
    return tarn__heap_find(heap, tarn__area_begin(heap));
}

uint64_t tarn__area_room(const struct tarn__heap *heap, uint64_t area_bytes)
{
    uint64_t begin = tarn__area_begin(heap), end = heap->area_address + area_bytes;

    for (unsigned i = 0; i < heap->area_range_count; i++)
        if (heap->area_ranges[i] > begin && heap->area_ranges[i] < end)
            end = heap->area_ranges[i];
    return end - begin;
}

/* Return true if the node has no memory, and so many bytes. */
static bool is_unmapped(const struct tarn__heap *heap, tarn__index index, uint64_t bytes)
{
    return tarn__node_state(NODE(index)) == TARN__UNMAPPED &&
           tarn__node_bytes(NODE(index)) >= bytes;
}

/* Have the layouts in this range. */
static void put_first(struct tarn__heap *heap, unsigned range) TARN__REQUIRES(pool_lock)
{
    uint64_t first = heap->area_ranges[0];

    heap->area_ranges[0] = heap->area_ranges[range];
    heap->area_ranges[range] = first;
}

bool tarn__area_move(struct tarn__heap *heap, uint64_t bytes)
{
    const uint64_t page = TARN__PAGE_BYTES;
    /* what the layouts leave stays long enough for them to return */
    uint64_t behind = (tarn__area_begin(heap) + bytes + page - 1) & ~(page - 1);

    for (unsigned range = 1; range < heap->area_range_count; range++)
        if (is_unmapped(heap, tarn__heap_find(heap, heap->area_ranges[range]), bytes)) {
            put_first(heap, range);
            return true;
        }
    if (heap->area_range_count == TARN__AREA_RANGES)
        return false;
    for (tarn__index i = NODE(tarn__area_first(heap))->after; i; i = NODE(i)->after) {
        uint64_t begin = (NODE(i)->address + page - 1) & ~(page - 1);
        begin = begin > behind ? begin : behind;
        if (tarn__node_end(NODE(i)) <= begin ||
            !is_unmapped(heap, i, begin - NODE(i)->address + bytes))
            continue;
        if (!tarn__ranges_cut(heap, i, begin))
            return false;
        heap->area_ranges[heap->area_range_count++] = begin;
        put_first(heap, heap->area_range_count - 1);
        return true;
    }
    return false;
}

/* Return the bins of a node of the shared area; NULL: it is in none. */
static struct tarn__bins *bins_of(struct tarn__heap *heap, const struct tarn__node *node)
{
    if (tarn__node_state(node) == TARN__UNMAPPED)
        return &heap->unmapped;
    return tarn__node_state(node) == TARN__FREE
               ? tarn__heap_bins(heap, tarn__heap_state_of(heap, node))
               : NULL;
}

/* Add all nodes of the area to the bins, or remove them, while it has no addresses. This is
 * one hold of the lock, since neighbours coalesce by the bins in which both are. It happens
 * twice in a step at most, and only where the memory is exhausted. */
static void change_bins(struct tarn__heap *heap, bool adds) TARN__REQUIRES(pool_lock)
{
    for (unsigned range = 0; range < heap->area_range_count; range++)
        for (tarn__index i = tarn__heap_find(heap, heap->area_ranges[range]); i;
             i = NODE(i)->after) {
            struct tarn__bins *bins = bins_of(heap, NODE(i));
            if (bins && adds) {
                tarn__bins_add(bins, &heap->nodes, i);
            } else if (bins) {
                tarn__bins_remove(bins, &heap->nodes, i);
                NODE(i)->next = 0;
            }
        }
}

void tarn__area_share(struct tarn__heap *heap, uint32_t least)
{
    heap->area_least = least;
    if (tarn__area_is_shared(heap))
        return;
    heap->area_bytes = 0;
    change_bins(heap, true);
}

void tarn__area_separate(struct tarn__heap *heap, uint64_t bytes)
{
    heap->area_least = 0;
    if (!tarn__area_is_shared(heap))
        return;
    change_bins(heap, false);
    heap->area_bytes = bytes;
}
