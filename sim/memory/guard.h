/* guard.h -- guards of operations against unmapping.
 *
 * The real driver unmaps memory that running work still uses. In the simulator a copy or
 * fill of reserved addresses carries a guard. If, at its turn, not all of them are
 * mapped with access, the operation does nothing and its context is lost with
 * CUDA_ERROR_ILLEGAL_ADDRESS. Once it runs, unmapping waits for it: at most one memcpy,
 * which the real device could have finished before.
 */
#ifndef TARN_SIM_GUARD_H
#define TARN_SIM_GUARD_H

#include "sim/core/queue.h"
#include "sim/memory/vmm.h"

/* The first part of an operation's data. Zeroed, it guards nothing. */
struct sim_guard {
    struct sim_guard *next, *previous; /* in the list of running guards */
    struct sim_context *context;       /* of the device that runs the operation */
    uint64_t context_generation;       /* that context's id */
    struct sim_touch touches[2];
};

/* Make `guard` protect `touches`, accessed by a device of `context`. False: a reserved
 * part of it is not mapped with access now. */
bool sim_guard_set(struct sim_guard *guard, struct sim_context *context,
                   const struct sim_touch touches[2]);

/* The check of an operation whose data begins with a guard. If it must not run, its
 * context is lost. */
extern const struct sim_op_check sim_guard_check;

/* Wait until no operation runs in [start, start + bytes). May release the lock
 * meanwhile. */
void sim_guard_wait(uintptr_t start, size_t bytes);

#endif
