/* heap_ranges.c -- the address ranges of a heap: adding and removing segments, unmapped
 * ranges (holes), and where the pool grows next.
 */
#include "resource/pool/heap_inside.h"
#include "resource/pool/mutations.h"
#include <stdlib.h>

/* --- memory is added and removed --- */

static bool add_start(struct tarn__heap *heap, uint64_t address)
{
    if (heap->segments == heap->segment_room) {
        size_t room = heap->segment_room ? 2 * heap->segment_room : 16;
        uint64_t *starts = realloc(heap->starts, room * sizeof *starts);
        if (!starts)
            return false;
        heap->starts = starts;
        heap->segment_room = room;
    }
    heap->starts[heap->segments++] = address;
    return true;
}

static void remove_start(struct tarn__heap *heap, uint64_t address)
{
    size_t i = 0;

    while (i < heap->segments && heap->starts[i] != address)
        i++;
    if (i < heap->segments)
        heap->starts[i] = heap->starts[--heap->segments];
}

/* The bug of the mutation border_lost: adjacent segments count as one. */
static void lose_borders(struct tarn__heap *heap, tarn__index index)
{
    for (size_t i = 0; i < heap->segments; i++) {
        tarn__index last = tarn__heap_find(heap, heap->starts[i]);
        while (last && NODE(last)->after)
            last = NODE(last)->after;
        if (!last || last == index || tarn__node_end(NODE(last)) != NODE(index)->address)
            continue;
        NODE(last)->after = index;
        NODE(index)->before = last;
    }
}

/* Make a node for a whole new range: MOVING, counted as live. */
static tarn__index new_range(struct tarn__heap *heap, uint64_t address, uint64_t bytes)
{
    uint64_t start = (address + TARN__GRANULE - 1) & ~(uint64_t)(TARN__GRANULE - 1);
    uint64_t granules = (address + bytes - start) >> TARN__GRANULE_SHIFT;

    if (granules == 0 || granules > UINT32_MAX || start >> 48 ||
        (address + bytes - 1) >> 48 || !tarn__nodes_reserve(&heap->nodes, 1) ||
        !tarn__addresses_reserve(&heap->addresses, &heap->nodes, 1) ||
        !add_start(heap, start))
        return 0;
    tarn__index index = tarn__nodes_take(&heap->nodes);
    struct tarn__node *node = NODE(index);
    tarn__node_place(node, start);
    tarn__node_size(node, (uint32_t)granules);
    tarn__node_set(node, TARN__MOVING);
    tarn__addresses_add(&heap->addresses, &heap->nodes, index);
    heap->blocks++;
    heap->out_bytes += tarn__node_bytes(node);
    if (TARN_MUTATION(border_lost))
        lose_borders(heap, index);
    return index;
}

bool tarn__heap_add_segment(struct tarn__heap *heap, uint64_t address, uint64_t bytes,
                            struct tarn__lane *lane)
{
    tarn__index index = new_range(heap, address, bytes);

    if (!index)
        return false;
    tarn__heap_put(heap, index, lane);
    return true;
}

bool tarn__heap_add_range(struct tarn__heap *heap, uint64_t address, uint64_t bytes)
{
    tarn__index index = new_range(heap, address, bytes);

    if (!index)
        return false;
    tarn__heap_make_hole(heap, index);
    return true;
}

static bool joins_hole(const struct tarn__heap *heap, const struct tarn__node *node,
                       tarn__index neighbour)
{
    return neighbour && tarn__node_state(NODE(neighbour)) == TARN__HOLE &&
           NODE(neighbour)->granules <= UINT32_MAX - node->granules;
}

static void out_of_holes(struct tarn__heap *heap, tarn__index index)
{
    tarn__bins_remove(&heap->holes, &heap->nodes, index);
    heap->hole_bytes -= tarn__node_bytes(NODE(index));
}

void tarn__heap_make_hole(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);

    heap->out_bytes -= tarn__node_bytes(node);
    tarn__heap_leave(heap, index);
    if (joins_hole(heap, node, node->after)) {
        out_of_holes(heap, node->after);
        tarn__heap_take_in(heap, index);
    }
    if (joins_hole(heap, node, node->before)) {
        tarn__index before = node->before;
        out_of_holes(heap, before);
        tarn__heap_take_in(heap, before);
        index = before;
    }
    tarn__node_set(NODE(index), TARN__HOLE);
    tarn__bins_add(&heap->holes, &heap->nodes, index);
    heap->hole_bytes += tarn__node_bytes(NODE(index));
}

void tarn__heap_make_old(struct tarn__heap *heap, tarn__index index)
{
    heap->out_bytes -= tarn__node_bytes(NODE(index));
    heap->hole_bytes += tarn__node_bytes(NODE(index));
    tarn__heap_leave(heap, index);
    tarn__node_set(NODE(index), TARN__OLD);
}

void tarn__heap_end_old(struct tarn__heap *heap, tarn__index index)
{
    heap->out_bytes += tarn__node_bytes(NODE(index));
    heap->hole_bytes -= tarn__node_bytes(NODE(index));
    tarn__heap_enter(heap, index);
    tarn__node_set(NODE(index), TARN__MOVING);
}

void tarn__heap_drop_segment(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);

    heap->out_bytes -= tarn__node_bytes(node);
    remove_start(heap, node->address);
    tarn__addresses_remove(&heap->addresses, &heap->nodes, index);
    tarn__nodes_put(&heap->nodes, index);
    heap->blocks--;
}

/* --- where to grow --- */

enum { HOLE_LOOKS = 128 };

struct place {
    const struct tarn__heap *heap;
    const struct tarn__lane *lane;
    const struct tarn__request *request;
    uint64_t spare_bytes;
    struct tarn__site best;
    unsigned looks;
};

/* Return how much of a hole the request needs, given the memory before it. */
static struct tarn__site site_in(const struct place *place, tarn__index index)
{
    const struct tarn__heap *heap = place->heap;
    const struct tarn__node *hole = NODE(index);
    struct tarn__site site = {index, hole->address, 0, hole->address};
    uint64_t alignment = place->request->alignment;

    for (tarn__index i = hole->before; i && tarn__lane_may_have(place->lane, NODE(i));
         i = NODE(i)->before)
        site.from = NODE(i)->address;
    uint64_t start = (site.from + alignment - 1) & ~(alignment - 1);
    uint64_t end = start + ((uint64_t)place->request->granules << TARN__GRANULE_SHIFT);
    site.bytes = end > hole->address ? end - hole->address : 0;
    return site;
}

static bool look_at_hole(void *data, tarn__index index)
{
    struct place *place = data;
    struct tarn__site site = site_in(place, index);

    /* The page that maps it has to be in the hole as well. */
    if (site.bytes + place->spare_bytes <=
            tarn__node_bytes(tarn__node(&place->heap->nodes, index)) &&
        (!place->best.hole || site.bytes < place->best.bytes))
        place->best = site;
    return ++place->looks < HOLE_LOOKS;
}

struct tarn__site tarn__heap_find_site(const struct tarn__heap *heap,
                                       const struct tarn__lane *lane,
                                       const struct tarn__request *request,
                                       uint64_t spare_bytes)
{
    struct place place = {
        .heap = heap, .lane = lane, .request = request, .spare_bytes = spare_bytes};

    tarn__bins_visit(&heap->holes, &heap->nodes, 1, look_at_hole, &place);
    return place.best;
}

struct inside {
    const struct tarn__heap *heap;
    uint64_t address;
    tarn__index hole;
};

static bool is_inside(void *data, tarn__index index)
{
    struct inside *inside = data;
    const struct tarn__node *hole = tarn__node(&inside->heap->nodes, index);

    if (inside->address - hole->address >= tarn__node_bytes(hole))
        return true;
    inside->hole = index;
    return false;
}

tarn__index tarn__heap_hole_at(const struct tarn__heap *heap, uint64_t address)
{
    struct inside inside = {heap, address, 0};

    tarn__bins_visit(&heap->holes, &heap->nodes, 1, is_inside, &inside);
    return inside.hole;
}
