/* graph_api.c -- the calls that create, change and list graphs. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/graph/graph.h"
#include "sim/graph/user_object.h"
#include <stdio.h>

/* Define a call that is a single query or change under the lock. */
#define UNDER_LOCK(name, parameters, work) \
    CUresult name parameters               \
    {                                      \
        ENTER(CALL_PLAIN);                 \
        sim_lock();                        \
        return sim_lock_leave(work);       \
    }

CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
    ENTER(CALL_ALLOCATES);
    if (!out || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *graph = sim_graph_new(false);
    if (graph)
        *out = (CUgraph)(void *)graph;
    return sim_lock_leave(graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* Executables made of it stay valid. */
CUresult cuGraphDestroy(CUgraph handle)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_graph *graph = sim_graph_find(handle);
    if (!graph || graph->owner)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    if (graph->capture)
        return sim_lock_leave(CUDA_ERROR_ILLEGAL_STATE);
    sim_graph_destroy(graph);
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuGraphClone(CUgraph *out, CUgraph handle)
{
    ENTER(CALL_ALLOCATES);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_graph *graph = sim_graph_find(handle);
    if (!graph)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    if (graph->memory_nodes > 0)
        return sim_lock_leave(CUDA_ERROR_NOT_SUPPORTED);
    struct sim_graph *clone = sim_graph_clone(graph, false);
    if (clone)
        *out = (CUgraph)(void *)clone;
    return sim_lock_leave(clone ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    const struct sim_graph *graph = sim_graph_find(clone);
    const struct sim_node *node = sim_graph_find_node(original);
    struct sim_node *copy = graph && node ? sim_graph_find_copy(graph, node) : NULL;
    if (!out || !copy)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUgraphNode)(void *)copy;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetType(CUgraphNode handle, int *type)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    const struct sim_node *node = sim_graph_find_node(handle);
    if (!node || !type)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *type = (int)node->kind;
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- lists --- */

/* The output of a query: arrays of `capacity` entries (or NULL, to query only the
 * count), of which `used` are written. */
struct list {
    CUgraphNode *first, *second;
    CUgraphEdgeData *edges;
    size_t capacity, used, total;
};

static void add(struct list *list, struct sim_node *first, struct sim_node *second)
{
    list->total++;
    if (!list->first || list->used == list->capacity)
        return;
    list->first[list->used] = (CUgraphNode)(void *)first;
    if (list->second)
        list->second[list->used] = (CUgraphNode)(void *)second;
    if (list->edges)
        list->edges[list->used] = (CUgraphEdgeData){0};
    list->used++;
}

/* Clear the rest of the arrays, as the real driver does. */
static CUresult finish(struct list *list, size_t *count)
{
    if (!list->first) {
        *count = list->total;
        return CUDA_SUCCESS;
    }
    for (size_t i = list->used; i < list->capacity; i++) {
        list->first[i] = NULL;
        if (list->second)
            list->second[i] = NULL;
    }
    *count = list->used;
    return CUDA_SUCCESS;
}

static CUresult list_nodes(CUgraph handle, CUgraphNode *out, size_t *count,
                           bool only_roots)
{
    const struct sim_graph *graph = sim_graph_find(handle);
    struct list list = {.first = out};

    if (!graph || !count)
        return CUDA_ERROR_INVALID_VALUE;
    list.capacity = *count;
    for (struct sim_node *node = graph->first; node; node = node->next)
        if (!only_roots || node->after.count == 0)
            add(&list, node, NULL);
    return finish(&list, count);
}

UNDER_LOCK(cuGraphGetNodes, (CUgraph graph, CUgraphNode *out, size_t *count),
           list_nodes(graph, out, count, false))

UNDER_LOCK(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode *out, size_t *count),
           list_nodes(graph, out, count, true))

static CUresult list_edges(CUgraph handle, struct list list, size_t *count)
{
    const struct sim_graph *graph = sim_graph_find(handle);

    if (!graph || !count || !list.first != !list.second)
        return CUDA_ERROR_INVALID_VALUE;
    list.capacity = *count;
    for (struct sim_node *node = graph->first; node; node = node->next)
        for (size_t i = 0; i < node->after.count; i++)
            add(&list, node->after.list[i], node);
    return finish(&list, count);
}

UNDER_LOCK(cuGraphGetEdges,
           (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count),
           list_edges(graph, (struct list){.first = from, .second = to}, count))

UNDER_LOCK(cuGraphGetEdges_v2,
           (CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges,
            size_t *count),
           list_edges(graph, (struct list){.first = from, .second = to, .edges = edges},
                      count))

static CUresult list_before(CUgraphNode handle, struct list list, size_t *count)
{
    const struct sim_node *node = sim_graph_find_node(handle);

    if (!node || !count)
        return CUDA_ERROR_INVALID_VALUE;
    list.capacity = *count;
    for (size_t i = 0; i < node->after.count; i++)
        add(&list, node->after.list[i], NULL);
    return finish(&list, count);
}

static CUresult list_behind(CUgraphNode handle, struct list list, size_t *count)
{
    const struct sim_node *node = sim_graph_find_node(handle);

    if (!node || !count)
        return CUDA_ERROR_INVALID_VALUE;
    list.capacity = *count;
    for (struct sim_node *other = node->graph->first; other; other = other->next)
        for (size_t i = 0; i < other->after.count; i++)
            if (other->after.list[i] == node)
                add(&list, other, NULL);
    return finish(&list, count);
}

UNDER_LOCK(cuGraphNodeGetDependencies,
           (CUgraphNode node, CUgraphNode *out, size_t *count),
           list_before(node, (struct list){.first = out}, count))

UNDER_LOCK(cuGraphNodeGetDependencies_v2,
           (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edges, size_t *count),
           list_before(node, (struct list){.first = out, .edges = edges}, count))

UNDER_LOCK(cuGraphNodeGetDependentNodes,
           (CUgraphNode node, CUgraphNode *out, size_t *count),
           list_behind(node, (struct list){.first = out}, count))

UNDER_LOCK(cuGraphNodeGetDependentNodes_v2,
           (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edges, size_t *count),
           list_behind(node, (struct list){.first = out, .edges = edges}, count))

/* --- edges --- */

/* The position of `before` in the dependencies of `node`; the list's length: absent. */
static size_t place_of(const struct sim_node *node, const struct sim_node *before)
{
    size_t i = 0;

    while (i < node->after.count && node->after.list[i] != before)
        i++;
    return i;
}

/* Insert or remove one edge. */
static CUresult change_edge(struct sim_graph *graph, CUgraphNode from, CUgraphNode to,
                            bool is_add)
{
    struct sim_node *before = sim_graph_find_node(from), *node = sim_graph_find_node(to);

    if (!before || !node || before == node || before->graph != graph ||
        node->graph != graph)
        return CUDA_ERROR_INVALID_VALUE;
    size_t place = place_of(node, before);
    if (is_add != (place == node->after.count))
        return CUDA_ERROR_INVALID_VALUE; /* already present, or absent */
    if (!is_add)
        node->after.list[place] = node->after.list[--node->after.count];
    else if (sim_nodes_reserve(&node->after, 1))
        sim_nodes_add(&node->after, before);
    else
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult change_edges(CUgraph handle, const CUgraphNode *from,
                             const CUgraphNode *to, size_t count, bool is_add)
{
    struct sim_graph *graph = sim_graph_find(handle);
    CUresult result = CUDA_SUCCESS;
    size_t done = 0;

    if (!graph || (count > 0 && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_add && graph->memory_nodes > 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    while (done < count && result == CUDA_SUCCESS) {
        result = change_edge(graph, from[done], to[done], is_add);
        done += result == CUDA_SUCCESS;
    }
    /* all or none; lists keep their capacity */
    while (result != CUDA_SUCCESS && done > 0) {
        done--;
        change_edge(graph, from[done], to[done], !is_add);
    }
    return result;
}

UNDER_LOCK(cuGraphAddDependencies,
           (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
           change_edges(graph, from, to, count, true))

UNDER_LOCK(cuGraphAddDependencies_v2,
           (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
            const CUgraphEdgeData *edges, size_t count),
           ((void)edges, change_edges(graph, from, to, count, true)))

UNDER_LOCK(cuGraphRemoveDependencies,
           (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
           change_edges(graph, from, to, count, false))

UNDER_LOCK(cuGraphRemoveDependencies_v2,
           (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
            const CUgraphEdgeData *edges, size_t count),
           ((void)edges, change_edges(graph, from, to, count, false)))

/* A capture refers to nodes of its graph, so there they must stay. */
CUresult cuGraphDestroyNode(CUgraphNode handle)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_node *node = sim_graph_find_node(handle);
    if (!node)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    if (node->graph->capture)
        return sim_lock_leave(CUDA_ERROR_ILLEGAL_STATE);
    if (node->graph->memory_nodes > 0)
        return sim_lock_leave(CUDA_ERROR_NOT_SUPPORTED);
    sim_graph_destroy_node(node);
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- Graphviz output --- */

static const char *name_of(enum sim_node_kind kind)
{
    switch (kind) {
    case NODE_KERNEL:
        return "kernel";
    case NODE_COPY:
        return "copy";
    case NODE_FILL:
        return "memset";
    case NODE_HOST:
        return "host function";
    case NODE_GRAPH:
        return "graph";
    case NODE_EMPTY:
        return "empty";
    case NODE_WAIT:
        return "wait for an event";
    case NODE_RECORD:
        return "event";
    case NODE_ALLOCATE:
        return "allocation";
    case NODE_FREE:
        return "free";
    case NODE_CONDITION:
        return "condition";
    }
    return "?";
}

static void print(FILE *file, const struct sim_graph *graph)
{
    fputs("digraph {\n", file);
    for (const struct sim_node *node = graph->first; node; node = node->next)
        fprintf(file, "    n%llu [label=\"%s\"];\n", (unsigned long long)node->id,
                name_of(node->kind));
    for (const struct sim_node *node = graph->first; node; node = node->next)
        for (size_t i = 0; i < node->after.count; i++)
            fprintf(file, "    n%llu -> n%llu;\n",
                    (unsigned long long)node->after.list[i]->id,
                    (unsigned long long)node->id);
    fputs("}\n", file);
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned int flags)
{
    ENTER(CALL_PLAIN);
    (void)flags;
    sim_lock();
    const struct sim_graph *graph = sim_graph_find(handle);
    FILE *file = graph && path ? fopen(path, "w") : NULL;
    if (!file)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    print(file, graph);
    bool is_bad = ferror(file);
    is_bad |= fclose(file) != 0;
    return sim_lock_leave(is_bad ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS);
}

/* --- user objects --- */

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                 unsigned int flags)
{
    ENTER(CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(
        sim_user_object_retain(sim_graph_find(graph), object, count, flags));
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    return sim_lock_leave(sim_user_object_release(sim_graph_find(graph), object, count));
}
