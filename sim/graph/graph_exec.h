/* graph_exec.h -- an executable graph: its steps in an order that can be queued. */
#ifndef TARN_SIM_GRAPH_EXEC_H
#define TARN_SIM_GRAPH_EXEC_H

#include "sim/graph/graph.h"
#include "sim/races/races.h"

/* A node, or the point where a child graph begins. A branch is a sequence of steps that
 * run one after the other, as in a stream. A launch uses one stream per branch. */
struct sim_step {
    struct sim_node *node; /* NULL: no work */
    size_t branch;
    uint64_t position; /* in its branch, from 1 */
    size_t *after;     /* earlier steps, also of other branches */
    size_t after_count, after_capacity;
    bool is_last; /* no step depends on it */
};

struct sim_exec {
    unsigned references;     /* the handle, and unfinished launches */
    struct sim_graph *graph; /* a private copy */
    unsigned long long flags;
    struct sim_step *steps;
    size_t step_count, step_capacity, branches;
    struct sim_stream *stream; /* of the last launch, counted; NULL: never launched */
    uint64_t done_at;          /* when that launch is complete: see sim_op_after */
    struct sim_point point;    /* the same, for races.h */
};

enum { SIM_GRAPH_AUTO_FREE = 1, SIM_GRAPH_UPLOAD = 2, SIM_GRAPH_DEVICE_LAUNCH = 4 };

/* Compute the steps of `graph`, which the executable then owns. A cycle is
 * CUDA_ERROR_INVALID_VALUE. On failure the caller keeps the graph. Locked, as are all
 * functions here. */
CUresult sim_graph_exec_new(struct sim_graph *graph, unsigned long long flags,
                            struct sim_exec **out);
void sim_graph_exec_release(struct sim_exec *exec);

/* Destroy the handle. Unfinished launches continue. */
void sim_graph_exec_destroy(struct sim_exec *exec);

#endif
