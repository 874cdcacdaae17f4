/* graph_condition.h -- conditional nodes. */
#ifndef TARN_SIM_GRAPH_CONDITION_H
#define TARN_SIM_GRAPH_CONDITION_H

#include "sim/graph/graph_place.h"

/* Add a conditional node with empty branches, and write their handles. Locked. */
CUresult sim_graph_condition_add(const struct sim_graph_place *place,
                                 CUDA_CONDITIONAL_NODE_PARAMS *wanted);

#endif
