/* vmm.h -- virtual memory management: cuMemMap and the related calls.
 *
 * A reservation is a range of addresses that no other allocation gets. A mapping is a
 * block (BLOCK_MAPPED) in the table of memory.h, always all of one physical.h. Each
 * device may read or write it only after cuMemSetAccess. A copy may cover several
 * mappings.
 *
 * The real driver unmaps memory that running work still uses. In the simulator a copy or
 * fill of reserved addresses carries a guard. If, at its turn, not all of them are
 * mapped with access, the operation does nothing and its context is lost with
 * CUDA_ERROR_ILLEGAL_ADDRESS. Once it runs, unmapping waits for it: at most one memcpy,
 * which the real device could have finished before.
 */
#ifndef TARN_SIM_VMM_H
#define TARN_SIM_VMM_H

#include "sim/core/context.h"
#include "sim/memory/memory.h"

/* Memory that an operation accesses. */
struct sim_touch {
    uintptr_t start;
    size_t bytes; /* 0: none, or none that is reserved */
    bool writes;
};

/* Part of an operation's data. Zeroed, it guards nothing. */
struct sim_guard {
    struct sim_guard *next, *previous; /* in the list of running guards */
    struct sim_context *context;       /* of the device that runs the operation */
    uint64_t context_generation;       /* that context's id */
    struct sim_touch touches[2];
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

/* Make `guard` protect `touches`, accessed by a device of `context`. False: a reserved
 * part of it is not mapped with access now. */
bool sim_guard_set(struct sim_guard *guard, struct sim_context *context,
                   const struct sim_touch touches[2]);

/* Call before and after the operation's work. False: it must not run, and its context is
 * lost. */
bool sim_guard_enter(struct sim_guard *guard);
void sim_guard_leave(struct sim_guard *guard);

/* Serialize changes of the mappings: begin waits for the previous change to end. Both,
 * and sim_guards_wait, may release the lock meanwhile. */
void sim_vmm_begin(void);
void sim_vmm_end(void);

/* Wait until no operation runs in [start, start + bytes). */
void sim_guards_wait(uintptr_t start, size_t bytes);

#endif
