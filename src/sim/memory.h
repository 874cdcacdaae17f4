/* memory.h -- every block of memory that the driver knows, and where it lies.
 *
 * Device memory, managed and pinned host memory, registered host memory, and memory that
 * another process shared: one table by address, so that any call can tell whether a
 * pointer is good for as many bytes as it wants. An address that is in none is pageable
 * host memory.
 */
#ifndef TARN_SIM_MEMORY_H
#define TARN_SIM_MEMORY_H

#include "sim/context.h"
#include "sim/ranges.h"
#include <stdbool.h>

enum sim_block_kind {
    BLOCK_DEVICE,     /* cuMemAlloc */
    BLOCK_POOL,       /* cuMemAllocAsync */
    BLOCK_MANAGED,    /* cuMemAllocManaged */
    BLOCK_PINNED,     /* cuMemHostAlloc */
    BLOCK_REGISTERED, /* cuMemHostRegister: the memory is the client's */
    BLOCK_OPENED,     /* cuIpcOpenMemHandle */
    BLOCK_MAPPED,     /* cuMemMap: see vmm.h */
    BLOCK_GRAPH,      /* allocated by a graph: see graph_memory.h */
};

struct sim_graph_memory;
struct sim_physical;
struct sim_pool;

struct sim_block {
    struct sim_range range; /* first: the table finds it; what the client asked for */
    enum sim_block_kind kind;
    CUdevice device;
    struct sim_context *context; /* where it was allocated; NULL for _POOL and _MAPPED */
    uint64_t life;               /* the context's id then */
    uint64_t id;                 /* never given twice */
    unsigned flags;              /* as the client gave them */
    bool sync_memops;
    struct sim_range *memory; /* BLOCK_DEVICE, _POOL: what was taken for it; NULL where
                                 another process has it */
    struct sim_pool *pool;    /* BLOCK_POOL */
    struct sim_graph_memory *graph_memory; /* BLOCK_GRAPH; counted */
    void *mapping;        /* BLOCK_MANAGED, _PINNED, _OPENED: what mmap gave, */
    size_t mapping_bytes; /* and for how many bytes */
    uint64_t share_id;   /* BLOCK_DEVICE: 0 until it is exported; _OPENED: of the other */
    uint32_t share_slot; /* BLOCK_DEVICE: in the registry of ipc.c */
    bool was_shared;     /* BLOCK_DEVICE: others may have it open */
    unsigned opens;      /* BLOCK_OPENED: times it is open */
    int file;            /* BLOCK_OPENED: holds a lock, which tells its owner */
    struct sim_block *next_opened;
    struct sim_physical *physical; /* BLOCK_MAPPED: what lies there, */
    uint64_t may_read, may_write;  /* and devices that may, a bit each */
    bool read_mostly;              /* BLOCK_MANAGED: what the client advised last */
    CUdevice preferred, accessed_by, prefetched;
};

/* The table. Under the lock, as all here. */
extern struct sim_ranges sim_blocks;

/* Bytes that clients asked for and have not given back, but registered and opened memory.
 */
extern unsigned long long sim_live_bytes;

/* Bytes of the pages of pinned and managed memory; and what pools of it have taken. */
extern unsigned long long sim_mapped_bytes;

/* Does the host have so many bytes more, or with managed memory host and devices? */
bool sim_host_fits(size_t bytes, bool is_managed);

/* A new block of `context` (NULL: of none, and of device 0), not in the table yet; NULL:
 * no host memory. */
struct sim_block *sim_block_new(struct sim_context *context, enum sim_block_kind kind,
                                uintptr_t start, size_t bytes);

/* Put into the table; take out of it. Counts live bytes. */
void sim_block_enter(struct sim_block *block);
void sim_block_remove(struct sim_block *block);

/* The block that holds `address`, or NULL. */
struct sim_block *sim_block_find(uintptr_t address);

/* The block that starts at `address`, or NULL: quicker. */
struct sim_block *sim_block_at(uintptr_t address);

/* Does any block overlap [start, start + bytes)? */
bool sim_block_overlaps(uintptr_t start, size_t bytes);

/* Is it host memory that the device can reach (pinned or registered)? */
bool sim_block_is_host(const struct sim_block *block);

/* Is it managed memory? */
bool sim_block_is_managed(const struct sim_block *block);

/* May the device of `context` use it, or does that need peer access first? */
bool sim_block_is_reached(const struct sim_block *block,
                          const struct sim_context *context);

/* Free `block`, a BLOCK_DEVICE in the table, behind what is queued on `stream`. */
CUresult sim_memory_free_async(struct sim_block *block, struct sim_stream *stream);

/* Take `block` out of the table, wait until no work can be at it, and destroy it. Gives
 * the lock back meanwhile. */
void sim_block_release(struct sim_block *block);

/* Give back the memory of `block`, which is out of the table and has no work pending on
 * it, and the block itself. Gives the lock back meanwhile. */
void sim_block_destroy(struct sim_block *block);

/* cuMemAlloc and cuMemFree from inside; the block may be gone already. */
CUresult sim_memory_allocate(CUdeviceptr *out, size_t bytes);
void sim_memory_release(CUdeviceptr address, uint64_t id);

/* What dies with a life of `context`: its blocks, but not those of pools. Gives the lock
 * back meanwhile. */
void sim_memory_free_context(const struct sim_context *context, uint64_t life);

#endif
