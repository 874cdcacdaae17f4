/* heap.c -- first fit over free ranges that coalesce with their neighbours. */
#define _GNU_SOURCE
#include "sim/core/heap.h"
#include "base/sizes.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include <fcntl.h>
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

bool sim_device_charge(struct sim_device *device, size_t bytes)
{
    if (device->reserved_bytes > sim_options.memory_bytes ||
        bytes > sim_options.memory_bytes - device->reserved_bytes)
        return false;
    device->reserved_bytes += bytes;
    return true;
}

void sim_device_refund(struct sim_device *device, size_t bytes)
{
    device->reserved_bytes -= bytes;
}

struct sim_range *sim_pieces_take(struct sim_device *device, size_t bytes)
{
    struct sim_range *range;

    if (!tarn__size_round_up(bytes, SIM_PIECE_BYTES, &bytes) ||
        !sim_device_charge(device, bytes))
        return NULL;
    range = sim_heap_take(&device->addresses, bytes);
    if (!range)
        sim_device_refund(device, bytes);
    return range;
}

void sim_pieces_return(struct sim_device *device, struct sim_range *range)
{
    sim_device_refund(device, range->bytes);
    sim_heap_return(&device->addresses, range);
}

void sim_pieces_drop(const struct sim_device *device, const struct sim_range *range)
{
    /* If this fails the pages stay, which only costs host memory. */
    int dropped = fallocate(device->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            (off_t)(range->start - device->base), (off_t)range->bytes);
    (void)dropped;
}

/* Find the whole pieces inside of `range`; false if there is none. */
static bool whole_pieces(const struct sim_range *range, uintptr_t *start, size_t *bytes)
{
    uintptr_t first = (range->start + SIM_PIECE_BYTES - 1) & ~(SIM_PIECE_BYTES - 1);
    uintptr_t end = (range->start + range->bytes) & ~(SIM_PIECE_BYTES - 1);

    if (end <= first)
        return false;
    *start = first;
    *bytes = end - first;
    return true;
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

/* Return a piece that is free among the small blocks to the device. */
static void return_piece_at(struct sim_device *device, uintptr_t start)
{
    struct sim_range *range = sim_heap_take_at(&device->small, start, SIM_PIECE_BYTES);

    if (range)
        sim_pieces_return(device, range);
}

struct sim_range *sim_device_take(struct sim_device *device, size_t bytes)
{
    struct sim_range *range;
    uintptr_t piece;

    /* The free only knows the rounded size, so the choice must depend on that alone. */
    if (!tarn__size_round_up(bytes, SIM_ALIGNMENT, &bytes))
        return NULL;
    if (bytes >= SIM_PIECE_BYTES)
        return sim_pieces_take(device, bytes);
    range = sim_heap_take(&device->small, bytes);
    if (range)
        return range;
    range = sim_pieces_take(device, SIM_PIECE_BYTES);
    if (!range)
        return NULL;
    piece = range->start;
    sim_heap_return(&device->small, range);
    range = sim_heap_take(&device->small, bytes);
    if (!range) /* no host memory: return the piece too */
        return_piece_at(device, piece);
    return range;
}

/* Return a small block, and its piece to the device if all of that is free. */
static void return_small(struct sim_device *device, struct sim_range *range)
{
    uintptr_t start;
    size_t bytes;

    range = sim_heap_return(&device->small, range);
    if (!whole_pieces(range, &start, &bytes))
        return;
    range = split_at(&device->small, range, start, bytes);
    if (range)
        sim_pieces_return(device, range);
}

void sim_device_return(struct sim_device *device, struct sim_range *range)
{
    if (range->bytes >= SIM_PIECE_BYTES)
        sim_pieces_return(device, range);
    else
        return_small(device, range);
}
