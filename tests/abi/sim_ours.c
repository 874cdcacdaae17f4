/* The other half of sim.c: the structures as the simulator declares them. */
#include "sim/core/cuda.h"
#include "sim_layout.h"

extern const size_t sim_ours[];
const size_t sim_ours[] = {SIM_LAYOUT(SIM_MEASURE_SIZE, SIM_MEASURE_FIELD)};
