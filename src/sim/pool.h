/* pool.h -- the driver's own pools: memory given out and taken back in stream order. */
#ifndef TARN_SIM_POOL_H
#define TARN_SIM_POOL_H

#include "sim/heap.h"
#include "sim/memory.h"
#include "sim/work.h"

struct sim_pool_file; /* pool_file.h */

/* Memory freed on a stream that may still be at it; the data of an operation there. */
struct sim_freed {
    struct sim_freed *next, *previous; /* in the pool, newest first */
    struct sim_pool *pool;
    struct sim_range *memory; /* NULL: somebody has taken it */
    struct sim_stream *stream;
    uint64_t until; /* the memory is free when the stream has done so many operations */
};

enum sim_pool_kind { POOL_DEVICE, POOL_HOST, POOL_MANAGED };

struct sim_pool {
    struct sim_pool *next; /* all pools */
    enum sim_pool_kind kind;
    CUmemLocation location; /* as the client gave it */
    CUdevice device;        /* 0 for host memory */
    bool is_default;
    bool is_destroyed;                      /* goes with its last block */
    CUmemAllocationHandleType handle_types; /* it may be exported as */
    struct sim_pool_file
        *file;            /* of a pool that may be exported, or was imported; or NULL */
    struct sim_heap heap; /* free for anybody */
    struct sim_ranges pieces; /* what it has taken, in parts that go back one by one */
    size_t least_piece;       /* none of them is smaller */
    struct sim_freed *freed;  /* free for the stream they were freed on, newest first */
    size_t live;              /* blocks out */
    uint64_t access;          /* other devices that may use it, a bit each */
    uint64_t max_bytes;       /* it reserves no more; UINT64_MAX: no limit */
    int reuse[3];       /* attributes 1..3: event dependencies, opportunistic, internal */
    uint64_t threshold; /* keeps so much at a synchronization */
    uint64_t reserved, reserved_high;
    uint64_t used, used_high; /* bytes as asked for */
};

/* The pool of `handle`, not destroyed, or NULL. Locked, as all here. */
struct sim_pool *sim_pool_find(CUmemoryPool handle);

/* The same, but NULL for a pool of another process: most calls refuse it. */
struct sim_pool *sim_pool_find_own(CUmemoryPool handle);

/* The pool imported from the file of that id, or NULL. */
struct sim_pool *sim_pool_find_imported(uint64_t id);

struct sim_pool *sim_pool_create_default(CUdevice device);

/* A pool without memory. NULL: no host memory. */
struct sim_pool *sim_pool_new(CUdevice device);

/* The same, of host or managed memory at `location`; it has a file. */
CUresult sim_pool_new_elsewhere(enum sim_pool_kind kind, const CUmemLocation *location,
                                struct sim_pool **out);

/* Which kind that is, if there is one: CUmemAllocationType and where. */
CUresult sim_pool_kind_of(int type, const CUmemLocation *location,
                          enum sim_pool_kind *out);

/* Out of existence: a pool without blocks and memory. */
void sim_pool_remove(struct sim_pool *pool);

/* No new allocations; it goes when its blocks have. */
void sim_pool_destroy(struct sim_pool *pool);

/* `bytes` for use on `stream` from now on. */
CUresult sim_pool_allocate(struct sim_pool *pool, struct sim_stream *stream, size_t bytes,
                           CUdeviceptr *out);

/* Free `block`, which is in the table, behind what is queued on `stream`. */
CUresult sim_pool_free(struct sim_block *block, struct sim_stream *stream);

/* The piece of `pool` that holds `address`; NULL where another process has it. */
const struct sim_range *sim_pool_piece(const struct sim_pool *pool, uintptr_t address);

/* The most that `bytes` of a limit make: a pool's limit is in whole pieces. */
uint64_t sim_pool_limit(uint64_t bytes);

/* The memory of `block`, out of the table and not in use by any stream. */
void sim_pool_take_back(struct sim_block *block);

/* Give what the pool does not use back to the device, as long as it keeps `keep` bytes.
 */
void sim_pool_trim(struct sim_pool *pool, uint64_t keep);

/* All pools of `device`: down to their thresholds; or to nothing, and did that help? */
void sim_pools_trim_to_threshold(CUdevice device);
bool sim_pools_trim(CUdevice device);

#endif
