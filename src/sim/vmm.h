/* vmm.h -- memory that the client puts at addresses of its choice: cuMemMap and the rest.
 *
 * A reservation is a range of addresses that nothing else gets. A mapping is a block
 * (BLOCK_MAPPED) in the table of memory.h, always all of one physical.h; each device may
 * read or write it only where cuMemSetAccess said so. Copies may run over several.
 *
 * The real driver pulls memory from under running work. Here a copy or fill that touches
 * reserved addresses carries a guard. Where, when its turn comes, not all of it is mapped
 * with access, it does nothing and its context is lost with CUDA_ERROR_ILLEGAL_ADDRESS.
 * Once it runs, unmapping waits for it: no more than one memcpy, which the real device
 * might as well have done before.
 */
#ifndef TARN_SIM_VMM_H
#define TARN_SIM_VMM_H

#include "sim/context.h"
#include "sim/memory.h"

/* Memory that an operation touches. */
struct sim_touch {
    uintptr_t start;
    size_t bytes; /* 0: nothing, or nothing that is reserved */
    bool writes;
};

/* Part of an operation's data; zeroed, it guards nothing. */
struct sim_guard {
    struct sim_guard *next, *previous; /* of those that run */
    struct sim_context *context;       /* whose device does it */
    uint64_t life;                     /* that context's id */
    struct sim_touch touches[2];
};

/* Is `address` reserved, mapped or not? Locked, as all here. */
bool sim_vmm_holds(uintptr_t address);

/* The reservation that holds `address`, or NULL. */
const struct sim_range *sim_vmm_reservation(uintptr_t address);

/* Is all of [start, start + bytes) mapped? */
bool sim_vmm_is_mapped(uintptr_t start, size_t bytes);

/* May `device` do that to all that `touch` says? */
bool sim_vmm_may(CUdevice device, const struct sim_touch *touch);

/* Let `guard` watch over `touches`, by a device of `context`. False: not all of it that
 * is reserved is mapped with access now. */
bool sim_guard_set(struct sim_guard *guard, struct sim_context *context,
                   const struct sim_touch touches[2]);

/* Before and after the operation's work. False: it must not be done, and its context is
 * lost. */
bool sim_guard_enter(struct sim_guard *guard);
void sim_guard_leave(struct sim_guard *guard);

/* Changes of the mappings come one at a time; begin waits until it is our turn. Both, and
 * sim_guards_wait, may give the lock back meanwhile. */
void sim_vmm_begin(void);
void sim_vmm_end(void);

/* Wait until no operation runs in [start, start + bytes). */
void sim_guards_wait(uintptr_t start, size_t bytes);

#endif
