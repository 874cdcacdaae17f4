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
