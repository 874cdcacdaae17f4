/* graph.c -- nodes and their dependencies; the table of live handles. */
#include "sim/graph/graph.h"
#include "base/map.h"
#include "sim/core/misuse.h"
#include "sim/core/thread.h"
#include "sim/graph/condition.h"
#include "sim/graph/user_object.h"
#include "sim/memory/graph_memory.h"
#include <stdlib.h>
#include <string.h>

/* A destroyed object stays listed as GONE until its address is reused. The real driver
 * rejects a destroyed object, and crashes for an address that never was one. */
enum live_kind { NOT_LIVE, LIVE_GRAPH, LIVE_NODE, LIVE_EXEC };

static struct tarn__map live = {.value_bytes = sizeof(uint64_t), .stride = 16};
static uint64_t last_node_id;

/* --- handles --- */

static bool list(const void *object, uint64_t kind)
{
    uint64_t *entry = tarn__map_get(&live, (uintptr_t)object);

    if (entry)
        *entry = kind;
    return entry || tarn__map_put(&live, (uintptr_t)object, &kind);
}

static void unlist(const void *object)
{
    uint64_t *kind = tarn__map_get(&live, (uintptr_t)object);

    *kind = NOT_LIVE;
}

static void *find(void *handle, uint64_t kind, const char *what)
{
    const uint64_t *found = handle ? tarn__map_get(&live, (uintptr_t)handle) : NULL;

    if (handle && !found && what)
        sim_misuse(sim_thread.call, "%s %p does not exist; a real driver crashes here",
                   what, handle);
    return found && *found == kind ? handle : NULL;
}

struct sim_graph *sim_graph_find(CUgraph handle)
{
    return find(handle, LIVE_GRAPH, "graph");
}

struct sim_node *sim_graph_find_node(CUgraphNode handle)
{
    /* the real driver's answer to others is unknown */
    return find(handle, LIVE_NODE, NULL);
}

struct sim_exec *sim_graph_find_exec(CUgraphExec handle)
{
    return find(handle, LIVE_EXEC, "executable graph");
}

bool sim_graph_list_exec(struct sim_exec *exec)
{
    return list(exec, LIVE_EXEC);
}

void sim_graph_unlist_exec(struct sim_exec *exec)
{
    unlist(exec);
}

CUresult sim_graph_find_nodes(const struct sim_graph *graph, const CUgraphNode *handles,
                              size_t count, struct sim_nodes *out)
{
    struct sim_nodes nodes = {0};

    if (count > 0 && !handles)
        return CUDA_ERROR_INVALID_VALUE;
    if (count > graph->count)
        return CUDA_ERROR_INVALID_VALUE; /* a duplicate, or of another graph */
    if (!sim_nodes_reserve(&nodes, count))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        struct sim_node *node = sim_graph_find_node(handles[i]);
        if (!node || node->graph != graph || sim_nodes_hold(&nodes, node)) {
            sim_nodes_free(&nodes);
            return CUDA_ERROR_INVALID_VALUE;
        }
        sim_nodes_add(&nodes, node);
    }
    *out = nodes;
    return CUDA_SUCCESS;
}

/* --- nodes --- */

static void append(struct sim_graph *graph, struct sim_node *node)
{
    node->previous = graph->last;
    if (graph->last)
        graph->last->next = node;
    else
        graph->first = node;
    graph->last = node;
    graph->count++;
}

struct sim_node *sim_graph_add_node(struct sim_graph *graph, enum sim_node_kind kind,
                                    const struct sim_nodes *after)
{
    struct sim_node *node = calloc(1, sizeof *node);

    if (!node)
        return NULL;
    if (!sim_nodes_merge(&node->after, after) ||
        (!graph->is_private && !list(node, LIVE_NODE))) {
        sim_nodes_free(&node->after);
        free(node);
        return NULL;
    }
    node->graph = graph;
    node->kind = kind;
    node->id = ++last_node_id;
    append(graph, node);
    return node;
}

static void forget(struct sim_nodes *nodes, const struct sim_node *node)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->list[i] == node)
            nodes->list[i--] = nodes->list[--nodes->count];
}

/* The branches that exist: a copy that failed has fewer than it counts. */
static void drop_branches(struct sim_branches *branches)
{
    for (unsigned i = 0; branches->graphs && i < branches->count; i++)
        if (branches->graphs[i])
            sim_graph_destroy(branches->graphs[i]);
    free(branches->graphs);
    free(branches->handles);
}

bool sim_graph_set_branches(struct sim_node *node, unsigned count)
{
    struct sim_branches *branches = &node->branches;

    branches->count = count;
    branches->graphs = calloc(count, sizeof *branches->graphs);
    branches->handles = calloc(count, sizeof *branches->handles);
    return branches->graphs && branches->handles;
}

void sim_graph_set_branch(struct sim_node *node, unsigned number, struct sim_graph *graph)
{
    graph->owner = node;
    node->branches.graphs[number] = graph;
    node->branches.handles[number] = (CUgraph)(void *)graph;
}

static void drop_content(struct sim_node *node)
{
    if (node->kind == NODE_KERNEL)
        sim_kernel_release(&node->kernel);
    if (node->kind == NODE_CONDITION)
        drop_branches(&node->branches);
    if (node->kind == NODE_GRAPH && node->child)
        sim_graph_destroy(node->child);
    if ((node->kind == NODE_ALLOCATE || node->kind == NODE_FREE) && node->memory) {
        sim_graph_memory_release(node->memory);
        node->graph->memory_nodes--;
    }
}

void sim_graph_set_node_memory(struct sim_node *node, struct sim_graph_memory *memory)
{
    node->memory = memory;
    node->graph->memory_nodes++;
    if (node->kind == NODE_ALLOCATE)
        memory->graph = node->graph;
    else if (memory->graph == node->graph)
        memory->is_freed_in_graph = true;
}

/* Memory of another graph may be freed too, once. */
struct sim_graph_memory *sim_graph_find_to_free(const struct sim_graph *graph,
                                                CUdeviceptr address)
{
    struct sim_graph_memory *memory = sim_graph_memory_find((uintptr_t)address, 1);

    if (!memory || memory->range.start != address)
        return NULL;
    if (memory->graph == graph)
        return memory->is_freed_in_graph ? NULL : memory;
    for (const struct sim_node *node = graph->first; node; node = node->next)
        if (node->kind == NODE_FREE && node->memory == memory)
            return NULL;
    return memory;
}

/* Remove it from its graph. Other nodes may still have it in their lists. */
static void destroy_node(struct sim_node *node)
{
    struct sim_graph *graph = node->graph;

    if (node->next)
        node->next->previous = node->previous;
    else
        graph->last = node->previous;
    if (node->previous)
        node->previous->next = node->next;
    else
        graph->first = node->next;
    graph->count--;
    drop_content(node);
    if (!graph->is_private)
        unlist(node);
    sim_nodes_free(&node->after);
    free(node);
}

void sim_graph_destroy_node(struct sim_node *node)
{
    for (struct sim_node *other = node->graph->first; other; other = other->next)
        forget(&other->after, node);
    destroy_node(node);
}

/* --- graphs --- */

struct sim_graph *sim_graph_new(bool is_private)
{
    struct sim_graph *graph = calloc(1, sizeof *graph);

    if (graph && !is_private && !list(graph, LIVE_GRAPH)) {
        free(graph);
        return NULL;
    }
    if (graph)
        graph->is_private = is_private;
    return graph;
}

void sim_graph_destroy(struct sim_graph *graph)
{
    for (struct sim_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        destroy_node(node);
    }
    sim_user_objects_drop(graph);
    sim_conditions_drop(graph);
    if (!graph->is_private)
        unlist(graph);
    free(graph);
}

static bool copy_branches(struct sim_node *to, const struct sim_node *from)
{
    struct sim_graph *clone;

    to->branches = from->branches;
    if (!sim_graph_set_branches(to, from->branches.count))
        return false;
    for (unsigned i = 0; i < from->branches.count; i++) {
        clone = sim_graph_clone(from->branches.graphs[i], to->graph->is_private);
        if (!clone)
            return false;
        sim_graph_set_branch(to, i, clone);
    }
    return true;
}

/* Copy the content of `from` to its copy `to`; false: no host memory. */
static bool copy_content(struct sim_node *to, const struct sim_node *from)
{
    to->id = from->id;
    switch (from->kind) {
    case NODE_COPY:
        to->box = from->box;
        to->copy = from->copy;
        return true;
    case NODE_FILL:
        to->fill = from->fill;
        return true;
    case NODE_HOST:
        to->host = from->host;
        return true;
    case NODE_WAIT:
    case NODE_RECORD:
        to->event = from->event;
        return true;
    case NODE_GRAPH:
        to->child = sim_graph_clone(from->child, to->graph->is_private);
        if (to->child)
            to->child->owner = to;
        return to->child != NULL;
    case NODE_ALLOCATE:
    case NODE_FREE:
        to->memory = from->memory;
        sim_graph_memory_retain(to->memory);
        to->graph->memory_nodes++;
        return true;
    case NODE_KERNEL:
        to->kernel = from->kernel;
        sim_kernel_retain(&to->kernel);
        return true;
    case NODE_CONDITION:
        return copy_branches(to, from);
    case NODE_EMPTY:
        break;
    }
    return true;
}

static bool copy_after(struct sim_node *to, const struct sim_node *from,
                       struct sim_node *const *copies)
{
    if (!sim_nodes_reserve(&to->after, from->after.count))
        return false;
    for (size_t i = 0; i < from->after.count; i++)
        sim_nodes_add(&to->after, copies[from->after.list[i]->index]);
    return true;
}

/* Copy all nodes first and then the dependencies: a node may depend on a later one. */
static bool copy_nodes(struct sim_graph *to, const struct sim_graph *from,
                       struct sim_node **copies)
{
    const struct sim_nodes none = {0};
    size_t i = 0;

    for (struct sim_node *node = from->first; node; node = node->next) {
        copies[i] = sim_graph_add_node(to, node->kind, &none);
        if (!copies[i] || !copy_content(copies[i], node))
            return false;
        node->index = i++;
    }
    for (const struct sim_node *node = from->first; node; node = node->next)
        if (!copy_after(copies[node->index], node, copies))
            return false;
    return true;
}

struct sim_graph *sim_graph_clone(const struct sim_graph *graph, bool is_private)
{
    struct sim_node **copies = calloc(graph->count + 1, sizeof *copies);
    struct sim_graph *clone = sim_graph_new(is_private);

    if (clone &&
        (!copies || !copy_nodes(clone, graph, copies) ||
         !sim_user_objects_copy(clone, graph) || !sim_conditions_copy(clone, graph))) {
        sim_graph_destroy(clone);
        clone = NULL;
    }
    free(copies);
    return clone;
}

struct sim_node *sim_graph_find_copy(const struct sim_graph *clone,
                                     const struct sim_node *original)
{
    struct sim_node *node = clone->first;

    while (node && node->id != original->id)
        node = node->next;
    return node;
}

/* A node is nearly always added after its dependencies, so one pass from the last to the
 * first is enough. */
void sim_graph_mark_before(struct sim_graph *graph, const struct sim_nodes *last)
{
    bool is_new = true;

    for (struct sim_node *node = graph->first; node; node = node->next)
        node->is_marked = false;
    for (size_t i = 0; i < last->count; i++)
        last->list[i]->is_marked = true;
    while (is_new) {
        is_new = false;
        for (struct sim_node *node = graph->last; node; node = node->previous)
            for (size_t i = 0; node->is_marked && i < node->after.count; i++)
                if (!node->after.list[i]->is_marked)
                    is_new = node->after.list[i]->is_marked = true;
    }
}
