/* phase.h -- the phase of the driver in this process: before cuInit, ready, in a forked
 * child, or in exit(). */
#ifndef TARN_SIM_PHASE_H
#define TARN_SIM_PHASE_H

#include "sim/core/cuda.h"
#include <stdatomic.h>
#include <stdbool.h>

enum sim_phase { PHASE_UNINITIALIZED, PHASE_READY, PHASE_FORKED, PHASE_EXITING };

/* call.c sets it. */
extern atomic_int sim_phase;

/* Return true if exit() has begun, or this is a forked child. Workers then leave queued
 * work alone. */
bool sim_phase_is_stopped(void);

/* Return true if this is a forked child of a process that had called cuInit. */
bool sim_phase_is_forked(void);

/* Return true if exit() has begun. Then calls that need no driver fail as well. */
bool sim_phase_is_exiting(void);

/* Return the error of a call in the current phase; CUDA_SUCCESS if the driver is ready.
 */
static inline CUresult sim_phase_error(void)
{
    switch (atomic_load_explicit(&sim_phase, memory_order_acquire)) {
    case PHASE_READY:
        return CUDA_SUCCESS;
    case PHASE_EXITING:
        return CUDA_ERROR_DEINITIALIZED;
    }
    return CUDA_ERROR_NOT_INITIALIZED;
}

#endif
