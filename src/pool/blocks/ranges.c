/* ranges.c -- the address ranges of a heap: adding and removing segments, and unmapped
 * ranges. */
#include "pool/blocks/ranges.h"
#include "pool/blocks/take.h"
#include "pool/mutations.h"
#include <stdlib.h>

#define NODE(index) tarn__node(&heap->nodes, (index))

/* --- memory is added and removed --- */

static bool add_start(struct tarn__heap *heap, uint64_t address)
{
    if (heap->segments == heap->segment_capacity) {
        size_t capacity = heap->segment_capacity ? 2 * heap->segment_capacity : 16;
        uint64_t *starts = realloc(heap->starts, capacity * sizeof *starts);
        if (!starts)
            return false;
        heap->starts = starts;
        heap->segment_capacity = capacity;
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

/* The bug of the mutation segment_border_lost: adjacent segments count as one. */
static void lose_borders(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock)
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

/* Make a node for a whole new range: in transit, counted as live. */
static tarn__index new_range(struct tarn__heap *heap, uint64_t address, uint64_t bytes)
{
    uint64_t start = (address + TARN__QUANTUM - 1) & ~(uint64_t)(TARN__QUANTUM - 1);
    uint64_t quanta = (address + bytes - start) >> TARN__QUANTUM_SHIFT;

    if (quanta == 0 || quanta > UINT32_MAX || start >> 48 ||
        (address + bytes - 1) >> 48 || !tarn__nodes_reserve(&heap->nodes, 1) ||
        !tarn__addresses_reserve(&heap->addresses, &heap->nodes) ||
        !add_start(heap, start))
        return 0;
    tarn__index index = tarn__nodes_take(&heap->nodes);
    struct tarn__node *node = NODE(index);
    tarn__node_set_address(node, start);
    tarn__node_size(node, (uint32_t)quanta);
    tarn__node_set(node, TARN__IN_TRANSIT);
    tarn__addresses_add(&heap->addresses, &heap->nodes, index);
    heap->blocks++;
    heap->allocated_bytes += tarn__node_bytes(node);
    if (TARN_MUTATION(segment_border_lost))
        lose_borders(heap, index);
    return index;
}

bool tarn__ranges_add_segment(struct tarn__heap *heap, uint64_t address, uint64_t bytes,
                              struct tarn__stream_state *stream_state)
{
    tarn__index index = new_range(heap, address, bytes);

    if (!index)
        return false;
    tarn__heap_put(heap, index, stream_state);
    return true;
}

/* Most bytes of one node of a new range. The addresses of a large device need more quanta
 * than a node can have, so they become several adjacent nodes. */
#define PART_MAX ((uint64_t)1 << (31 + TARN__QUANTUM_SHIFT))

/* Make a node behind `index`, the last node of a range: in transit, counted as live. */
static tarn__index extend(struct tarn__heap *heap, tarn__index index, uint64_t bytes)
{
    if (!tarn__nodes_reserve(&heap->nodes, 1) ||
        !tarn__addresses_reserve(&heap->addresses, &heap->nodes))
        return 0;
    tarn__index added = tarn__nodes_take(&heap->nodes);
    struct tarn__node *node = NODE(added);
    tarn__node_set_address(node, tarn__node_end(NODE(index)));
    tarn__node_size(node, (uint32_t)(bytes >> TARN__QUANTUM_SHIFT));
    tarn__node_set(node, TARN__IN_TRANSIT);
    node->before = index;
    NODE(index)->after = added;
    tarn__heap_enter(heap, added);
    heap->blocks++;
    heap->allocated_bytes += bytes;
    return added;
}

bool tarn__ranges_add(struct tarn__heap *heap, uint64_t address, uint64_t bytes)
{
    uint64_t part = bytes < PART_MAX ? bytes : PART_MAX;
    tarn__index index = new_range(heap, address, part);

    while (index && bytes > part) {
        bytes -= part;
        part = bytes < PART_MAX ? bytes : PART_MAX;
        tarn__index next = extend(heap, index, part);
        tarn__ranges_make_unmapped(heap, index);
        index = next;
    }
    if (index)
        tarn__ranges_make_unmapped(heap, index);
    return index != 0;
}

static bool coalesces_with_unmapped(const struct tarn__heap *heap,
                                    const struct tarn__node *node, tarn__index neighbour)
{
    return neighbour && tarn__node_state(NODE(neighbour)) == TARN__UNMAPPED &&
           NODE(neighbour)->quanta <= UINT32_MAX - node->quanta;
}

tarn__index tarn__ranges_make_unmapped(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);

    heap->allocated_bytes -= tarn__node_bytes(node);
    tarn__heap_leave(heap, index);
    if (coalesces_with_unmapped(heap, node, node->after)) {
        tarn__heap_remove_unmapped(heap, node->after);
        tarn__heap_absorb(heap, index);
    }
    if (coalesces_with_unmapped(heap, node, node->before)) {
        tarn__index before = node->before;
        tarn__heap_remove_unmapped(heap, before);
        tarn__heap_absorb(heap, before);
        index = before;
    }
    tarn__node_set(NODE(index), TARN__UNMAPPED);
    tarn__heap_add_unmapped(heap, index);
    return index;
}

bool tarn__ranges_cut(struct tarn__heap *heap, tarn__index index, uint64_t address)
{
    if (!add_start(heap, address))
        return false;
    tarn__index upper =
        tarn__take_range(heap, index, address, tarn__node_end(NODE(index)) - address);
    if (!upper) {
        remove_start(heap, address);
        return false;
    }
    NODE(NODE(upper)->before)->after = 0;
    NODE(upper)->before = 0; /* it stays in the table of addresses */
    tarn__ranges_make_unmapped(heap, upper);
    return true;
}

void tarn__ranges_make_retired(struct tarn__heap *heap, tarn__index index)
{
    heap->allocated_bytes -= tarn__node_bytes(NODE(index));
    heap->unmapped_bytes += tarn__node_bytes(NODE(index));
    tarn__heap_leave(heap, index);
    tarn__node_set(NODE(index), TARN__RETIRED);
}

void tarn__ranges_end_retired(struct tarn__heap *heap, tarn__index index)
{
    heap->allocated_bytes += tarn__node_bytes(NODE(index));
    heap->unmapped_bytes -= tarn__node_bytes(NODE(index));
    tarn__heap_enter(heap, index);
    tarn__node_set(NODE(index), TARN__IN_TRANSIT);
}

void tarn__ranges_drop_segment(struct tarn__heap *heap, tarn__index index)
{
    struct tarn__node *node = NODE(index);

    heap->allocated_bytes -= tarn__node_bytes(node);
    remove_start(heap, node->address);
    tarn__addresses_remove(&heap->addresses, &heap->nodes, index);
    tarn__nodes_put(&heap->nodes, index);
    heap->blocks--;
}
