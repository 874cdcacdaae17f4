/* memory.h -- device memory, and how blocks are freed. Locked, as are all functions here.
 */
#ifndef TARN_SIM_MEMORY_H
#define TARN_SIM_MEMORY_H

#include "sim/memory/block.h"

struct sim_stream;

/* Free `block`, a BLOCK_DEVICE in the table, after the work queued on `stream`. */
CUresult sim_memory_free_async(struct sim_block *block, struct sim_stream *stream);

/* Remove `block` from the table, wait until no work can use it, and destroy it. Releases
 * the lock meanwhile. */
void sim_memory_release_block(struct sim_block *block);

/* Return the memory of `block`, which is not in the table and has no pending work, and
 * free the block itself. Releases the lock meanwhile. */
void sim_memory_destroy_block(struct sim_block *block);

/* cuMemAlloc and cuMemFree for internal callers; the block may already be freed. */
CUresult sim_memory_allocate(CUdeviceptr *out, size_t bytes);
void sim_memory_release(CUdeviceptr address, uint64_t id);

/* Free all blocks of one activation of `context`, except those of pools. Releases the
 * lock meanwhile. */
void sim_memory_free_context(const struct sim_context *context,
                             uint64_t context_generation);

#endif
