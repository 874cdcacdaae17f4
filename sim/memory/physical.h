/* physical.h -- physical memory without an address: what cuMemCreate makes.
 *
 * It lives until its handle is released and no mapping is left. Memory that may be
 * exported has a file of its own, and so costs the process a descriptor. Other memory is
 * a part of its device's file.
 */
#ifndef TARN_SIM_PHYSICAL_H
#define TARN_SIM_PHYSICAL_H

#include "sim/core/cuda.h"
#include "sim/core/ranges.h"
#include <stdbool.h>
#include <sys/types.h>

/* The file of one allocation. A process has one struct per file, however often it
 * imports the file. */
struct sim_physical_file {
    int file;
    uint64_t id;         /* from the file's last page, */
    size_t bytes;        /* as is this, */
    CUdevice device;     /* and this */
    bool is_ours;        /* created here, so it is charged to the device */
    unsigned references; /* by struct sim_physical */
};

struct sim_physical {
    CUmemGenericAllocationHandle handle;
    uint64_t id; /* never reused */
    CUdevice device;
    size_t bytes;
    CUmemAllocationHandleType handle_types; /* allowed for export; imported: none */
    bool is_for_rdma;                       /* created with gpuDirectRDMACapable */
    /* cuMemCreate, imports and cuMemRetain..., minus cuMemRelease */
    unsigned handle_references;
    unsigned mappings;              /* cuMemMap minus cuMemUnmap */
    struct sim_range *memory;       /* of the device, or NULL: then it is */
    struct sim_physical_file *file; /* in this file */
};

/* The memory of `handle`, or NULL. A handle that never was one aborts. Memory that only
 * a mapping keeps is found too. Locked, as are all functions here. */
struct sim_physical *sim_physical_find(CUmemGenericAllocationHandle handle);

/* Map all of it at `address` without access. False: the system call failed. */
bool sim_physical_map(const struct sim_physical *physical, uintptr_t address);

/* Count one mapping less. Without references the memory is freed. Releases the lock
 * meanwhile. */
void sim_physical_unmapped(struct sim_physical *physical);

#endif
