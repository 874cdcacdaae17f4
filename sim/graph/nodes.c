/* nodes.c -- lists of nodes. */
#include "sim/graph/nodes.h"
#include <stdint.h>
#include <stdlib.h>

bool sim_nodes_reserve(struct sim_nodes *nodes, size_t more)
{
    size_t capacity = nodes->capacity ? nodes->capacity : 2;
    struct sim_node **bigger;

    if (nodes->capacity >= nodes->count && nodes->capacity - nodes->count >= more)
        return true;
    if (more > SIZE_MAX / 4 / sizeof *bigger - nodes->count)
        return false;
    while (capacity < nodes->count + more)
        capacity *= 2;
    bigger = realloc(nodes->list, capacity * sizeof *bigger);
    if (!bigger)
        return false;
    nodes->list = bigger;
    nodes->capacity = capacity;
    return true;
}

bool sim_nodes_hold(const struct sim_nodes *nodes, const struct sim_node *node)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->list[i] == node)
            return true;
    return false;
}

void sim_nodes_add(struct sim_nodes *nodes, struct sim_node *node)
{
    if (!sim_nodes_hold(nodes, node))
        nodes->list[nodes->count++] = node;
}

bool sim_nodes_merge(struct sim_nodes *nodes, const struct sim_nodes *more)
{
    if (!sim_nodes_reserve(nodes, more->count))
        return false;
    for (size_t i = 0; i < more->count; i++)
        sim_nodes_add(nodes, more->list[i]);
    return true;
}

void sim_nodes_free(struct sim_nodes *nodes)
{
    free(nodes->list);
    *nodes = (struct sim_nodes){0};
}
