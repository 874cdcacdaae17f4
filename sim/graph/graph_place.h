/* graph_place.h -- where a new node goes: what all calls that add one have in common. */
#ifndef TARN_SIM_GRAPH_PLACE_H
#define TARN_SIM_GRAPH_PLACE_H

#include "sim/graph/graph.h"

/* The arguments that all these calls have. */
struct sim_graph_place {
    CUgraphNode *out;
    CUgraph graph;
    const CUgraphNode *after;
    size_t count;
};

/* Add a node of `kind` without content, and write its handle. Locked. */
CUresult sim_graph_place_add(const struct sim_graph_place *place, enum sim_node_kind kind,
                             struct sim_node **out);

#endif
