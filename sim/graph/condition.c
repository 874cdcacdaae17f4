/* condition.c -- conditional handles, and the branch that a conditional node takes. */
#include "sim/graph/condition.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/lock.h"
#include <stdlib.h>

static bool add(struct sim_graph *graph, CUgraphConditionalHandle handle, unsigned value)
{
    struct sim_condition *condition = calloc(1, sizeof *condition);

    if (!condition)
        return false;
    *condition = (struct sim_condition){graph->conditions, handle, value};
    graph->conditions = condition;
    return true;
}

const struct sim_condition *sim_condition_find(const struct sim_graph *graph,
                                               CUgraphConditionalHandle handle)
{
    while (graph) {
        for (const struct sim_condition *one = graph->conditions; one; one = one->next)
            if (one->handle == handle)
                return one;
        graph = graph->owner ? graph->owner->graph : NULL;
    }
    return NULL;
}

bool sim_conditions_copy(struct sim_graph *to, const struct sim_graph *from)
{
    for (const struct sim_condition *one = from->conditions; one; one = one->next)
        if (!add(to, one->handle, one->value))
            return false;
    return true;
}

void sim_conditions_drop(struct sim_graph *graph)
{
    while (graph->conditions) {
        struct sim_condition *condition = graph->conditions;
        graph->conditions = condition->next;
        free(condition);
    }
}

bool sim_condition_branch(const struct sim_node *node, const struct sim_graph **out)
{
    const struct sim_branches *branches = &node->branches;
    unsigned number = branches->value;

    *out = NULL;
    if (branches->type == CU_GRAPH_COND_TYPE_WHILE)
        return branches->value == 0;
    if (branches->type == CU_GRAPH_COND_TYPE_IF)
        number = branches->value ? 0 : 1;
    if (number < branches->count)
        *out = branches->graphs[number];
    return true;
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
    if (!add(graph, id, flags & CU_GRAPH_COND_ASSIGN_DEFAULT ? value : 0))
        return sim_lock_leave(CUDA_ERROR_OUT_OF_MEMORY);
    *out = id;
    return sim_lock_leave(CUDA_SUCCESS);
}
