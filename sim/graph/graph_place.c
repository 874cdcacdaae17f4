/* graph_place.c -- adds nodes for the calls that add one. */
#include "sim/graph/graph_place.h"

CUresult sim_graph_place_add(const struct sim_graph_place *place, enum sim_node_kind kind,
                             struct sim_node **out)
{
    struct sim_graph *graph = sim_graph_find(place->graph);
    struct sim_nodes after;
    CUresult result;

    if (!graph || !place->out)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_graph_find_nodes(graph, place->after, place->count, &after);
    if (result != CUDA_SUCCESS)
        return result;
    *out = sim_graph_add_node(graph, kind, &after);
    sim_nodes_free(&after);
    if (!*out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *place->out = (CUgraphNode)(void *)*out;
    return CUDA_SUCCESS;
}
