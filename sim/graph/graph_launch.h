/* graph_launch.h -- launches of executable graphs. */
#ifndef TARN_SIM_GRAPH_LAUNCH_H
#define TARN_SIM_GRAPH_LAUNCH_H

#include "sim/graph/graph_exec.h"

/* Queue a launch on `stream`. Locked. */
CUresult sim_graph_launch(struct sim_exec *exec, struct sim_stream *stream);

#endif
