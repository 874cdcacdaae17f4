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

#include "pool/blocks/heap.h"

#define NODE(index) tarn__node(&heap->nodes, (index))

/* --- in and out of the bins --- */

/* Return the lane of a free node; NULL: the node is completed. */
static inline struct tarn__stream_state *tarn__heap_state_of(
    const struct tarn__heap *heap, const struct tarn__node *node)
{
    return node->stream_state ? tarn__stream_state(heap, node->stream_state) : NULL;
}

/* Count added bytes of a free node. A number that wraps counts removed bytes. */
static inline void tarn__heap_count(struct tarn__heap *heap,
                                    struct tarn__stream_state *stream_state,
                                    uint64_t epoch, uint64_t bytes)
{
    heap->free_bytes += bytes;
    if (!stream_state) {
        heap->completed_bytes += bytes;
        return;
    }
    stream_state->free_bytes += bytes;
    if (epoch <= stream_state->fenced_epoch)
        return;
    *(epoch == stream_state->open_epoch ? &stream_state->open_bytes
                                        : &stream_state->closed_bytes) += bytes;
    heap->unfenced_bytes += bytes;
}

/* Enter a free node into its bins, and count it. */
static inline void tarn__heap_into_bins(struct tarn__heap *heap, tarn__index index,
                                        struct tarn__stream_state *stream_state)
{
    const struct tarn__node *node = NODE(index);

    tarn__bins_add(stream_state ? &stream_state->bins : &heap->completed, &heap->nodes,
                   index);
    tarn__heap_count(heap, stream_state, node->epoch, tarn__node_bytes(node));
}

static inline void tarn__heap_out_of_bins(struct tarn__heap *heap, tarn__index index,
                                          struct tarn__stream_state *stream_state)
{
    const struct tarn__node *node = NODE(index);

    tarn__bins_remove(stream_state ? &stream_state->bins : &heap->completed, &heap->nodes,
                      index);
    tarn__heap_count(heap, stream_state, node->epoch, -tarn__node_bytes(node));
}

/* Give a free node another size. Within its class it stays where it is. */
static inline void tarn__heap_resize(struct tarn__heap *heap, tarn__index index,
                                     uint32_t quanta)
{
    struct tarn__node *node = NODE(index);
    struct tarn__stream_state *stream_state = tarn__heap_state_of(heap, node);
    struct tarn__bins *bins = stream_state ? &stream_state->bins : &heap->completed;
    unsigned from = tarn__bins_class(node->quanta), to = tarn__bins_class(quanta);
    uint64_t more = ((uint64_t)quanta - node->quanta) << TARN__QUANTUM_SHIFT;

    tarn__node_size(node, quanta);
    tarn__heap_count(heap, stream_state, node->epoch, more);
    if (from == to)
        return;
    tarn__bins_remove_from(bins, &heap->nodes, index, from);
    tarn__bins_add_to(bins, &heap->nodes, index, to);
}

/* --- the list of a lane's free blocks by epoch --- */

static inline void tarn__heap_link_after(struct tarn__heap *heap,
                                         struct tarn__stream_state *stream_state,
                                         tarn__index older, tarn__index index)
{
    struct tarn__node *node = NODE(index);
    tarn__index younger = older ? NODE(older)->age.younger : stream_state->oldest;

    tarn__node_link(&node->age.older, older);
    tarn__node_link(&node->age.younger, younger);
    tarn__node_link(older ? &NODE(older)->age.younger : &stream_state->oldest, index);
    tarn__node_link(younger ? &NODE(younger)->age.older : &stream_state->youngest, index);
}

static inline void tarn__heap_unlink(struct tarn__heap *heap,
                                     struct tarn__stream_state *stream_state,
                                     const struct tarn__node *node)
{
    tarn__index older = node->age.older, younger = node->age.younger;

    tarn__node_link(older ? &NODE(older)->age.younger : &stream_state->oldest, younger);
    tarn__node_link(younger ? &NODE(younger)->age.older : &stream_state->youngest, older);
}

/* --- free nodes as a whole --- */

/* Take a free node out of its lists: MOVING. */
static inline void tarn__heap_detach(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);
    struct tarn__stream_state *stream_state = tarn__heap_state_of(heap, node);

    tarn__heap_out_of_bins(heap, index, stream_state);
    if (stream_state) {
        tarn__heap_unlink(heap, stream_state, node);
        if (stream_state->oldest == 0)
            tarn__stream_state_unlink(heap, stream_state);
    }
    node->stream_state = 0;
    tarn__node_set(node, TARN__IN_TRANSIT);
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
