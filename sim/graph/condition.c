/* condition.c -- conditional handles, and the branch that a conditional node takes. */
#include "sim/graph/condition.h"
#include <stdlib.h>

bool sim_condition_add(struct sim_graph *graph, CUgraphConditionalHandle handle,
                       unsigned value)
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
        if (!sim_condition_add(to, one->handle, one->value))
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
