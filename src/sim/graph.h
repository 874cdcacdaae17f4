/* graph.h -- graphs: operations that were not queued but written down, with what each
 * comes after.
 *
 * A handle of a graph, a node or an executable graph is its address, and a table knows
 * which are alive. Locked, all of it.
 */
#ifndef TARN_SIM_GRAPH_H
#define TARN_SIM_GRAPH_H

#include "sim/copy.h"
#include "sim/fill.h"
#include "sim/host_function.h"
#include <stdbool.h>

struct sim_capture;
struct sim_exec;
struct sim_graph_memory;
struct sim_user_use;

/* The driver's numbers. */
enum sim_node_kind {
    NODE_KERNEL = 0,
    NODE_COPY = 1,
    NODE_FILL = 2,
    NODE_HOST = 3,
    NODE_GRAPH = 4,
    NODE_EMPTY = 5,
    NODE_WAIT = 6,
    NODE_RECORD = 7,
    NODE_ALLOCATE = 10,
    NODE_FREE = 11,
};

/* A list of nodes, none twice. */
struct sim_nodes {
    struct sim_node **list;
    size_t count, room;
};

struct sim_node {
    struct sim_graph *graph;
    struct sim_node *next, *previous; /* in the graph, as they were added */
    enum sim_node_kind kind;
    uint64_t id;            /* a clone has its original's */
    struct sim_nodes after; /* it runs when these are done */
    size_t index;           /* for walks through the graph */
    bool is_marked;
    union {
        struct sim_box box;
        struct sim_fill fill;
        struct sim_host_function host;
        CUevent event;
        struct sim_graph *child;         /* owned */
        struct sim_graph_memory *memory; /* counted; NODE_ALLOCATE, NODE_FREE */
    };
};

struct sim_graph {
    struct sim_node *first, *last;
    size_t count;
    size_t memory_nodes;         /* such a graph is not cloned and has one executable */
    struct sim_node *owner;      /* the node whose child it is */
    struct sim_capture *capture; /* that writes it */
    struct sim_user_use *uses;   /* of the client's objects, user_object.h */
    bool is_private;             /* of an executable graph: it has no handles */
};

/* Room for `more` nodes; false: no host memory. */
bool sim_nodes_reserve(struct sim_nodes *nodes, size_t more);

/* Add `node`, if it is not there; there is room. */
void sim_nodes_add(struct sim_nodes *nodes, struct sim_node *node);

/* Add all of `more`; false: no host memory, and nothing was added. */
bool sim_nodes_merge(struct sim_nodes *nodes, const struct sim_nodes *more);
void sim_nodes_free(struct sim_nodes *nodes);

/* The live object of a handle, or NULL. */
struct sim_graph *sim_graph_find(CUgraph handle);
struct sim_node *sim_node_find(CUgraphNode handle);
struct sim_exec *sim_exec_find(CUgraphExec handle);

/* Handles of executable graphs are in the same table. False: no host memory. */
bool sim_exec_list(struct sim_exec *exec);
void sim_exec_unlist(struct sim_exec *exec);

/* An empty graph; NULL: no host memory. Destroy it, with its nodes. */
struct sim_graph *sim_graph_new(bool is_private);
void sim_graph_destroy(struct sim_graph *graph);

/* A copy; a private one has no handles. Memory nodes are copied too, so that only private
 * ones may be made of graphs with those. NULL: no host memory. */
struct sim_graph *sim_graph_clone(const struct sim_graph *graph, bool is_private);

/* A node behind `after`, which are of the same graph; NULL: no host memory. */
struct sim_node *sim_node_new(struct sim_graph *graph, enum sim_node_kind kind,
                              const struct sim_nodes *after);
void sim_node_destroy(struct sim_node *node);

/* `node`, of kind NODE_ALLOCATE or NODE_FREE, allocates or frees `memory`, and has the
 * caller's count of it. */
void sim_node_set_memory(struct sim_node *node, struct sim_graph_memory *memory);

/* The memory at `address` that a new node of `graph` may free, or NULL. */
struct sim_graph_memory *sim_graph_find_to_free(const struct sim_graph *graph,
                                                CUdeviceptr address);

/* The nodes of handles: all alive, of `graph`, none twice; else CUDA_ERROR_INVALID_VALUE.
 * The list is the caller's. */
CUresult sim_nodes_find(const struct sim_graph *graph, const CUgraphNode *handles,
                        size_t count, struct sim_nodes *out);

/* Mark `last` and all that they come after, and nothing else. */
void sim_graph_mark_before(struct sim_graph *graph, const struct sim_nodes *last);

/* The node in `clone` that is a copy of `original`, or NULL. */
struct sim_node *sim_graph_find_copy(const struct sim_graph *clone,
                                     const struct sim_node *original);

#endif
