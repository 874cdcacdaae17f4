/* graph_memory.h -- memory that a graph allocates: its address is fixed when the node is
 * made, it is memory for the client from one launch on until it is freed.
 *
 * The stand-in takes the memory together with the address, so that it counts as used
 * before the first launch; on a real device only the address is taken then.
 */
#ifndef TARN_SIM_GRAPH_MEMORY_H
#define TARN_SIM_GRAPH_MEMORY_H

#include "sim/memory.h"
#include "sim/work.h"

struct sim_graph_memory {
    struct sim_range range;   /* first: the table finds it; what the client asked for */
    struct sim_range *memory; /* what was taken for it */
    CUdevice device;
    unsigned references;    /* its nodes, and the block */
    const void *graph;      /* whose node allocates it, to compare with; it may be gone */
    bool is_freed_in_graph; /* by a node of the same graph */
    bool is_claimed;        /* an executable graph allocates it */
    bool is_planned;        /* for the launch that is being prepared */
    struct sim_block *block;   /* while it is allocated, else NULL */
    struct sim_stream *stream; /* where it was freed last, counted; NULL: never */
    uint64_t freed_at;         /* and when: see sim_op_after */
};

/* Memory of `device`, one reference. NULL: no memory. Locked, as all here. */
struct sim_graph_memory *sim_graph_memory_new(CUdevice device, size_t bytes);
void sim_graph_memory_retain(struct sim_graph_memory *memory);
void sim_graph_memory_release(struct sim_graph_memory *memory);

/* The graph memory that holds [address, address + bytes), allocated or not, or NULL. */
struct sim_graph_memory *sim_graph_memory_find(uintptr_t address, size_t bytes);

/* It is allocated, with `block` (of sim_graph_memory_block) from now on. */
struct sim_block *sim_graph_memory_block(struct sim_graph_memory *memory,
                                         struct sim_context *context);
void sim_graph_memory_enter(struct sim_graph_memory *memory, struct sim_block *block);

/* Free it behind what is queued on `stream`, which will have done `until` operations. */
void sim_graph_memory_leave(struct sim_graph_memory *memory, struct sim_stream *stream,
                            uint64_t until);

/* The block is out of the table and going: cuMemFree. */
void sim_graph_memory_lost_block(struct sim_block *block);

/* cuMemFreeAsync of such a block. */
CUresult sim_graph_memory_free_async(struct sim_block *block, struct sim_stream *stream);

#endif
