/* heap.c -- blocks by address: cut, joined, freed. What is about lanes is in lane.c. */
#include "resource/pool/heap.h"
#include "resource/pool/mutations.h"
#include <string.h>

#define NODE(index) tarn__node(&heap->nodes, (index))

/* Where several streams have memory, a ready neighbour of up to this much joins what one
 * of them frees beside it: more would be taken from the others. */
#define READY_ABSORB ((uint64_t)1 << 20)

/* What memory is mapped by, and looked up by. */
#define PAGE ((uint64_t)1 << TARN__PAGE_SHIFT)
enum { PAGE_GRANULES = 1 << (TARN__PAGE_SHIFT - TARN__GRANULE_SHIFT) };

void tarn__heap_init(struct tarn__heap *heap)
{
    memset(heap, 0, sizeof *heap);
    tarn__map_init(&heap->by_key, sizeof(tarn__index));
    heap->absorb_bytes = (uint64_t)16 << 20;
}

tarn__index tarn__heap_find(const struct tarn__heap *heap, uint64_t address)
{
    return tarn__addresses_find(&heap->addresses, &heap->nodes, address);
}

/* --- in and out of the bins --- */

/* The lane of a free node; NULL: it is ready. */
static inline struct tarn__lane *lane_of(const struct tarn__heap *heap,
                                         const struct tarn__node *node)
{
    return node->lane ? tarn__lane(heap, node->lane) : NULL;
}

/* So many bytes of a free node came; less than none, as a number that wraps, for some that
 * went. */
static inline void count(struct tarn__heap *heap, struct tarn__lane *lane, uint64_t epoch,
                         uint64_t bytes)
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

/* Enter a free node into the bins where it belongs, and count it. */
static inline void into_bins(struct tarn__heap *heap, tarn__index index,
                             struct tarn__lane *lane)
{
    const struct tarn__node *node = NODE(index);

    tarn__bins_add(lane ? &lane->bins : &heap->ready, &heap->nodes, index);
    count(heap, lane, node->epoch, tarn__node_bytes(node));
}

static inline void out_of_bins(struct tarn__heap *heap, tarn__index index,
                               struct tarn__lane *lane)
{
    const struct tarn__node *node = NODE(index);

    tarn__bins_remove(lane ? &lane->bins : &heap->ready, &heap->nodes, index);
    count(heap, lane, node->epoch, -tarn__node_bytes(node));
}

/* A free node gets another size. In its class it stays where it is. */
static inline void resize(struct tarn__heap *heap, tarn__index index, uint32_t granules)
{
    struct tarn__node *node = NODE(index);
    struct tarn__lane *lane = lane_of(heap, node);
    struct tarn__bins *bins = lane ? &lane->bins : &heap->ready;
    unsigned from = tarn__bins_class(node->granules), to = tarn__bins_class(granules);
    uint64_t more = ((uint64_t)granules - node->granules) << TARN__GRANULE_SHIFT;

    node->granules = granules;
    count(heap, lane, node->epoch, more);
    if (from == to)
        return;
    tarn__bins_remove_from(bins, &heap->nodes, index, from);
    tarn__bins_add_to(bins, &heap->nodes, index, to);
}

/* --- the list of a lane's free blocks by epoch --- */

static void link_after(struct tarn__heap *heap, struct tarn__lane *lane,
                       tarn__index older, tarn__index index)
{
    struct tarn__node *node = NODE(index);
    tarn__index younger = older ? NODE(older)->age.younger : lane->oldest;

    node->age.older = older;
    node->age.younger = younger;
    *(older ? &NODE(older)->age.younger : &lane->oldest) = index;
    *(younger ? &NODE(younger)->age.older : &lane->youngest) = index;
}

static void unlink_age(struct tarn__heap *heap, struct tarn__lane *lane,
                       const struct tarn__node *node)
{
    tarn__index older = node->age.older, younger = node->age.younger;

    *(older ? &NODE(older)->age.younger : &lane->oldest) = younger;
    *(younger ? &NODE(younger)->age.older : &lane->youngest) = older;
}

/* --- free nodes as a whole --- */

/* A node becomes free in `lane` (its open epoch), or ready. */
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
        link_after(heap, lane, lane->youngest, index);
    }
    into_bins(heap, index, lane);
}

/* As attach, but at the place that an older epoch has in the list. */
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
    link_after(heap, lane, older, index);
    into_bins(heap, index, lane);
}

static void detach(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);
    struct tarn__lane *lane = lane_of(heap, node);

    out_of_bins(heap, index, lane);
    if (lane) {
        unlink_age(heap, lane, node);
        if (lane->oldest == 0)
            tarn__lane_is_empty(heap, lane);
    }
    node->lane = 0;
    tarn__node_set(node, TARN__MOVING);
}

/* --- what is out is found by its address, and so is the first of a segment --- */

static inline void enter(struct tarn__heap *heap, tarn__index index)
{
    if (NODE(index)->before)
        tarn__addresses_add(&heap->addresses, &heap->nodes, index);
}

static inline void leave(struct tarn__heap *heap, tarn__index index)
{
    if (NODE(index)->before)
        tarn__addresses_remove(&heap->addresses, &heap->nodes, index);
}

/* --- neighbours --- */

/* A new node right behind `index`, for `granules` that were its last. The room was reserved. */
static tarn__index split(struct tarn__heap *heap, tarn__index index, uint32_t granules)
{
    tarn__index cut = tarn__nodes_take(&heap->nodes);
    struct tarn__node *node = NODE(index), *rest = NODE(cut);

    rest->granules = granules;
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

/* The upper neighbour of `index`, which is in no bin and not entered, is a part of it now. */
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
    NODE(index)->granules += NODE(NODE(index)->after)->granules;
    drop_upper(heap, index);
}

void tarn__heap_swallow(struct tarn__heap *heap, tarn__index index)
{
    leave(heap, NODE(index)->after);
    tarn__heap_take_in(heap, index);
}

/* A free node takes in its upper neighbour, which is MOVING. */
static inline void extend_up(struct tarn__heap *heap, tarn__index index)
{
    resize(heap, index, NODE(index)->granules + NODE(NODE(index)->after)->granules);
    drop_upper(heap, index);
}

/* A free node takes in its lower neighbour, which is MOVING. */
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
    resize(heap, index, node->granules + gone->granules);
    tarn__nodes_put(&heap->nodes, lower);
    heap->blocks--;
}

/* Does a free neighbour join what `lane` frees now (NULL: what is ready), which has so many
 * granules? It would get the lane's open epoch, so a large one that is fenced or ready stays
 * by itself. */
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

/* Is it just what `lane` frees now becomes, if it is free? Then that joins it where it is. */
static inline bool is_alike(const struct tarn__lane *lane,
                            const struct tarn__node *neighbour)
{
    if (TARN_MUTATION(no_renewal))
        return false;
    return lane ? neighbour->lane == lane->index && neighbour->epoch == lane->open_epoch
                : neighbour->lane == 0;
}

/* Neighbours that join `index` but are not alike are taken out of their lists first. */
static tarn__index join_others(struct tarn__heap *heap, tarn__index index,
                               const struct tarn__lane *lane)
{
    const struct tarn__node *node = NODE(index);
    tarn__index after = node->after, before = node->before;
    uint32_t granules = node->granules;

    if (after && joins(heap, lane, granules, NODE(after))) {
        granules += NODE(after)->granules;
        if (!is_alike(lane, NODE(after))) {
            detach(heap, after);
            tarn__heap_take_in(heap, index);
        }
    }
    if (!before || is_alike(lane, NODE(before)) ||
        !joins(heap, lane, granules, NODE(before)))
        return index;
    detach(heap, before);
    tarn__heap_take_in(heap, before);
    return before;
}

/* Is a neighbour free that would not simply become longer? Of node 0 no state says so. */
static inline bool has_others(const struct tarn__heap *heap,
                              const struct tarn__node *node,
                              const struct tarn__lane *lane)
{
    const struct tarn__node *after = NODE(node->after), *before = NODE(node->before);

    return (tarn__node_state(after) == TARN__FREE && !is_alike(lane, after)) ||
           (tarn__node_state(before) == TARN__FREE && !is_alike(lane, before));
}

/* What is alike joins, whatever its size, unless the sum is no number. */
static inline bool joins_alike(const struct tarn__lane *lane, uint32_t granules,
                               const struct tarn__node *neighbour)
{
    return tarn__node_state(neighbour) == TARN__FREE && is_alike(lane, neighbour) &&
           neighbour->granules <= UINT32_MAX - granules;
}

/* What is MOVING becomes free: a part of neighbours that are alike, or by itself. */
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
        detach(heap, node->after);
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

/* What is MOVING, in no bin and not entered, becomes free. */
static inline void release(struct tarn__heap *heap, tarn__index index,
                           struct tarn__lane *lane)
{
    /* What is ready joins ready neighbours alone. */
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
    node->capture = 0;
    if (lane)
        lane->frees++;
    leave(heap, index);
    release(heap, index, lane);
}

void tarn__heap_make_ready(struct tarn__heap *heap, tarn__index index)
{
    detach(heap, index);
    release(heap, index, NULL);
}

/* --- cutting --- */

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

/* Take the whole of `index` out of whatever bins it is in. */
void tarn__heap_take_whole(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);

    if (tarn__node_state(node) == TARN__HOLE) {
        tarn__bins_remove(&heap->holes, &heap->nodes, index);
        heap->hole_bytes -= tarn__node_bytes(node);
        tarn__node_set(node, TARN__MOVING);
    } else {
        detach(heap, index);
    }
    enter(heap, index);
    heap->out_bytes += tarn__node_bytes(node);
}

/* Room for so many cuts, of which one goes out. False: no host memory. */
static inline bool reserve(struct tarn__heap *heap, size_t cuts)
{
    return tarn__nodes_reserve(&heap->nodes, cuts) &&
           tarn__addresses_reserve(&heap->addresses, &heap->nodes, 1);
}

/* A free node or a hole gets another size, in the bins where it is. */
static inline void resize_in_place(struct tarn__heap *heap, tarn__index index,
                                   uint32_t granules)
{
    struct tarn__node *node = NODE(index);

    if (tarn__node_state(node) != TARN__HOLE) {
        resize(heap, index, granules);
        return;
    }
    tarn__bins_remove(&heap->holes, &heap->nodes, index);
    heap->hole_bytes -= tarn__node_bytes(node);
    node->granules = granules;
    heap->hole_bytes += tarn__node_bytes(node);
    tarn__bins_add(&heap->holes, &heap->nodes, index);
}

/* The bug that remainder_without_fence is: what is left counts as of an older epoch. */
static void lose_fence(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);

    if (!TARN_MUTATION(remainder_without_fence) || !node->lane)
        return;
    out_of_bins(heap, index, tarn__lane(heap, node->lane));
    node->epoch = tarn__lane(heap, node->lane)->fenced_epoch;
    into_bins(heap, index, tarn__lane(heap, node->lane));
}

/* The first `granules` of a free node or a hole, which has more, become a node of their
 * own: MOVING. What is left keeps its node, and so its lane, epoch and place. */
static inline tarn__index cut_front(struct tarn__heap *heap, tarn__index index,
                                    uint32_t granules)
{
    tarn__index cut = tarn__nodes_take(&heap->nodes);
    struct tarn__node *rest = NODE(index), *front = NODE(cut);

    tarn__node_place(front, rest->address);
    front->granules = granules;
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

/* What lies before `address` in a free node or a hole stays; what is from there on becomes a
 * node beside it, of the same bins, lane and epoch. */
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
    struct tarn__lane *lane = lane_of(heap, node);
    if (lane)
        link_after(heap, lane, index, upper);
    into_bins(heap, upper, lane);
    return upper;
}

/* The first `granules` of a free node or a hole are taken out. 0: no host memory. */
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

/* Where in a free block the request is best: at its start, but whole pages at a page, so
 * that they are whole handles again when they are free. */
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

/* A block for the request of so many granules or less. */
static inline tarn__index find_in(const struct tarn__heap *heap,
                                  const struct tarn__bins *bins,
                                  const struct tarn__request *request, uint32_t most)
{
    if (request->alignment > TARN__GRANULE)
        return tarn__bins_find(bins, &heap->nodes, request->granules, most, fits,
                               request);
    return tarn__bins_find_any(bins, &heap->nodes, request->granules, most);
}

/* The own block that is best, or a ready one that is smaller. */
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

void tarn__heap_join_neighbours(struct tarn__heap *heap, tarn__index first,
                                uint32_t granules)
{
    tarn__index lane = NODE(first)->lane;
    uint64_t epoch = NODE(first)->epoch;

    detach(heap, first);
    while (NODE(first)->granules < granules) {
        tarn__index i = NODE(first)->after;
        if (NODE(i)->lane) {
            epoch = lane && epoch > NODE(i)->epoch ? epoch : NODE(i)->epoch;
            lane = NODE(i)->lane;
        }
        detach(heap, i);
        tarn__heap_take_in(heap, first);
    }
    attach_in_epoch(heap, first, lane ? tarn__lane(heap, lane) : NULL, epoch);
}

uint32_t tarn__heap_largest(const struct tarn__heap *heap, const struct tarn__lane *lane)
{
    uint32_t ready = tarn__bins_largest(&heap->ready, &heap->nodes), own = 0;

    if (lane && lane->in_order)
        own = tarn__bins_largest(&lane->bins, &heap->nodes);
    return own > ready ? own : ready;
}
