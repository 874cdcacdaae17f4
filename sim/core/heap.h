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

struct sim_device;

struct sim_heap {
    struct sim_ranges free;
};

/* Take `bytes`, a multiple of SIM_ALIGNMENT. NULL: no range is large enough, or no host
 * memory. */
struct sim_range *sim_heap_take(struct sim_heap *heap, size_t bytes);

/* Put `range` into the heap, which then owns it. Return the free range there, coalesced
 * with its neighbours. */
struct sim_range *sim_heap_return(struct sim_heap *heap, struct sim_range *range);

/* Charge `bytes`, whole pieces, to `device`, within its limit; and undo that. */
bool sim_device_charge(struct sim_device *device, size_t bytes);
void sim_device_refund(struct sim_device *device, size_t bytes);

/* Take whole pieces of at least `bytes` from `device`, within its limit, or NULL. */
struct sim_range *sim_pieces_take(struct sim_device *device, size_t bytes);

/* Return whole pieces to `device`. Before that the caller drops their content without
 * the lock, with sim_pieces_drop. */
void sim_pieces_return(struct sim_device *device, struct sim_range *range);

/* Tell the system that the content of these pieces is unused. Needs no lock. */
void sim_pieces_drop(const struct sim_device *device, const struct sim_range *range);

/* Take exactly [start, start + bytes) if all of it is free. Otherwise, or without host
 * memory, NULL. */
struct sim_range *sim_heap_take_at(struct sim_heap *heap, uintptr_t start, size_t bytes);

/* Take `bytes` from `device`: small ones from split pieces. NULL: out of memory. */
struct sim_range *sim_device_take(struct sim_device *device, size_t bytes);
void sim_device_return(struct sim_device *device, struct sim_range *range);

#endif
