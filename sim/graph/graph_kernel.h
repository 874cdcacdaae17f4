/* graph_kernel.h -- nodes that launch kernels. */
#ifndef TARN_SIM_GRAPH_KERNEL_H
#define TARN_SIM_GRAPH_KERNEL_H

#include "sim/graph/graph_place.h"

/* Add a node for a kernel. Locked. */
CUresult sim_graph_kernel_add(const struct sim_graph_place *place,
                              const CUDA_KERNEL_NODE_PARAMS *wanted);

#endif
