/* phase.c -- whether the driver is initialized, and whether the process ends. */
#include "sim/core/phase.h"

atomic_int sim_phase = PHASE_UNINITIALIZED;

bool sim_phase_is_stopped(void)
{
    int now = atomic_load(&sim_phase);

    return now == PHASE_FORKED || now == PHASE_EXITING;
}

bool sim_phase_is_forked(void)
{
    return atomic_load(&sim_phase) == PHASE_FORKED;
}

bool sim_phase_is_exiting(void)
{
    return atomic_load(&sim_phase) == PHASE_EXITING;
}

CUresult sim_phase_error(void)
{
    switch (atomic_load_explicit(&sim_phase, memory_order_acquire)) {
    case PHASE_READY:
        return CUDA_SUCCESS;
    case PHASE_EXITING:
        return CUDA_ERROR_DEINITIALIZED;
    }
    return CUDA_ERROR_NOT_INITIALIZED;
}
