/* vmm.h -- virtual memory management: cuMemMap and the related calls.
 *
 * A reservation is a range of addresses that no other allocation gets. A mapping is a
 * block (BLOCK_MAPPED) in the table of block.h, always all of one physical.h. Each
 * device may read or write it only after cuMemSetAccess. A copy may cover several
 * mappings.
 */
#ifndef TARN_SIM_VMM_H
#define TARN_SIM_VMM_H

#include "sim/core/context.h"
#include "sim/memory/block.h"

/* Memory that an operation accesses. */
struct sim_touch {
    uintptr_t start;
    size_t bytes; /* 0: none, or none that is reserved */
    bool writes;
};

/* Return true if `address` is reserved, mapped or not. Locked, as are all functions
 * here. */
bool sim_vmm_holds(uintptr_t address);

/* The reservation that holds `address`, or NULL. */
const struct sim_range *sim_vmm_reservation(uintptr_t address);

/* Return true if all of [start, start + bytes) is mapped. */
bool sim_vmm_is_mapped(uintptr_t start, size_t bytes);

/* Return true if `device` may access `touch` in that way. */
bool sim_vmm_is_allowed(CUdevice device, const struct sim_touch *touch);

/* The mapping at `address`, or NULL. */
struct sim_block *sim_vmm_mapping(uintptr_t address);

/* Map nothing at these reserved addresses. False: the system call failed. */
bool sim_vmm_clear(uintptr_t start, size_t bytes);

/* Serialize changes of the mappings: begin waits for the previous change to end. May
 * release the lock meanwhile. */
void sim_vmm_begin(void);
void sim_vmm_end(void);

#endif
