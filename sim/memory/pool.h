/* pool.h -- the driver's own pools: memory allocated and freed in stream order. */
#ifndef TARN_SIM_POOL_H
#define TARN_SIM_POOL_H

#include "sim/core/heap.h"
#include "sim/core/queue.h"
#include "sim/memory/block.h"

struct sim_pool_file; /* pool_file.h */

/* Memory freed on a stream whose work may still use it. It is the data of an operation
 * there. */
struct sim_freed {
    struct sim_freed *next, *previous; /* in the pool, newest first */
    struct sim_pool *pool;
    struct sim_range *memory; /* NULL: reused by another allocation */
    struct sim_stream *stream;
    uint64_t until; /* the memory is free when the stream has done this many operations */
};

enum sim_pool_kind { POOL_DEVICE, POOL_HOST, POOL_MANAGED };

struct sim_pool {
    struct sim_pool *next; /* in the list of all pools */
    enum sim_pool_kind kind;
    CUmemLocation location; /* as the client passed it */
    CUdevice device;        /* 0 for host memory */
    bool is_default;
    bool is_destroyed;                      /* removed with its last block */
    CUmemAllocationHandleType handle_types; /* allowed for export */
    struct sim_pool_file
        *file;                /* if the pool may be exported, or was imported; or NULL */
    struct sim_heap heap;     /* free for every stream */
    struct sim_ranges pieces; /* its reserved memory, in parts that are returned singly */
    size_t least_piece;       /* the smallest size of a part */
    struct sim_freed *freed;  /* same-stream frees, newest first */
    size_t live;              /* live blocks */
    uint64_t access;          /* other devices with access, one bit each */
    uint64_t max_bytes;       /* upper bound of `reserved`; UINT64_MAX: none */
    int reuse[3];       /* attributes 1..3: event dependencies, opportunistic, internal */
    uint64_t threshold; /* the bytes it keeps at a synchronization */
    uint64_t reserved, reserved_high;
    uint64_t used, used_high; /* requested bytes */
};

/* The pool of `handle`, if not destroyed, or NULL. Locked, as are all functions here. */
struct sim_pool *sim_pool_find(CUmemoryPool handle);

/* The same, but NULL for a pool of another process: most calls reject those. */
struct sim_pool *sim_pool_find_own(CUmemoryPool handle);

/* The pool imported from the file of that id, or NULL. */
struct sim_pool *sim_pool_find_imported(uint64_t id);
/* The next import that was destroyed and not removed; NULL before the first, and at the end. */
struct sim_pool *sim_pool_next_left(const struct sim_pool *pool);

struct sim_pool *sim_pool_create_default(CUdevice device);

/* Create a pool without memory. NULL: no host memory. */
struct sim_pool *sim_pool_new(CUdevice device);

/* The same for host or managed memory at `location`. Such a pool has a file. */
CUresult sim_pool_new_at(enum sim_pool_kind kind, const CUmemLocation *location,
                         struct sim_pool **out);

/* Free a pool that has no blocks and no memory. */
void sim_pool_remove(struct sim_pool *pool);

/* Reject new allocations from now on. The pool is freed with its last block. */
void sim_pool_destroy(struct sim_pool *pool);

/* Allocate `bytes` for use on `stream` from now on. */
CUresult sim_pool_allocate(struct sim_pool *pool, struct sim_stream *stream, size_t bytes,
                           CUdeviceptr *out);

/* Free `block`, which is in the table, after the work queued on `stream`. */
CUresult sim_pool_free(struct sim_block *block, struct sim_stream *stream);

/* The piece of `pool` that holds `address`; NULL if it belongs to another process. */
const struct sim_range *sim_pool_piece(const struct sim_pool *pool, uintptr_t address);

/* The effective size of a limit of `bytes`: a pool's limit is in whole pieces. */
uint64_t sim_pool_limit(uint64_t bytes);

/* Take back the memory of `block`, which is not in the table and not used by any stream.
 */
void sim_pool_reclaim(struct sim_block *block);

/* Return unused memory of the pool to the device, down to `keep` bytes. */
void sim_pool_trim(struct sim_pool *pool, uint64_t keep);

/* Trim all pools of `device`: to their thresholds; or to nothing, returning true if that
 * freed memory. */
void sim_pool_trim_all_to_threshold(CUdevice device);
bool sim_pool_trim_all(CUdevice device);

#endif
