/* nodes.h -- lists of nodes without duplicates. */
#ifndef TARN_SIM_NODES_H
#define TARN_SIM_NODES_H

#include "sim/core/captured.h"
#include <stdbool.h>

/* Reserve capacity for `more` nodes. False: no host memory. */
bool sim_nodes_reserve(struct sim_nodes *nodes, size_t more);

/* Add `node` unless it is in the list. There is capacity. */
void sim_nodes_add(struct sim_nodes *nodes, struct sim_node *node);

/* Add all of `more`. False: no host memory, and the list is unchanged. */
bool sim_nodes_merge(struct sim_nodes *nodes, const struct sim_nodes *more);
void sim_nodes_free(struct sim_nodes *nodes);

/* Return true if `node` is in the list. */
bool sim_nodes_hold(const struct sim_nodes *nodes, const struct sim_node *node);

#endif
