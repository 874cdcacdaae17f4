/* physical.h -- physical memory without an address: what cuMemCreate makes.
 *
 * It lives as long as somebody holds its handle or has it mapped. Memory that may be
 * exported has a file of its own, and so costs the process a descriptor; other memory is
 * a part of its device's file.
 */
#ifndef TARN_SIM_PHYSICAL_H
#define TARN_SIM_PHYSICAL_H

#include "sim/cuda.h"
#include "sim/ranges.h"
#include <stdbool.h>
#include <sys/types.h>

/* A file of one allocation. In one process it is there once, however often it is
 * imported.
 */
struct sim_physical_file {
    int file;
    uint64_t id;         /* as its last page says */
    size_t bytes;        /* and so this */
    CUdevice device;     /* and this */
    bool is_ours;        /* made here, so it counts against the device */
    unsigned references; /* of struct sim_physical */
};

struct sim_physical {
    CUmemGenericAllocationHandle handle;
    uint64_t id; /* never given twice */
    CUdevice device;
    size_t bytes;
    CUmemAllocationHandleType handle_types; /* it may be exported as; imported: none */
    unsigned holds;    /* cuMemCreate, imports and cuMemRetain..., less cuMemRelease */
    unsigned mappings; /* cuMemMap, less cuMemUnmap */
    struct sim_range *memory;       /* of the device, or NULL: */
    struct sim_physical_file *file; /* this */
};

/* The memory of `handle`, or NULL; what never was one aborts. It is there while it is only mapped, too. Locked, as
 * all here. */
struct sim_physical *sim_physical_find(CUmemGenericAllocationHandle handle);

/* Map all of it at `address` without access; false: the system refuses. */
bool sim_physical_map(const struct sim_physical *physical, uintptr_t address);

/* One mapping less; without holds it goes. Gives the lock back meanwhile. */
void sim_physical_unmapped(struct sim_physical *physical);

#endif
