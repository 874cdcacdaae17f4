/* heap.c -- freeing: coalescing with neighbours, in the order of a lane (one stream) or
 * as completed. */
#include "resource/pool/heap_inside.h"
#include "resource/pool/mutations.h"
#include <string.h>

/* Where several streams have memory, a free coalesces with a completed neighbour of at
 * most this size. A larger bound would take more from the other streams. */
#define READY_ABSORB ((uint64_t)1 << 20)

void tarn__heap_init(struct tarn__heap *heap)
{
    memset(heap, 0, sizeof *heap);
    tarn__map_init(&heap->by_key, sizeof(tarn__index));
    tarn__map_init(&heap->by_handle, sizeof(tarn__index));
    heap->absorb_bytes = (uint64_t)16 << 20;
}

tarn__index tarn__heap_find(const struct tarn__heap *heap, uint64_t address)
{
    return tarn__addresses_find(&heap->addresses, &heap->nodes, address);
}

/* --- free nodes as a whole --- */

/* Free a node into `lane` (its open epoch), or as completed. */
static inline void attach(struct tarn__heap *heap, tarn__index index,
                          struct tarn__lane *lane)
{
    struct tarn__node *node = NODE(index);

    tarn__node_set(node, TARN__FREE);
    node->lane = lane ? lane->index : 0;
    if (lane) {
        if (lane->oldest == 0)
            tarn__lane_has_memory(heap, lane);
        node->epoch = lane->open_epoch;
        tarn__heap_link_after(heap, lane, lane->youngest, index);
    }
    tarn__heap_into_bins(heap, index, lane);
}

/* Do the same, but at the position of an older epoch in the list. */
static void attach_in_epoch(struct tarn__heap *heap, tarn__index index,
                            struct tarn__lane *lane, uint64_t epoch)
{
    tarn__index older;

    if (!lane || epoch == lane->open_epoch) {
        attach(heap, index, lane);
        return;
    }
    if (lane->oldest == 0)
        tarn__lane_has_memory(heap, lane);
    for (older = lane->youngest; older && NODE(older)->epoch > epoch;)
        older = NODE(older)->age.older;
    NODE(index)->lane = lane->index;
    NODE(index)->epoch = epoch;
    tarn__node_set(NODE(index), TARN__FREE);
    tarn__heap_link_after(heap, lane, older, index);
    tarn__heap_into_bins(heap, index, lane);
}

/* --- neighbours --- */

/* Drop the upper neighbour of `index`, which is in no bin and not entered, and is part of
 * it now. */
static inline void drop_upper(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);
    tarn__index upper = node->after, after = NODE(upper)->after;

    node->after = after;
    if (after)
        NODE(after)->before = index;
    tarn__nodes_put(&heap->nodes, upper);
    heap->blocks--;
}

void tarn__heap_take_in(struct tarn__heap *heap, tarn__index index)
{
    tarn__node_size(NODE(index),
                    NODE(index)->granules + NODE(NODE(index)->after)->granules);
    drop_upper(heap, index);
}

void tarn__heap_swallow(struct tarn__heap *heap, tarn__index index)
{
    tarn__heap_leave(heap, NODE(index)->after);
    tarn__heap_take_in(heap, index);
}

/* Extend a free node by its upper neighbour, which is MOVING. */
static inline void extend_up(struct tarn__heap *heap, tarn__index index)
{
    tarn__heap_resize(heap, index,
                      NODE(index)->granules + NODE(NODE(index)->after)->granules);
    drop_upper(heap, index);
}

/* Extend a free node by its lower neighbour, which is MOVING. */
static inline void extend_down(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);
    tarn__index lower = node->before;
    const struct tarn__node *gone = NODE(lower);

    tarn__node_place(node, gone->address);
    node->before = gone->before;
    if (gone->before)
        NODE(gone->before)->after = index;
    else
        tarn__addresses_replace(&heap->addresses, &heap->nodes, lower, index);
    tarn__heap_resize(heap, index, node->granules + gone->granules);
    tarn__nodes_put(&heap->nodes, lower);
    heap->blocks--;
}

/* Return true if a free neighbour coalesces with what `lane` frees now (NULL: with a
 * completed one), which has so many granules. The neighbour would get the lane's open
 * epoch, so a large fenced or completed one stays by itself. */
static bool joins(const struct tarn__heap *heap, const struct tarn__lane *lane,
                  uint32_t granules, const struct tarn__node *neighbour)
{
    if (tarn__node_state(neighbour) != TARN__FREE ||
        neighbour->granules > UINT32_MAX - granules)
        return false;
    uint64_t bytes = tarn__node_bytes(neighbour);
    uint64_t own = (uint64_t)granules << TARN__GRANULE_SHIFT;
    if (TARN_MUTATION(merge_across_lanes))
        return true;
    if (!lane)
        return neighbour->lane == 0;
    if (neighbour->lane == lane->index)
        return neighbour->epoch == lane->open_epoch ||
               (lane->in_order && bytes <= heap->absorb_bytes);
    return neighbour->lane == 0 && lane->in_order && !lane->is_capture &&
           bytes <= heap->absorb_bytes &&
           (bytes <= READY_ABSORB || bytes <= own || heap->with_memory_count < 2);
}

/* Return true if a free neighbour has the lane and epoch of what `lane` frees now. Then
 * the new one extends it in place. */
static inline bool is_alike(const struct tarn__lane *lane,
                            const struct tarn__node *neighbour)
{
    if (TARN_MUTATION(no_renewal))
        return false;
    return lane ? neighbour->lane == lane->index && neighbour->epoch == lane->open_epoch
                : neighbour->lane == 0;
}

/* Take neighbours that coalesce with `index`, but are not alike, out of their lists
 * first. */
static tarn__index join_others(struct tarn__heap *heap, tarn__index index,
                               const struct tarn__lane *lane)
{
    const struct tarn__node *node = NODE(index);
    tarn__index after = node->after, before = node->before;
    uint32_t granules = node->granules;

    if (after && joins(heap, lane, granules, NODE(after))) {
        granules += NODE(after)->granules;
        if (!is_alike(lane, NODE(after))) {
            tarn__heap_detach(heap, after);
            tarn__heap_take_in(heap, index);
        }
    }
    if (!before || is_alike(lane, NODE(before)) ||
        !joins(heap, lane, granules, NODE(before)))
        return index;
    tarn__heap_detach(heap, before);
    tarn__heap_take_in(heap, before);
    return before;
}

/* Return true if a free neighbour would not simply become longer. Node 0 has no state
 * that matches. */
static inline bool has_others(const struct tarn__heap *heap,
                              const struct tarn__node *node,
                              const struct tarn__lane *lane)
{
    const struct tarn__node *after = NODE(node->after), *before = NODE(node->before);

    return (tarn__node_state(after) == TARN__FREE && !is_alike(lane, after)) ||
           (tarn__node_state(before) == TARN__FREE && !is_alike(lane, before));
}

/* Alike neighbours coalesce, whatever their size, unless the sum overflows. */
static inline bool joins_alike(const struct tarn__lane *lane, uint32_t granules,
                               const struct tarn__node *neighbour)
{
    return tarn__node_state(neighbour) == TARN__FREE && is_alike(lane, neighbour) &&
           neighbour->granules <= UINT32_MAX - granules;
}

/* Free a node that is MOVING: as a part of alike neighbours, or by itself. */
static inline void settle(struct tarn__heap *heap, tarn__index index,
                          struct tarn__lane *lane)
{
    const struct tarn__node *node = NODE(index);
    bool up = joins_alike(lane, node->granules, NODE(node->before));

    if (joins_alike(lane, node->granules, NODE(node->after))) {
        if (!up) {
            extend_down(heap, node->after);
            return;
        }
        tarn__heap_detach(heap, node->after);
        tarn__heap_take_in(heap, index);
        up = joins_alike(lane, node->granules, NODE(node->before));
    }
    if (up)
        extend_up(heap, node->before);
    else if (TARN_MUTATION(no_renewal) && lane && lane->fence_count)
        attach_in_epoch(heap, index, lane, lane->fenced_epoch);
    else
        attach(heap, index, lane);
}

/* Free a node that is MOVING, in no bin and not entered. */
static inline void release(struct tarn__heap *heap, tarn__index index,
                           struct tarn__lane *lane)
{
    /* A completed node coalesces with completed neighbours alone. */
    if ((lane || TARN_MUTATION(merge_across_lanes)) &&
        has_others(heap, NODE(index), lane))
        index = join_others(heap, index, lane);
    settle(heap, index, lane);
}

void tarn__heap_put(struct tarn__heap *heap, tarn__index index, struct tarn__lane *lane)
{
    struct tarn__node *node = NODE(index);

    heap->out_bytes -= tarn__node_bytes(node);
    tarn__node_set(node, TARN__MOVING);
    tarn__node_set_capture(node, 0);
    if (lane) {
        if (lane->has_ended)
            lane = heap->left;
        lane->frees++;
    }
    tarn__heap_leave(heap, index);
    release(heap, index, lane);
}

void tarn__heap_make_ready(struct tarn__heap *heap, tarn__index index)
{
    tarn__heap_detach(heap, index);
    release(heap, index, NULL);
}

void tarn__heap_join_neighbours(struct tarn__heap *heap, tarn__index first,
                                uint32_t granules)
{
    tarn__index lane = NODE(first)->lane;
    uint64_t epoch = NODE(first)->epoch;

    tarn__heap_detach(heap, first);
    while (NODE(first)->granules < granules) {
        tarn__index i = NODE(first)->after;
        if (NODE(i)->lane) {
            epoch = lane && epoch > NODE(i)->epoch ? epoch : NODE(i)->epoch;
            lane = NODE(i)->lane;
        }
        tarn__heap_detach(heap, i);
        tarn__heap_take_in(heap, first);
    }
    attach_in_epoch(heap, first, lane ? tarn__lane(heap, lane) : NULL, epoch);
}
