/* graph_condition.c -- the calls for conditional handles and nodes. */
#include "sim/graph/graph_condition.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/context.h"
#include "sim/graph/condition.h"

enum { BRANCHES_MAX = 1 << 16 }; /* far more than a device takes */

static bool is_size(int type, unsigned size)
{
    switch (type) {
    case CU_GRAPH_COND_TYPE_IF:
        return size == 1 || size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
        return size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
        return size > 0 && size <= BRANCHES_MAX;
    }
    return false;
}

/* Create the graphs of all branches. False: no host memory. */
static bool fill(struct sim_node *node, unsigned count)
{
    if (!sim_graph_set_branches(node, count))
        return false;
    for (unsigned i = 0; i < count; i++) {
        struct sim_graph *graph = sim_graph_new(node->graph->is_private);
        if (!graph)
            return false;
        sim_graph_set_branch(node, i, graph);
    }
    return true;
}

CUresult sim_graph_condition_add(const struct sim_graph_place *place,
                                 CUDA_CONDITIONAL_NODE_PARAMS *wanted)
{
    const struct sim_graph *graph = sim_graph_find(place->graph);
    const struct sim_condition *condition =
        graph ? sim_condition_find(graph, wanted->handle) : NULL;
    struct sim_context *alive;
    struct sim_node *node;
    CUresult result;

    if (!condition || !is_size(wanted->type, wanted->size))
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_context_alive(wanted->ctx, &alive);
    if (result == CUDA_SUCCESS)
        result = sim_graph_place_add(place, NODE_CONDITION, &node);
    if (result != CUDA_SUCCESS)
        return result;
    node->branches = (struct sim_branches){
        .handle = wanted->handle, .type = wanted->type, .value = condition->value};
    if (!fill(node, wanted->size)) {
        sim_graph_destroy_node(node);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    wanted->phGraph_out = node->branches.handles;
    return CUDA_SUCCESS;
}

/* Without the flag a real device keeps the value of the launch before; the first one has
 * 0, as all have here. */
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph handle,
                                        CUcontext context, unsigned int value,
                                        unsigned int flags)
{
    struct sim_context *alive;
    CUresult result;

    ENTER(CALL_ALLOCATES);
    if (!out || (flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *graph = sim_graph_find(handle);
    if (!graph)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    result = sim_context_alive(context, &alive);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    uint64_t id = sim_lock_next_id();
    if (!sim_condition_add(graph, id, flags & CU_GRAPH_COND_ASSIGN_DEFAULT ? value : 0))
        return sim_lock_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *out = id;
    return sim_lock_leave(CUDA_SUCCESS);
}
