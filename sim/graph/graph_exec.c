/* graph_exec.c -- converts a graph, with its child graphs, to a list of steps and their
 * branches. */
#include "sim/graph/graph_exec.h"
#include "sim/graph/condition.h"
#include "sim/memory/graph_memory.h"
#include "sim/work/stream.h"
#include <stdlib.h>

enum { NO_STEP = -1 };

static bool add_after(struct sim_step *step, size_t other)
{
    if (step->after_count == step->after_capacity) {
        size_t capacity = step->after_capacity ? 2 * step->after_capacity : 2;
        size_t *bigger = realloc(step->after, capacity * sizeof *bigger);
        if (!bigger)
            return false;
        step->after = bigger;
        step->after_capacity = capacity;
    }
    step->after[step->after_count++] = other;
    return true;
}

/* Add a step without work. Return its number, or NO_STEP. */
static ptrdiff_t add_step(struct sim_exec *exec, struct sim_node *node)
{
    if (exec->step_count == exec->step_capacity) {
        size_t capacity = exec->step_capacity ? 2 * exec->step_capacity : 8;
        struct sim_step *bigger = realloc(exec->steps, capacity * sizeof *bigger);
        if (!bigger)
            return NO_STEP;
        exec->steps = bigger;
        exec->step_capacity = capacity;
    }
    exec->steps[exec->step_count] = (struct sim_step){.node = node, .is_last = true};
    return (ptrdiff_t)exec->step_count++;
}

/* --- topological order --- */

struct order {
    struct sim_node **ready; /* in order; those before `done` were processed */
    size_t count, done;
    size_t *waits;   /* by index: the dependencies not yet processed */
    size_t *first;   /* by index: the start of its dependents in ... */
    size_t *follows; /* ... this: indices */
    struct sim_node **nodes;
};

static bool make_order(struct order *order, const struct sim_graph *graph)
{
    size_t edges = 0, i = 0;

    for (struct sim_node *node = graph->first; node; node = node->next)
        edges += node->after.count;
    *order = (struct order){
        .ready = calloc(graph->count + 1, sizeof *order->ready),
        .waits = calloc(graph->count + 1, sizeof *order->waits),
        .first = calloc(graph->count + 2, sizeof *order->first),
        .follows = calloc(edges + 1, sizeof *order->follows),
        .nodes = calloc(graph->count + 1, sizeof *order->nodes),
    };
    if (!order->ready || !order->waits || !order->first || !order->follows ||
        !order->nodes)
        return false;
    for (struct sim_node *node = graph->first; node; node = node->next) {
        order->nodes[i] = node;
        node->index = i++;
    }
    return true;
}

static void free_order(struct order *order)
{
    free(order->ready);
    free(order->waits);
    free(order->first);
    free(order->follows);
    free(order->nodes);
}

/* List the dependents of each node: count them first, then fill each list from its end.
 */
static void list_followers(struct order *order, const struct sim_graph *graph)
{
    for (struct sim_node *node = graph->first; node; node = node->next)
        for (size_t i = 0; i < node->after.count; i++)
            order->first[node->after.list[i]->index + 1]++;
    for (size_t i = 1; i <= graph->count; i++)
        order->first[i] += order->first[i - 1];
    for (struct sim_node *node = graph->first; node; node = node->next) {
        order->waits[node->index] = node->after.count;
        for (size_t i = 0; i < node->after.count; i++)
            order->follows[--order->first[node->after.list[i]->index + 1]] = node->index;
    }
}

/* After list_followers() the dependents of a node begin at first[index + 1]. */
static void put_in_order(struct order *order, const struct sim_graph *graph, size_t edges)
{
    for (struct sim_node *node = graph->first; node; node = node->next)
        if (node->after.count == 0)
            order->ready[order->count++] = node;
    while (order->done < order->count) {
        size_t index = order->ready[order->done++]->index;
        size_t end = index + 2 <= graph->count ? order->first[index + 2] : edges;
        for (size_t i = order->first[index + 1]; i < end; i++)
            if (--order->waits[order->follows[i]] == 0)
                order->ready[order->count++] = order->nodes[order->follows[i]];
    }
}

/* --- steps --- */

static CUresult add_graph(struct sim_exec *exec, const struct sim_graph *graph,
                          ptrdiff_t begin);

/* Make a new step depend on the last steps since `from`. */
static CUresult add_end(struct sim_exec *exec, size_t from, struct sim_node *node)
{
    ptrdiff_t end = add_step(exec, NULL);

    if (end == NO_STEP)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = from; i < (size_t)end; i++)
        if (exec->steps[i].is_last) {
            exec->steps[i].is_last = false;
            if (!add_after(&exec->steps[end], i))
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
    node->index = (size_t)end;
    return CUDA_SUCCESS;
}

/* Add a node. Its dependencies are steps already: their `index` is the step's number. */
static CUresult add_node(struct sim_exec *exec, struct sim_node *node, ptrdiff_t begin)
{
    const struct sim_graph *inner = NULL;
    bool is_frame = node->kind == NODE_GRAPH ||
                    (node->kind == NODE_CONDITION && sim_condition_branch(node, &inner));
    ptrdiff_t number = add_step(exec, is_frame ? NULL : node);
    struct sim_step *step;
    CUresult result;

    if (number == NO_STEP)
        return CUDA_ERROR_OUT_OF_MEMORY;
    step = &exec->steps[number];
    if (begin != NO_STEP && node->after.count == 0) {
        exec->steps[begin].is_last = false;
        if (!add_after(step, (size_t)begin))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < node->after.count; i++) {
        size_t before = node->after.list[i]->index;
        exec->steps[before].is_last = false;
        if (!add_after(step, before))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node->index = (size_t)number;
    if (node->kind == NODE_GRAPH)
        inner = node->child;
    if (!inner)
        return CUDA_SUCCESS;
    result = add_graph(exec, inner, number);
    return result == CUDA_SUCCESS ? add_end(exec, (size_t)number, node) : result;
}

static CUresult add_graph(struct sim_exec *exec, const struct sim_graph *graph,
                          ptrdiff_t begin)
{
    struct order order;
    CUresult result = CUDA_SUCCESS;
    size_t edges = 0;

    if (!make_order(&order, graph)) {
        free_order(&order);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (struct sim_node *node = graph->first; node; node = node->next)
        edges += node->after.count;
    list_followers(&order, graph);
    put_in_order(&order, graph, edges);
    if (order.count < graph->count)
        result = CUDA_ERROR_INVALID_VALUE; /* a cycle */
    for (size_t i = 0; i < order.count && result == CUDA_SUCCESS; i++)
        result = add_node(exec, order.ready[i], begin);
    free_order(&order);
    return result;
}

/* A step continues the branch of a dependency if that is the last step of its branch so
 * far. Otherwise it begins a new branch. */
static bool assign_branches(struct sim_exec *exec)
{
    /* of each branch: its last step */
    size_t *ends = calloc(exec->step_count + 1, sizeof *ends);

    if (!ends)
        return false;
    for (size_t i = 0; i < exec->step_count; i++) {
        struct sim_step *step = &exec->steps[i];
        step->branch = exec->branches;
        step->position = 1;
        for (size_t k = 0; k < step->after_count && step->position == 1; k++) {
            const struct sim_step *before = &exec->steps[step->after[k]];
            if (ends[before->branch] == step->after[k]) {
                step->branch = before->branch;
                step->position = before->position + 1;
            }
        }
        exec->branches += step->branch == exec->branches;
        ends[step->branch] = i;
    }
    free(ends);
    return true;
}

static void claim_memory(const struct sim_exec *exec, bool is_claimed)
{
    for (size_t i = 0; i < exec->step_count; i++) {
        const struct sim_node *node = exec->steps[i].node;
        if (node && node->kind == NODE_ALLOCATE)
            node->memory->is_claimed = is_claimed;
    }
}

static void free_exec(struct sim_exec *exec)
{
    for (size_t i = 0; i < exec->step_count; i++)
        free(exec->steps[i].after);
    free(exec->steps);
    if (exec->stream)
        sim_stream_release(exec->stream);
    sim_races_drop_point(&exec->point);
    free(exec);
}

CUresult sim_graph_exec_new(struct sim_graph *graph, unsigned long long flags,
                            struct sim_exec **out)
{
    struct sim_exec *exec = calloc(1, sizeof *exec);
    CUresult result;

    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->references = 1;
    exec->flags = flags;
    exec->graph = graph;
    result = add_graph(exec, graph, NO_STEP);
    if (result == CUDA_SUCCESS && (!assign_branches(exec) || !sim_graph_list_exec(exec)))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free_exec(exec);
        return result;
    }
    claim_memory(exec, true);
    *out = exec;
    return CUDA_SUCCESS;
}

void sim_graph_exec_release(struct sim_exec *exec)
{
    struct sim_graph *graph = exec->graph;

    if (--exec->references > 0)
        return;
    free_exec(exec);
    sim_graph_destroy(graph);
}

void sim_graph_exec_destroy(struct sim_exec *exec)
{
    sim_graph_unlist_exec(exec);
    claim_memory(exec, false);
    sim_graph_exec_release(exec);
}
