/* heap.h -- free memory of a device, of its small blocks, or of a pool.
 *
 * A heap is a set of free ranges. A range taken from it is itself a node that the caller
 * owns and returns, so returning it cannot fail. Device memory moves between heaps in
 * pieces of 2 MiB, as the real driver maps it. All under the lock.
 */
#ifndef TARN_SIM_HEAP_H
#define TARN_SIM_HEAP_H

#include "sim/core/ranges.h"
#include <stdbool.h>

enum { SIM_ALIGNMENT = 512 };
#define SIM_PIECE_BYTES ((size_t)2 << 20)

struct sim_heap {
    struct sim_ranges free;
};

/* Take `bytes`, a multiple of SIM_ALIGNMENT. NULL: no range is large enough, or no host
 * memory. */
struct sim_range *sim_heap_take(struct sim_heap *heap, size_t bytes);

/* Put `range` into the heap, which then owns it. Return the free range there, coalesced
 * with its neighbours. */
struct sim_range *sim_heap_return(struct sim_heap *heap, struct sim_range *range);

/* Take exactly [start, start + bytes) if all of it is free. Otherwise, or without host
 * memory, NULL. */
struct sim_range *sim_heap_take_at(struct sim_heap *heap, uintptr_t start, size_t bytes);

#endif
