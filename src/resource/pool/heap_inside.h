/* heap_inside.h -- the heap's internal functions, for its own files.
 *
 * A free node is in its bins, in the list of its lane (the state of one stream) and in
 * the counts. A live node is in the table of addresses.
 *
 * The functions are inline, since each split and each coalescing does several of these.
 * The owner holds the lock.
 */
#ifndef TARN_POOL_HEAP_INSIDE_H
#define TARN_POOL_HEAP_INSIDE_H

#include "resource/pool/heap.h"

#define NODE(index) tarn__node(&heap->nodes, (index))

/* --- in and out of the bins --- */

/* Return the lane of a free node; NULL: the node is completed. */
static inline struct tarn__lane *tarn__heap_lane_of(const struct tarn__heap *heap,
                                                    const struct tarn__node *node)
{
    return node->lane ? tarn__lane(heap, node->lane) : NULL;
}

/* Count added bytes of a free node. A number that wraps counts removed bytes. */
static inline void tarn__heap_count(struct tarn__heap *heap, struct tarn__lane *lane,
                                    uint64_t epoch, uint64_t bytes)
{
    heap->free_bytes += bytes;
    if (!lane) {
        heap->ready_bytes += bytes;
        return;
    }
    lane->free_bytes += bytes;
    if (epoch <= lane->fenced_epoch)
        return;
    *(epoch == lane->open_epoch ? &lane->open_bytes : &lane->closed_bytes) += bytes;
    heap->unfenced_bytes += bytes;
}

/* Enter a free node into its bins, and count it. */
static inline void tarn__heap_into_bins(struct tarn__heap *heap, tarn__index index,
                                        struct tarn__lane *lane)
{
    const struct tarn__node *node = NODE(index);

    tarn__bins_add(lane ? &lane->bins : &heap->ready, &heap->nodes, index);
    tarn__heap_count(heap, lane, node->epoch, tarn__node_bytes(node));
}

static inline void tarn__heap_out_of_bins(struct tarn__heap *heap, tarn__index index,
                                          struct tarn__lane *lane)
{
    const struct tarn__node *node = NODE(index);

    tarn__bins_remove(lane ? &lane->bins : &heap->ready, &heap->nodes, index);
    tarn__heap_count(heap, lane, node->epoch, -tarn__node_bytes(node));
}

/* Give a free node another size. Within its class it stays where it is. */
static inline void tarn__heap_resize(struct tarn__heap *heap, tarn__index index,
                                     uint32_t granules)
{
    struct tarn__node *node = NODE(index);
    struct tarn__lane *lane = tarn__heap_lane_of(heap, node);
    struct tarn__bins *bins = lane ? &lane->bins : &heap->ready;
    unsigned from = tarn__bins_class(node->granules), to = tarn__bins_class(granules);
    uint64_t more = ((uint64_t)granules - node->granules) << TARN__GRANULE_SHIFT;

    tarn__node_size(node, granules);
    tarn__heap_count(heap, lane, node->epoch, more);
    if (from == to)
        return;
    tarn__bins_remove_from(bins, &heap->nodes, index, from);
    tarn__bins_add_to(bins, &heap->nodes, index, to);
}

/* --- the list of a lane's free blocks by epoch --- */

static inline void tarn__heap_link_after(struct tarn__heap *heap, struct tarn__lane *lane,
                                         tarn__index older, tarn__index index)
{
    struct tarn__node *node = NODE(index);
    tarn__index younger = older ? NODE(older)->age.younger : lane->oldest;

    tarn__node_link(&node->age.older, older);
    tarn__node_link(&node->age.younger, younger);
    tarn__node_link(older ? &NODE(older)->age.younger : &lane->oldest, index);
    tarn__node_link(younger ? &NODE(younger)->age.older : &lane->youngest, index);
}

static inline void tarn__heap_unlink(struct tarn__heap *heap, struct tarn__lane *lane,
                                     const struct tarn__node *node)
{
    tarn__index older = node->age.older, younger = node->age.younger;

    tarn__node_link(older ? &NODE(older)->age.younger : &lane->oldest, younger);
    tarn__node_link(younger ? &NODE(younger)->age.older : &lane->youngest, older);
}

/* --- free nodes as a whole --- */

/* Take a free node out of its lists: MOVING. */
static inline void tarn__heap_detach(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);
    struct tarn__lane *lane = tarn__heap_lane_of(heap, node);

    tarn__heap_out_of_bins(heap, index, lane);
    if (lane) {
        tarn__heap_unlink(heap, lane, node);
        if (lane->oldest == 0)
            tarn__lane_is_empty(heap, lane);
    }
    node->lane = 0;
    tarn__node_set(node, TARN__MOVING);
}

/* --- the address table holds the live nodes, and the first node of each segment --- */

static inline void tarn__heap_enter(struct tarn__heap *heap, tarn__index index)
{
    if (NODE(index)->before)
        tarn__addresses_add(&heap->addresses, &heap->nodes, index);
}

static inline void tarn__heap_leave(struct tarn__heap *heap, tarn__index index)
{
    if (NODE(index)->before)
        tarn__addresses_remove(&heap->addresses, &heap->nodes, index);
}

#endif
