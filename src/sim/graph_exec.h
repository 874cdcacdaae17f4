/* graph_exec.h -- a graph made ready: its steps in an order that can be queued. */
#ifndef TARN_SIM_GRAPH_EXEC_H
#define TARN_SIM_GRAPH_EXEC_H

#include "sim/graph.h"
#include "sim/races.h"

/* A node, or a point where a child graph begins. Steps of one lane are done one after the
 * other, as in a stream; a launch has a stream for each lane. */
struct sim_step {
    struct sim_node *node; /* NULL: no work */
    size_t lane;
    uint64_t position; /* in its lane, from 1 */
    size_t *after;     /* earlier steps, of other lanes too */
    size_t after_count, after_room;
    bool is_last; /* nothing in the graph comes after it */
};

struct sim_exec {
    unsigned references;     /* the handle, and launches not done */
    struct sim_graph *graph; /* a private copy */
    unsigned long long flags;
    struct sim_step *steps;
    size_t step_count, step_room, lanes;
    struct sim_stream *stream; /* of the last launch, counted; NULL: none yet */
    uint64_t done_at;          /* when that launch is done: see sim_op_after */
    struct sim_point point;    /* the same, for races.h */
};

enum { SIM_GRAPH_AUTO_FREE = 1, SIM_GRAPH_UPLOAD = 2, SIM_GRAPH_DEVICE_LAUNCH = 4 };

/* The steps of `graph`, which becomes the executable's. CUDA_ERROR_INVALID_VALUE: it has a
 * cycle. Where it fails the graph is the caller's. Locked, as all here. */
CUresult sim_exec_new(struct sim_graph *graph, unsigned long long flags,
                      struct sim_exec **out);
void sim_exec_release(struct sim_exec *exec);

/* The handle goes; launches that are not done go on. */
void sim_exec_destroy(struct sim_exec *exec);

/* Queue it on `stream`. */
CUresult sim_exec_launch(struct sim_exec *exec, struct sim_stream *stream);

#endif
