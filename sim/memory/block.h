/* block.h -- every block of memory that the driver knows, and its addresses.
 *
 * Device memory, managed and pinned host memory, registered host memory, and memory
 * shared by another process: one table by address. So every call can check that a
 * pointer is valid for its size. An address that is not in the table is pageable host
 * memory.
 */
#ifndef TARN_SIM_BLOCK_H
#define TARN_SIM_BLOCK_H

#include "sim/core/context.h"
#include "sim/core/ranges.h"
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
    struct sim_range range; /* first: the table finds it; the requested bytes */
    enum sim_block_kind kind;
    CUdevice device;
    struct sim_context *context; /* of the allocation; NULL for _POOL and _MAPPED */
    uint64_t context_generation; /* the context's id at that time */
    uint64_t id;                 /* never reused */
    unsigned flags;              /* as the client passed them */
    bool sync_memops;
    /* BLOCK_DEVICE, _POOL: its allocation; NULL if another process has it */
    struct sim_range *memory;
    struct sim_pool *pool;                 /* BLOCK_POOL */
    struct sim_graph_memory *graph_memory; /* BLOCK_GRAPH; counted */
    void *mapping;        /* BLOCK_MANAGED, _PINNED, _OPENED: the result of mmap, */
    size_t mapping_bytes; /* and its length */
    uint64_t share_id;    /* BLOCK_DEVICE: 0 until exported; _OPENED: of the exporter */
    uint32_t share_slot;  /* BLOCK_DEVICE: in the registry of ipc.c */
    bool was_shared;      /* BLOCK_DEVICE: other processes may have it open */
    unsigned opens;       /* BLOCK_OPENED: how many times it is open */
    int file;             /* BLOCK_OPENED: holds a lock, which the owner can see */
    struct sim_block *next_opened;
    struct sim_physical *physical; /* BLOCK_MAPPED: the memory mapped there, */
    uint64_t may_read, may_write;  /* and the devices with access, one bit each */
    bool is_unknown;               /* an ignored launch may have written it: unknown.h */
    bool read_mostly;              /* BLOCK_MANAGED: the last advice of the client */
    CUdevice preferred, prefetched;
    uint32_t accessed_by; /* a set: one bit for each device, and one for the host */
};

/* The table. Under the lock, as are all functions here. */
extern struct sim_ranges sim_blocks;

/* Live bytes as the clients requested them, without registered and opened memory. */
extern unsigned long long sim_live_bytes;

/* Bytes of the pages of pinned and managed memory, including the reserved memory of
 * pools of those kinds. */
extern unsigned long long sim_mapped_bytes;

/* Return true if the host (for managed memory: host and devices) has `bytes` more. */
bool sim_block_fits_host(size_t bytes, bool is_managed);

/* Create a block of `context` (NULL: no context, device 0) outside of the table. NULL:
 * no host memory. */
struct sim_block *sim_block_new(struct sim_context *context, enum sim_block_kind kind,
                                uintptr_t start, size_t bytes);

/* Insert into the table; remove from it. Both update the live bytes. */
void sim_block_insert(struct sim_block *block);
void sim_block_remove(struct sim_block *block);

/* The block that holds `address`, or NULL. */
struct sim_block *sim_block_find(uintptr_t address);

/* The block that starts at `address`, or NULL. Faster than sim_block_find. */
struct sim_block *sim_block_at(uintptr_t address);

/* Return true if any block overlaps [start, start + bytes). */
bool sim_block_overlaps(uintptr_t start, size_t bytes);

/* Return true if it is host memory that the device can access (pinned or registered). */
bool sim_block_is_host(const struct sim_block *block);

/* Return true if it is managed memory. */
bool sim_block_is_managed(const struct sim_block *block);

/* Return true if the device of `context` may use it without enabling peer access first.
 */
bool sim_block_is_reached(const struct sim_block *block,
                          const struct sim_context *context);

#endif
