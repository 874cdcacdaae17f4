/* graph_memory.h -- memory that a graph allocates.
 *
 * Its address is fixed when the client adds the node. It is memory for the client from a
 * launch on until it is freed. The simulator takes the memory together with the address,
 * so it counts as used before the first launch. A real device only reserves the address
 * then.
 */
#ifndef TARN_SIM_GRAPH_MEMORY_H
#define TARN_SIM_GRAPH_MEMORY_H

#include "sim/core/options.h"
#include "sim/core/queue.h"
#include "sim/memory/block.h"

struct sim_graph_memory {
    struct sim_range range;   /* first: the table finds it; the requested bytes */
    struct sim_range *memory; /* what was allocated for it */
    CUdevice device;
    bool is_managed;
    CUmemAccessDesc
        *access; /* the other devices with access, as the client listed them */
    size_t access_count;
    unsigned references; /* its nodes, and the block */
    /* of the allocating node, only to compare; it may be destroyed */
    const void *graph;
    bool is_freed_in_graph;    /* by a node of the same graph */
    bool is_claimed;           /* an executable graph allocates it */
    bool is_planned;           /* allocated at this step of the launch in preparation */
    struct sim_block *block;   /* while it is allocated, else NULL */
    struct sim_stream *stream; /* where it was freed last, counted; NULL: never */
    uint64_t freed_at;         /* the position there: see sim_op_after */
};

/* Allocate memory of `device`, with one reference. NULL: no memory. Locked, as are all
 * functions here. */
struct sim_graph_memory *sim_graph_memory_new(CUdevice device, size_t bytes);
void sim_graph_memory_retain(struct sim_graph_memory *memory);
void sim_graph_memory_release(struct sim_graph_memory *memory);

/* Set its list of devices with access. False: no host memory. */
bool sim_graph_memory_set_access(struct sim_graph_memory *memory,
                                 const CUmemAccessDesc *access, size_t count);

/* Bytes of the memory of graphs, by device: of what is allocated, and of all; `high` is the
 * most since the client last reset it. */
struct sim_graph_memory_use {
    uint64_t now, high;
};
extern struct sim_graph_memory_use sim_graph_memory_used[SIM_DEVICES_MAX],
    sim_graph_memory_reserved[SIM_DEVICES_MAX];

/* What launches have freed counts as used until this call: at a trim, and at the next
 * allocation. */
void sim_graph_memory_count_freed(CUdevice device);

/* The graph memory that holds [address, address + bytes), allocated or not, or NULL. */
struct sim_graph_memory *sim_graph_memory_find(uintptr_t address, size_t bytes);

/* Mark it as allocated. From now on its block is `block` (of sim_graph_memory_block). */
struct sim_block *sim_graph_memory_block(struct sim_graph_memory *memory,
                                         struct sim_context *context);
void sim_graph_memory_set_allocated(struct sim_graph_memory *memory,
                                    struct sim_block *block);

/* Free it after the work queued on `stream`: when that has done `until` operations. */
void sim_graph_memory_set_freed(struct sim_graph_memory *memory,
                                struct sim_stream *stream, uint64_t until);

/* cuMemFree has removed the block from the table and destroys it. */
void sim_graph_memory_block_freed(struct sim_block *block);

/* cuMemFreeAsync of such a block. */
CUresult sim_graph_memory_free_async(struct sim_block *block, struct sim_stream *stream);

#endif
