/* heap_cut.c -- allocation from the heap: finding a free block, and splitting it to
 * size. */
#include "resource/pool/heap_inside.h"
#include "resource/pool/mutations.h"

/* The page by which memory is mapped, and looked up. */
#define PAGE ((uint64_t)1 << TARN__PAGE_SHIFT)
enum { PAGE_GRANULES = 1 << (TARN__PAGE_SHIFT - TARN__GRANULE_SHIFT) };

/* --- splitting --- */

/* Make a new node right behind `index`, of its last `granules`. The node was reserved. */
static tarn__index split(struct tarn__heap *heap, tarn__index index, uint32_t granules)
{
    tarn__index cut = tarn__nodes_take(&heap->nodes);
    struct tarn__node *node = NODE(index), *rest = NODE(cut);

    tarn__node_size(rest, granules);
    tarn__node_place(rest, tarn__node_end(node));
    rest->before = index;
    rest->after = node->after;
    if (node->after)
        NODE(node->after)->before = cut;
    node->after = cut;
    rest->lane = node->lane;
    rest->epoch = node->epoch;
    tarn__node_set(rest, tarn__node_state(node));
    heap->blocks++;
    return cut;
}

static uint64_t start_in(const struct tarn__node *node, uint64_t alignment)
{
    return (node->address + alignment - 1) & ~(alignment - 1);
}

bool tarn__request_fits(const struct tarn__request *request,
                        const struct tarn__node *node)
{
    uint64_t gap = start_in(node, request->alignment) - node->address;

    return gap <= tarn__node_bytes(node) &&
           (tarn__node_bytes(node) - gap) >> TARN__GRANULE_SHIFT >= request->granules;
}

static bool fits(const void *request, const struct tarn__node *node)
{
    return tarn__request_fits(request, node);
}

/* Take the whole of `index` out of its bins. */
void tarn__heap_take_whole(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);

    if (tarn__node_state(node) == TARN__HOLE) {
        tarn__bins_remove(&heap->holes, &heap->nodes, index);
        heap->hole_bytes -= tarn__node_bytes(node);
        tarn__node_set(node, TARN__MOVING);
    } else {
        tarn__heap_detach(heap, index);
    }
    tarn__heap_enter(heap, index);
    heap->out_bytes += tarn__node_bytes(node);
}

/* Reserve nodes for so many splits, of which one becomes live. Returns false without host
 * memory. */
static inline bool reserve(struct tarn__heap *heap, size_t cuts)
{
    return tarn__nodes_reserve(&heap->nodes, cuts) &&
           tarn__addresses_reserve(&heap->addresses, &heap->nodes, 1);
}

/* Give a free node or a hole another size, in its bins. */
static inline void resize_in_place(struct tarn__heap *heap, tarn__index index,
                                   uint32_t granules)
{
    struct tarn__node *node = NODE(index);

    if (tarn__node_state(node) != TARN__HOLE) {
        tarn__heap_resize(heap, index, granules);
        return;
    }
    tarn__bins_remove(&heap->holes, &heap->nodes, index);
    heap->hole_bytes -= tarn__node_bytes(node);
    tarn__node_size(node, granules);
    heap->hole_bytes += tarn__node_bytes(node);
    tarn__bins_add(&heap->holes, &heap->nodes, index);
}

/* The bug of the mutation remainder_without_fence: the rest counts as of an older
 * epoch. */
static void lose_fence(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);

    if (!TARN_MUTATION(remainder_without_fence) || !node->lane)
        return;
    tarn__heap_out_of_bins(heap, index, tarn__lane(heap, node->lane));
    node->epoch = tarn__lane(heap, node->lane)->fenced_epoch;
    tarn__heap_into_bins(heap, index, tarn__lane(heap, node->lane));
}

/* Split the first `granules` off a free node or a hole, which has more: MOVING. The rest
 * keeps its node, and so its lane, epoch and position. */
static inline tarn__index cut_front(struct tarn__heap *heap, tarn__index index,
                                    uint32_t granules)
{
    tarn__index cut = tarn__nodes_take(&heap->nodes);
    struct tarn__node *rest = NODE(index), *front = NODE(cut);

    tarn__node_place(front, rest->address);
    tarn__node_size(front, granules);
    front->before = rest->before;
    front->after = index;
    if (rest->before) {
        NODE(rest->before)->after = cut;
        tarn__addresses_add(&heap->addresses, &heap->nodes, cut);
    } else {
        tarn__addresses_replace(&heap->addresses, &heap->nodes, index, cut);
    }
    rest->before = cut;
    resize_in_place(heap, index, rest->granules - granules);
    tarn__node_place(rest, tarn__node_end(front));
    tarn__node_set(front, TARN__MOVING);
    lose_fence(heap, index);
    heap->out_bytes += tarn__node_bytes(front);
    heap->blocks++;
    return cut;
}

/* Split a free node or a hole at `address`. The part before it stays; the part from there
 * on becomes an adjacent node, of the same bins, lane and epoch. */
static tarn__index split_off(struct tarn__heap *heap, tarn__index index, uint64_t address)
{
    struct tarn__node *node = NODE(index);
    uint32_t granules =
        (uint32_t)((tarn__node_end(node) - address) >> TARN__GRANULE_SHIFT);

    resize_in_place(heap, index, node->granules - granules);
    tarn__index upper = split(heap, index, granules);
    if (tarn__node_state(node) == TARN__HOLE) {
        tarn__bins_add(&heap->holes, &heap->nodes, upper);
        heap->hole_bytes += tarn__node_bytes(NODE(upper));
        return upper;
    }
    struct tarn__lane *lane = tarn__heap_lane_of(heap, node);
    if (lane)
        tarn__heap_link_after(heap, lane, index, upper);
    tarn__heap_into_bins(heap, upper, lane);
    return upper;
}

/* Take out the first `granules` of a free node or a hole. 0: no host memory. */
static inline tarn__index take_front(struct tarn__heap *heap, tarn__index index,
                                     uint32_t granules)
{
    if (NODE(index)->granules == granules) {
        tarn__heap_take_whole(heap, index);
        return index;
    }
    return reserve(heap, 1) ? cut_front(heap, index, granules) : 0;
}

tarn__index tarn__heap_carve(struct tarn__heap *heap, tarn__index index, uint64_t address,
                             uint64_t bytes)
{
    if (address > NODE(index)->address) {
        if (!reserve(heap, 2))
            return 0;
        index = split_off(heap, index, address);
    }
    return take_front(heap, index, (uint32_t)(bytes >> TARN__GRANULE_SHIFT));
}

/* Return the best address for the request in a free block: its start, but a page border
 * for whole pages, so that they are whole handles again once they are free. */
static uint64_t place_in(const struct tarn__node *node,
                         const struct tarn__request *request)
{
    uint64_t start = start_in(node, request->alignment);

    if (request->granules % PAGE_GRANULES != 0)
        return start;
    uint64_t page = (start + PAGE - 1) & ~(PAGE - 1);
    uint64_t end = page + ((uint64_t)request->granules << TARN__GRANULE_SHIFT);
    return end <= tarn__node_end(node) ? page : start;
}

tarn__index tarn__heap_cut(struct tarn__heap *heap, tarn__index index,
                           const struct tarn__request *request)
{
    return tarn__heap_carve(heap, index, place_in(NODE(index), request),
                            (uint64_t)request->granules << TARN__GRANULE_SHIFT);
}

/* --- finding --- */

/* Find a block for the request, of so many granules or less. */
static inline tarn__index find_in(const struct tarn__heap *heap,
                                  const struct tarn__bins *bins,
                                  const struct tarn__request *request, uint32_t most)
{
    if (request->alignment > TARN__GRANULE)
        return tarn__bins_find(bins, &heap->nodes, request->granules, most, fits,
                               request);
    return tarn__bins_find(bins, &heap->nodes, request->granules, most, NULL, NULL);
}

/* Find the best block of the lane, or a smaller completed one. */
static inline tarn__index find(const struct tarn__heap *heap,
                               const struct tarn__lane *lane,
                               const struct tarn__request *request)
{
    tarn__index own = 0, ready = 0;
    uint32_t most = UINT32_MAX;

    if (lane && lane->in_order)
        own = find_in(heap, &lane->bins, request, most);
    if (own)
        most = NODE(own)->granules - 1;
    if (most >= request->granules && heap->ready_bytes > 0)
        ready = find_in(heap, &heap->ready, request, most);
    return ready && NODE(ready)->granules <= most ? ready : own;
}

tarn__index tarn__heap_take(struct tarn__heap *heap, struct tarn__lane *lane,
                            const struct tarn__request *request, bool *was_ready,
                            bool *no_memory)
{
    tarn__index found = find(heap, lane, request);

    if (!found)
        return 0;
    *was_ready = NODE(found)->lane == 0;
    if (request->alignment <= TARN__GRANULE && request->granules % PAGE_GRANULES != 0)
        found = take_front(heap, found, request->granules);
    else
        found = tarn__heap_cut(heap, found, request);
    *no_memory = found == 0;
    return found;
}

uint32_t tarn__heap_largest(const struct tarn__heap *heap, const struct tarn__lane *lane)
{
    uint32_t ready = tarn__bins_largest(&heap->ready, &heap->nodes), own = 0;

    if (lane && lane->in_order)
        own = tarn__bins_largest(&lane->bins, &heap->nodes);
    return own > ready ? own : ready;
}
