/* condition.h -- conditional handles: values that kernels set and conditional nodes read.
 *
 * No kernel runs, so a handle has its default value in each launch.
 */
#ifndef TARN_SIM_CONDITION_H
#define TARN_SIM_CONDITION_H

#include "sim/graph/graph.h"

/* A conditional handle of a graph. */
struct sim_condition {
    struct sim_condition *next;
    CUgraphConditionalHandle handle; /* never reused */
    unsigned value;                  /* in a launch */
};

/* The handle's entry in `graph` or in a graph around it, or NULL. Locked, as are all
 * functions here. */
const struct sim_condition *sim_condition_find(const struct sim_graph *graph,
                                               CUgraphConditionalHandle handle);

/* Add a handle to `graph`; false: no host memory. */
bool sim_condition_add(struct sim_graph *graph, CUgraphConditionalHandle handle,
                       unsigned value);

/* Copy the handles of `from` to `to`, which is a copy of it (false: no host memory); drop
 * those of `graph`. */
bool sim_conditions_copy(struct sim_graph *to, const struct sim_graph *from);
void sim_conditions_drop(struct sim_graph *graph);

/* The branch of `node`, of kind NODE_CONDITION, that runs in a launch, or NULL. False: it
 * would run for ever, because no kernel ends it. */
bool sim_condition_branch(const struct sim_node *node, const struct sim_graph **out);

#endif
