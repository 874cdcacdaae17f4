/* take.c -- allocation from the heap: finding a free block, and splitting it to
 * size. */
#include "pool/blocks/take.h"
#include "pool/mutations.h"

#define NODE(index) tarn__node(&heap->nodes, (index))

/* The page by which memory is mapped, and looked up. */
#define PAGE ((uint64_t)1 << TARN__PAGE_SHIFT)
enum { PAGE_QUANTA = 1 << (TARN__PAGE_SHIFT - TARN__QUANTUM_SHIFT) };

/* --- splitting --- */

/* Make a new node right behind `index`, of its last `quanta`. The node was reserved. */
static tarn__index split(struct tarn__heap *heap, tarn__index index, uint32_t quanta)
{
    tarn__index new_index = tarn__nodes_take(&heap->nodes);
    struct tarn__node *node = NODE(index), *rest = NODE(new_index);

    tarn__node_size(rest, quanta);
    tarn__node_set_address(rest, tarn__node_end(node));
    rest->before = index;
    rest->after = node->after;
    if (node->after)
        NODE(node->after)->before = new_index;
    node->after = new_index;
    rest->stream_state = node->stream_state;
    rest->epoch = node->epoch;
    tarn__node_set(rest, tarn__node_state(node));
    heap->blocks++;
    return new_index;
}

static uint64_t start_in(const struct tarn__node *node, uint64_t alignment)
{
    return (node->address + alignment - 1) & ~(alignment - 1);
}

bool tarn__take_fits(const struct tarn__heap *heap, const struct tarn__request *request,
                     const struct tarn__node *node)
{
    uint64_t gap = start_in(node, request->alignment) - node->address;

    return gap <= tarn__node_bytes(node) &&
           (tarn__node_bytes(node) - gap) >> TARN__QUANTUM_SHIFT >= request->quanta &&
           tarn__heap_may_serve(heap, node, request->quanta);
}

struct look {
    const struct tarn__heap *heap;
    const struct tarn__request *request;
};

static bool fits(const void *data, const struct tarn__node *node)
{
    const struct look *look = data;

    return tarn__take_fits(look->heap, look->request, node);
}

/* Take the whole of `index` out of its bins. */
void tarn__take_whole(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);

    if (tarn__node_state(node) == TARN__UNMAPPED) {
        tarn__heap_remove_unmapped(heap, index);
        tarn__node_set(node, TARN__IN_TRANSIT);
    } else {
        tarn__heap_detach(heap, index);
    }
    tarn__heap_enter(heap, index);
    heap->allocated_bytes += tarn__node_bytes(node);
}

/* Reserve nodes for so many splits, of which one becomes live. Returns false without host
 * memory. */
static inline bool reserve(struct tarn__heap *heap, size_t splits)
{
    return tarn__nodes_reserve(&heap->nodes, splits) &&
           tarn__addresses_reserve(&heap->addresses, &heap->nodes);
}

/* Give a free node or an unmapped range another size, in its bins. */
static inline void resize_in_place(struct tarn__heap *heap, tarn__index index,
                                   uint32_t quanta) TARN__REQUIRES(pool_lock)
{
    struct tarn__node *node = NODE(index);

    if (tarn__node_state(node) != TARN__UNMAPPED) {
        tarn__heap_resize(heap, index, quanta);
        return;
    }
    tarn__heap_remove_unmapped(heap, index);
    tarn__node_size(node, quanta);
    tarn__heap_add_unmapped(heap, index);
}

/* The bug of the mutation remainder_without_fence: the rest counts as of an older
 * epoch. */
static void lose_fence(struct tarn__heap *heap, tarn__index index)
{
    if (!TARN_MUTATION(remainder_without_fence))
        return;
    struct tarn__node *node = NODE(index);
    if (!node->stream_state)
        return;
    tarn__heap_out_of_bins(heap, index, tarn__heap_state(heap, node->stream_state));
    node->epoch = tarn__heap_state(heap, node->stream_state)->fenced_epoch;
    tarn__heap_into_bins(heap, index, tarn__heap_state(heap, node->stream_state));
}

/* Split the first `quanta` off a free node or an unmapped range, which has more: in
 * transit. The rest keeps its node, and so its stream state, epoch and position. */
static inline tarn__index split_front(struct tarn__heap *heap, tarn__index index,
                                      uint32_t quanta) TARN__REQUIRES(pool_lock)
{
    tarn__index new_index = tarn__nodes_take(&heap->nodes);
    struct tarn__node *rest = NODE(index), *front = NODE(new_index);

    tarn__node_set_address(front, rest->address);
    tarn__node_size(front, quanta);
    front->before = rest->before;
    front->after = index;
    if (rest->before) {
        NODE(rest->before)->after = new_index;
        tarn__addresses_add(&heap->addresses, &heap->nodes, new_index);
    } else {
        tarn__addresses_replace(&heap->addresses, &heap->nodes, index, new_index);
    }
    rest->before = new_index;
    resize_in_place(heap, index, rest->quanta - quanta);
    tarn__node_set_address(rest, tarn__node_end(front));
    tarn__node_set(front, TARN__IN_TRANSIT);
    lose_fence(heap, index);
    heap->allocated_bytes += tarn__node_bytes(front);
    heap->blocks++;
    return new_index;
}

/* Split a free node or an unmapped range at `address`. The part before it stays; the part
 * from there on becomes an adjacent node, of the same bins, stream state and epoch. */
static tarn__index split_off(struct tarn__heap *heap, tarn__index index, uint64_t address)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__node *node = NODE(index);
    uint32_t quanta = (uint32_t)((tarn__node_end(node) - address) >> TARN__QUANTUM_SHIFT);

    resize_in_place(heap, index, node->quanta - quanta);
    tarn__index upper = split(heap, index, quanta);
    if (tarn__node_state(node) == TARN__UNMAPPED) {
        tarn__heap_add_unmapped(heap, upper);
        return upper;
    }
    struct tarn__stream_state *stream_state = tarn__heap_state_of(heap, node);
    if (stream_state)
        tarn__heap_link_after(heap, stream_state, index, upper);
    tarn__heap_into_bins(heap, upper, stream_state);
    return upper;
}

/* Take out the first `quanta` of a free node or an unmapped range. 0: no host memory. */
static inline tarn__index take_front(struct tarn__heap *heap, tarn__index index,
                                     uint32_t quanta) TARN__REQUIRES(pool_lock)
{
    if (NODE(index)->quanta == quanta) {
        tarn__take_whole(heap, index);
        return index;
    }
    return reserve(heap, 1) ? split_front(heap, index, quanta) : 0;
}

tarn__index tarn__take_range(struct tarn__heap *heap, tarn__index index, uint64_t address,
                             uint64_t bytes)
{
    if (address > NODE(index)->address) {
        if (!reserve(heap, 2))
            return 0;
        index = split_off(heap, index, address);
    }
    return take_front(heap, index, (uint32_t)(bytes >> TARN__QUANTUM_SHIFT));
}

/* Return the best address for the request in a free block: its start, but a page border
 * for whole pages, so that they are whole handles again once they are free. */
static uint64_t best_address_in(const struct tarn__node *node,
                                const struct tarn__request *request)
{
    uint64_t start = start_in(node, request->alignment);

    if (request->quanta % PAGE_QUANTA != 0)
        return start;
    uint64_t page = (start + PAGE - 1) & ~(PAGE - 1);
    uint64_t end = page + ((uint64_t)request->quanta << TARN__QUANTUM_SHIFT);
    return end <= tarn__node_end(node) ? page : start;
}

tarn__index tarn__take_request(struct tarn__heap *heap, tarn__index index,
                               const struct tarn__request *request)
{
    return tarn__take_range(heap, index, best_address_in(NODE(index), request),
                            (uint64_t)request->quanta << TARN__QUANTUM_SHIFT);
}

/* --- finding --- */

/* Find the best block of the stream state, or a smaller completed one, of those that `accepts`
 * (NULL: it accepts all). */
static inline tarn__index find_accepted(const struct tarn__heap *heap,
                                        const struct tarn__stream_state *stream_state,
                                        const struct tarn__request *request,
                                        tarn__fits accepts)
{
    const struct look look = {heap, request};
    tarn__index same_stream = 0, completed = 0;
    uint32_t most = UINT32_MAX;

    if (stream_state && stream_state->in_order)
        same_stream = tarn__bins_find(&stream_state->free.bins, &heap->nodes,
                                      request->quanta, most, accepts, &look);
    if (same_stream)
        most = NODE(same_stream)->quanta - 1;
    if (most >= request->quanta && heap->completed_bytes > 0)
        completed = tarn__bins_find(&heap->completed, &heap->nodes, request->quanta, most,
                                    accepts, &look);
    return completed && NODE(completed)->quanta <= most ? completed : same_stream;
}

static inline tarn__index find(const struct tarn__heap *heap,
                               const struct tarn__stream_state *stream_state,
                               const struct tarn__request *request)
{
    bool size_tells =
        request->alignment <= TARN__QUANTUM && request->quanta >= heap->area_least;

    if (__builtin_expect(!size_tells, false))
        return find_accepted(heap, stream_state, request, fits);
    return find_accepted(heap, stream_state, request, NULL);
}

tarn__index tarn__take_block(struct tarn__heap *heap,
                             struct tarn__stream_state *stream_state,
                             const struct tarn__request *request, bool *was_completed,
                             bool *no_memory)
{
    tarn__index found = find(heap, stream_state, request);

    if (!found)
        return 0;
    *was_completed = NODE(found)->stream_state == 0;
    if (request->alignment <= TARN__QUANTUM && request->quanta % PAGE_QUANTA != 0)
        found = take_front(heap, found, request->quanta);
    else
        found = tarn__take_request(heap, found, request);
    *no_memory = found == 0;
    return found;
}

uint32_t tarn__take_largest(const struct tarn__heap *heap,
                            const struct tarn__stream_state *stream_state)
{
    uint32_t completed = tarn__bins_largest(&heap->completed, &heap->nodes),
             same_stream = 0;

    if (stream_state && stream_state->in_order)
        same_stream = tarn__bins_largest(&stream_state->free.bins, &heap->nodes);
    return same_stream > completed ? same_stream : completed;
}
