/* heap.c -- first fit over free ranges that coalesce with their neighbours. */
#include "sim/core/heap.h"
#include <stdlib.h>

static struct sim_range *range_new(uintptr_t start, size_t bytes)
{
    struct sim_range *range = calloc(1, sizeof *range);

    if (range) {
        range->start = start;
        range->bytes = bytes;
    }
    return range;
}

/* Split `range`, which is in no heap, at `bytes`; the rest goes to `heap`. False: no
 * host memory, and nothing changed. */
static bool split(struct sim_heap *heap, struct sim_range *range, size_t bytes)
{
    struct sim_range *rest;

    if (range->bytes == bytes)
        return true;
    rest = range_new(range->start + bytes, range->bytes - bytes);
    if (!rest)
        return false;
    range->bytes = bytes;
    sim_ranges_insert(&heap->free, rest);
    return true;
}

struct sim_range *sim_heap_take(struct sim_heap *heap, size_t bytes)
{
    struct sim_range *range = sim_ranges_fit(&heap->free, bytes);

    if (!range)
        return NULL;
    sim_ranges_remove(&heap->free, range);
    if (split(heap, range, bytes))
        return range;
    sim_ranges_insert(&heap->free, range);
    return NULL;
}

struct sim_range *sim_heap_return(struct sim_heap *heap, struct sim_range *range)
{
    uintptr_t start = range->start, end = start + range->bytes;
    struct sim_range *before, *after;

    sim_ranges_around(&heap->free, start, &before, &after);
    if (before && before->start + before->bytes != start)
        before = NULL;
    if (after && after->start != end)
        after = NULL;
    if (!before && !after) {
        sim_ranges_insert(&heap->free, range);
        return range;
    }
    free(range);
    if (!before) {
        sim_ranges_resize(&heap->free, after, start, after->start + after->bytes - start);
        return after;
    }
    if (after) {
        end = after->start + after->bytes;
        sim_ranges_remove(&heap->free, after);
        free(after);
    }
    sim_ranges_resize(&heap->free, before, before->start, end - before->start);
    return before;
}

/* Take [start, start + bytes) out of the free `range` around it. NULL: no host memory.
 */
static struct sim_range *split_at(struct sim_heap *heap, struct sim_range *range,
                                  uintptr_t start, size_t bytes)
{
    struct sim_range *head = NULL;

    if (start > range->start) {
        head = range_new(range->start, start - range->start);
        if (!head)
            return NULL;
    }
    sim_ranges_remove(&heap->free, range);
    if (head) {
        range->start = start;
        range->bytes -= head->bytes;
        sim_ranges_insert(&heap->free, head);
    }
    if (split(heap, range, bytes))
        return range;
    sim_heap_return(heap, range); /* coalesced with the head again */
    return NULL;
}

struct sim_range *sim_heap_take_at(struct sim_heap *heap, uintptr_t start, size_t bytes)
{
    struct sim_range *range = sim_ranges_find(&heap->free, start);

    return range && range->bytes - (start - range->start) >= bytes
               ? split_at(heap, range, start, bytes)
               : NULL;
}
