/* graph.h -- graphs: nodes of recorded operations, and the dependencies between them.
 *
 * The handle of a graph, a node or an executable graph is its address. A table knows
 * which are live. All functions are called under the lock.
 */
#ifndef TARN_SIM_GRAPH_H
#define TARN_SIM_GRAPH_H

#include "sim/graph/nodes.h"
#include "sim/memory/copy.h"
#include "sim/memory/fill.h"
#include "sim/module/kernel.h"
#include "sim/work/host_function.h"
#include <stdbool.h>

struct sim_capture;
struct sim_condition;
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
    NODE_CONDITION = 13,
};

/* A conditional node: one of its graphs runs, by the value of its handle. */
struct sim_branches {
    CUgraphConditionalHandle handle;
    int type;       /* CU_GRAPH_COND_TYPE_... */
    unsigned value; /* of the handle at a launch; no kernel runs that could set it */
    unsigned count;
    struct sim_graph **graphs; /* owned */
    CUgraph *handles;          /* the same ones: clients keep the pointer to them */
};

struct sim_node {
    struct sim_graph *graph;
    struct sim_node *next, *previous; /* in the graph, in the order they were added */
    enum sim_node_kind kind;
    uint64_t id;            /* a clone has the id of its original */
    struct sim_nodes after; /* its dependencies */
    size_t index;           /* scratch, for traversals of the graph */
    bool is_marked;
    union {
        struct {
            struct sim_box box;
            CUDA_MEMCPY3D copy; /* as the client described it */
        };
        struct sim_kernel kernel; /* its arguments are counted */
        struct sim_branches branches;
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
    size_t memory_nodes;         /* with any, it is not cloned and has one executable */
    struct sim_node *owner;      /* the node whose child graph or branch it is */
    struct sim_capture *capture; /* the capture that writes it */
    struct sim_condition *conditions; /* its conditional handles, condition.h */
    struct sim_user_use *uses;        /* references to user objects, user_object.h */
    bool is_private;                  /* of an executable graph: it has no handles */
};

/* The live object of a handle, or NULL. */
struct sim_graph *sim_graph_find(CUgraph handle);
struct sim_node *sim_graph_find_node(CUgraphNode handle);
struct sim_exec *sim_graph_find_exec(CUgraphExec handle);

/* Add an executable graph to the same table of handles. False: no host memory. */
bool sim_graph_list_exec(struct sim_exec *exec);
void sim_graph_unlist_exec(struct sim_exec *exec);

/* Create an empty graph (NULL: no host memory); destroy one with its nodes. */
struct sim_graph *sim_graph_new(bool is_private);
void sim_graph_destroy(struct sim_graph *graph);

/* Clone a graph; a private clone has no handles. Memory nodes are cloned too, so a graph
 * with those may only have private clones. NULL: no host memory. */
struct sim_graph *sim_graph_clone(const struct sim_graph *graph, bool is_private);

/* Add a node that depends on `after`, nodes of the same graph. NULL: no host memory. */
struct sim_node *sim_graph_add_node(struct sim_graph *graph, enum sim_node_kind kind,
                                    const struct sim_nodes *after);
void sim_graph_destroy_node(struct sim_node *node);

/* Set the memory that `node`, of kind NODE_ALLOCATE or NODE_FREE, allocates or frees.
 * The node takes over the caller's reference. */
void sim_graph_set_node_memory(struct sim_node *node, struct sim_graph_memory *memory);

/* Give `node`, of kind NODE_CONDITION, space for its branches; false: no host memory, and
 * the caller destroys the node. Set one of them; the node owns the graph. */
bool sim_graph_set_branches(struct sim_node *node, unsigned count);
void sim_graph_set_branch(struct sim_node *node, unsigned number,
                          struct sim_graph *graph);

/* The memory at `address` that a new node of `graph` may free, or NULL. */
struct sim_graph_memory *sim_graph_find_to_free(const struct sim_graph *graph,
                                                CUdeviceptr address);

/* Convert handles to nodes: all live, of `graph`, without duplicates; otherwise
 * CUDA_ERROR_INVALID_VALUE. The caller owns the list. */
CUresult sim_graph_find_nodes(const struct sim_graph *graph, const CUgraphNode *handles,
                              size_t count, struct sim_nodes *out);

/* Mark `last` and all their transitive dependencies, and no other node. */
void sim_graph_mark_before(struct sim_graph *graph, const struct sim_nodes *last);

/* The node in `clone` that is the copy of `original`, or NULL. */
struct sim_node *sim_graph_find_copy(const struct sim_graph *clone,
                                     const struct sim_node *original);

#endif
