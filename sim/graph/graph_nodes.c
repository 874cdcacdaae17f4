/* graph_nodes.c -- the calls that add a node of each kind, and query nodes. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include "sim/graph/graph_kernel.h"
#include "sim/graph/graph_condition.h"
#include "sim/memory/copy_shape.h"
#include "sim/memory/graph_memory.h"
#include "sim/work/event.h"

static CUresult add_empty(const struct sim_graph_place *place)
{
    struct sim_node *node;

    return sim_graph_place_add(place, NODE_EMPTY, &node);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                             size_t count)
{
    ENTER(CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(add_empty(&(struct sim_graph_place){out, graph, after, count}));
}

/* --- copies and memsets --- */

static void set_copy(struct sim_node *node, const CUDA_MEMCPY3D *copy,
                     const struct sim_box *box)
{
    node->copy = *copy;
    node->box = *box;
    sim_copy_set_known(&node->box);
}

static CUresult add_copy(const struct sim_graph_place *place, const CUDA_MEMCPY3D *copy,
                         CUcontext context)
{
    struct sim_context *alive;
    struct sim_node *node;
    struct sim_box box;
    CUresult result;

    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_context_alive(context, &alive);
    if (result == CUDA_SUCCESS)
        result = sim_copy_shape_read(copy, &box);
    if (result == CUDA_SUCCESS)
        result = sim_graph_place_add(place, NODE_COPY, &node);
    if (result == CUDA_SUCCESS)
        set_copy(node, copy, &box);
    return result;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_MEMCPY3D *copy, CUcontext context)
{
    ENTER(CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(
        add_copy(&(struct sim_graph_place){out, graph, after, count}, copy, context));
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D *copy)
{
    struct sim_box box;

    ENTER(CALL_PLAIN);
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_node *node = sim_graph_find_node(handle);
    if (!node || node->kind != NODE_COPY)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    CUresult result = sim_copy_shape_read(copy, &box);
    if (result == CUDA_SUCCESS)
        set_copy(node, copy, &box);
    return sim_lock_leave(result);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D *out)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    const struct sim_node *node = sim_graph_find_node(handle);
    if (!out || !node || node->kind != NODE_COPY)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = node->copy;
    return sim_lock_leave(CUDA_SUCCESS);
}

static CUresult read_fill(const CUDA_MEMSET_NODE_PARAMS *from, struct sim_fill *out)
{
    enum sim_place place;

    if (!from || from->width == 0 || from->height == 0 || from->dst == 0 ||
        (from->elementSize != 1 && from->elementSize != 2 && from->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_fill){
        .to = (char *)(uintptr_t)from->dst,
        .value = from->value,
        .element = from->elementSize,
        .count = from->width,
        .rows = from->height,
        .pitch = from->pitch,
    };
    return sim_fill_check(out, NULL, &place);
}

static CUresult add_fill(const struct sim_graph_place *place,
                         const CUDA_MEMSET_NODE_PARAMS *from, CUcontext context)
{
    struct sim_context *alive;
    struct sim_node *node;
    struct sim_fill fill;
    CUresult result;

    result = sim_context_alive(context, &alive);
    if (result == CUDA_SUCCESS)
        result = read_fill(from, &fill);
    if (result == CUDA_SUCCESS)
        result = sim_graph_place_add(place, NODE_FILL, &node);
    if (result == CUDA_SUCCESS)
        node->fill = fill;
    return result;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS *fill,
                              CUcontext context)
{
    ENTER(CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(
        add_fill(&(struct sim_graph_place){out, graph, after, count}, fill, context));
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS *out)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    const struct sim_node *node = sim_graph_find_node(handle);
    if (!out || !node || node->kind != NODE_FILL)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUDA_MEMSET_NODE_PARAMS){
        .dst = (uintptr_t)node->fill.to,
        .pitch = node->fill.pitch,
        .value = node->fill.value,
        .elementSize = (unsigned)node->fill.element,
        .width = node->fill.count,
        .height = node->fill.rows,
    };
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode handle,
                                    const CUDA_MEMSET_NODE_PARAMS *from)
{
    struct sim_fill fill;

    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_node *node = sim_graph_find_node(handle);
    if (!node || node->kind != NODE_FILL)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    CUresult result = read_fill(from, &fill);
    if (result == CUDA_SUCCESS)
        node->fill = fill;
    return sim_lock_leave(result);
}

/* --- host functions --- */

static CUresult add_host(const struct sim_graph_place *place,
                         const CUDA_HOST_NODE_PARAMS *host)
{
    struct sim_node *node;
    CUresult result;

    if (!host || !host->fn)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_graph_place_add(place, NODE_HOST, &node);
    if (result == CUDA_SUCCESS)
        node->host =
            (struct sim_host_function){.function = host->fn, .data = host->userData};
    return result;
}

CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                            size_t count, const CUDA_HOST_NODE_PARAMS *host)
{
    ENTER(CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(
        add_host(&(struct sim_graph_place){out, graph, after, count}, host));
}

CUresult cuGraphHostNodeGetParams(CUgraphNode handle, CUDA_HOST_NODE_PARAMS *out)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    const struct sim_node *node = sim_graph_find_node(handle);
    if (!out || !node || node->kind != NODE_HOST)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUDA_HOST_NODE_PARAMS){node->host.function, node->host.data};
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuGraphHostNodeSetParams(CUgraphNode handle, const CUDA_HOST_NODE_PARAMS *host)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_node *node = sim_graph_find_node(handle);
    if (!host || !host->fn || !node || node->kind != NODE_HOST)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    node->host = (struct sim_host_function){.function = host->fn, .data = host->userData};
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- child graphs --- */

static CUresult add_child(const struct sim_graph_place *place, CUgraph handle)
{
    struct sim_graph *child = sim_graph_find(handle), *clone;
    struct sim_node *node;
    CUresult result;

    if (!child || handle == place->graph || !sim_graph_find(place->graph))
        return CUDA_ERROR_INVALID_VALUE; /* a graph in itself crashes a real driver */
    /* From here on a destroyed handle may be the clone's address. */
    if (child->memory_nodes > 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    clone = sim_graph_clone(child, false);
    if (!clone)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_graph_place_add(place, NODE_GRAPH, &node);
    if (result != CUDA_SUCCESS) {
        sim_graph_destroy(clone);
        return result;
    }
    clone->owner = node;
    node->child = clone;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph,
                                  const CUgraphNode *after, size_t count, CUgraph child)
{
    ENTER(CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(
        add_child(&(struct sim_graph_place){out, graph, after, count}, child));
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph *out)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    const struct sim_node *node = sim_graph_find_node(handle);
    if (!out || !node || node->kind != NODE_GRAPH)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUgraph)(void *)node->child;
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- events --- */

static CUresult add_event(const struct sim_graph_place *place, enum sim_node_kind kind,
                          CUevent event)
{
    struct sim_node *node;
    CUresult result;

    if (sim_event_check(event) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_graph_place_add(place, kind, &node);
    if (result == CUDA_SUCCESS)
        node->event = event;
    return result;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph,
                                   const CUgraphNode *after, size_t count, CUevent event)
{
    ENTER(CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(add_event(&(struct sim_graph_place){out, graph, after, count},
                                    NODE_RECORD, event));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph,
                                 const CUgraphNode *after, size_t count, CUevent event)
{
    ENTER(CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(
        add_event(&(struct sim_graph_place){out, graph, after, count}, NODE_WAIT, event));
}

static CUresult get_event(CUgraphNode handle, enum sim_node_kind kind, CUevent *out)
{
    const struct sim_node *node = sim_graph_find_node(handle);

    if (!out || !node || node->kind != kind)
        return CUDA_ERROR_INVALID_VALUE;
    *out = node->event;
    return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *out)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    return sim_lock_leave(get_event(node, NODE_RECORD, out));
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *out)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    return sim_lock_leave(get_event(node, NODE_WAIT, out));
}

static CUresult set_event(CUgraphNode handle, enum sim_node_kind kind, CUevent event)
{
    struct sim_node *node = sim_graph_find_node(handle);

    if (!node || node->kind != kind || sim_event_check(event) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    node->event = event;
    return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    return sim_lock_leave(set_event(node, NODE_RECORD, event));
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    return sim_lock_leave(set_event(node, NODE_WAIT, event));
}

/* --- memory --- */

/* A graph allocates memory of a device, or managed memory. */
static CUresult check_allocation(const CUDA_MEM_ALLOC_NODE_PARAMS *wanted)
{
    const CUmemPoolProps *from = wanted ? &wanted->poolProps : NULL;

    if (!wanted || wanted->bytesize == 0 ||
        (from->allocType != CU_MEM_ALLOCATION_TYPE_PINNED &&
         from->allocType != CU_MEM_ALLOCATION_TYPE_MANAGED) ||
        from->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
        (wanted->accessDescCount > 0 && !wanted->accessDescs))
        return CUDA_ERROR_INVALID_VALUE;
    if (from->location.type == CU_MEM_LOCATION_TYPE_HOST)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (from->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_device_exists(from->location.id) ? CUDA_SUCCESS
                                                : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult add_allocation(const struct sim_graph_place *place,
                               CUDA_MEM_ALLOC_NODE_PARAMS *wanted)
{
    struct sim_graph_memory *memory;
    struct sim_node *node;
    CUresult result = check_allocation(wanted);

    if (result != CUDA_SUCCESS)
        return result;
    memory = sim_graph_memory_new(wanted->poolProps.location.id, wanted->bytesize);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->is_managed = wanted->poolProps.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
    if (!sim_graph_memory_set_access(memory, wanted->accessDescs,
                                     wanted->accessDescCount)) {
        sim_graph_memory_release(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    result = sim_graph_place_add(place, NODE_ALLOCATE, &node);
    if (result != CUDA_SUCCESS) {
        sim_graph_memory_release(memory);
        return result;
    }
    sim_graph_set_node_memory(node, memory);
    wanted->dptr = memory->range.start;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *wanted)
{
    ENTER(CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(
        add_allocation(&(struct sim_graph_place){out, graph, after, count}, wanted));
}

/* The list of devices with access belongs to the node. */
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS *out)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    const struct sim_node *node = sim_graph_find_node(handle);
    if (!out || !node || node->kind != NODE_ALLOCATE)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    const struct sim_graph_memory *memory = node->memory;
    *out = (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps = {.allocType = memory->is_managed ? CU_MEM_ALLOCATION_TYPE_MANAGED
                                                      : CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, memory->device}},
        .accessDescs = memory->access,
        .accessDescCount = memory->access_count,
        .bytesize = memory->range.bytes,
        .dptr = memory->range.start,
    };
    return sim_lock_leave(CUDA_SUCCESS);
}

static CUresult add_free(const struct sim_graph_place *place, CUdeviceptr address)
{
    const struct sim_graph *graph = sim_graph_find(place->graph);
    struct sim_graph_memory *memory =
        graph ? sim_graph_find_to_free(graph, address) : NULL;
    struct sim_node *node;
    CUresult result;

    if (!memory)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_graph_place_add(place, NODE_FREE, &node);
    if (result == CUDA_SUCCESS) {
        sim_graph_memory_retain(memory);
        sim_graph_set_node_memory(node, memory);
    }
    return result;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                               size_t count, CUdeviceptr address)
{
    ENTER(CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(
        add_free(&(struct sim_graph_place){out, graph, after, count}, address));
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr *out)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    const struct sim_node *node = sim_graph_find_node(handle);
    if (!out || !node || node->kind != NODE_FREE)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = node->memory->range.start;
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- any kind --- */

static CUresult add_any(const struct sim_graph_place *place, CUgraphNodeParams *wanted)
{
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    switch (wanted->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return sim_graph_kernel_add(place, &wanted->kernel);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return sim_graph_condition_add(place, &wanted->conditional);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return add_empty(place);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return add_copy(place, &wanted->memcpy.copyParams, wanted->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return add_fill(place, &wanted->memset.fill, wanted->memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
        return add_host(place, &wanted->host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return add_child(place, wanted->graph.graph);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return add_event(place, NODE_WAIT, wanted->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return add_event(place, NODE_RECORD, wanted->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return add_allocation(place, &wanted->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return add_free(place, wanted->free.dptr);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                        size_t count, CUgraphNodeParams *wanted)
{
    ENTER(CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(
        add_any(&(struct sim_graph_place){out, graph, after, count}, wanted));
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                           const CUgraphEdgeData *edges, size_t count,
                           CUgraphNodeParams *wanted)
{
    ENTER(CALL_ALLOCATES);
    (void)edges;
    sim_lock();
    return sim_lock_leave(
        add_any(&(struct sim_graph_place){out, graph, after, count}, wanted));
}
