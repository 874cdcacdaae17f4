/* graph_exec_api.c -- the calls that instantiate, launch and update executable graphs.
 */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/graph/graph_launch.h"
#include "sim/memory/graph_memory.h"
#include "sim/work/stream_lookup.h"

static bool is_claimed(const struct sim_graph *graph)
{
    for (const struct sim_node *node = graph->first; node; node = node->next)
        if (node->kind == NODE_ALLOCATE && node->memory->is_claimed)
            return true;
    return false;
}

/* Memory that a graph allocates has one address, so only one executable may allocate it.
 */
static CUresult instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags)
{
    const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    const struct sim_graph *graph = sim_graph_find(handle);
    struct sim_graph *clone;
    struct sim_exec *exec;
    CUresult result;

    if (!out || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (flags & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_claimed(graph))
        return CUDA_ERROR_NOT_SUPPORTED;
    clone = sim_graph_clone(graph, true);
    if (!clone)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_graph_exec_new(clone, flags, &exec);
    if (result == CUDA_SUCCESS)
        *out = (CUgraphExec)(void *)exec;
    else
        sim_graph_destroy(clone);
    return result;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                     unsigned long long flags)
{
    ENTER(CALL_ALLOCATES);
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        return CUDA_ERROR_INVALID_VALUE; /* there is no stream for the upload */
    sim_lock();
    return sim_lock_leave(instantiate(out, graph, flags));
}

/* An upload is a no-op. */
CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *wanted)
{
    struct sim_stream *stream;
    CUresult result = CUDA_SUCCESS;

    ENTER(CALL_ALLOCATES);
    if (!wanted)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (wanted->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        result = sim_stream_lookup(__func__, wanted->hUploadStream, &stream);
    if (result == CUDA_SUCCESS)
        result = instantiate(out, graph, wanted->flags);
    wanted->hErrNode_out = NULL;
    wanted->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                         : result == CUDA_ERROR_INVALID_VALUE
                             ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                             : CUDA_GRAPH_INSTANTIATE_ERROR;
    return sim_lock_leave(result);
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, uint64_t *flags)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    const struct sim_exec *exec = sim_graph_find_exec(handle);
    if (!exec || !flags)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *flags = exec->flags;
    return sim_lock_leave(CUDA_SUCCESS);
}

/* Queued launches of it still run. */
CUresult cuGraphExecDestroy(CUgraphExec handle)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_exec *exec = sim_graph_find_exec(handle);
    if (exec)
        sim_graph_exec_destroy(exec);
    return sim_lock_leave(exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult find_both(const char *call, CUgraphExec handle, CUstream stream_handle,
                          struct sim_exec **exec, struct sim_stream **stream)
{
    *exec = sim_graph_find_exec(handle);
    return *exec ? sim_stream_lookup(call, stream_handle, stream)
                 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_handle)
{
    struct sim_stream *stream;
    struct sim_exec *exec;

    ENTER(CALL_PLAIN);
    sim_lock();
    return sim_lock_leave(find_both(__func__, handle, stream_handle, &exec, &stream));
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle)
{
    struct sim_stream *stream;
    struct sim_exec *exec;
    CUresult result;

    ENTER(CALL_PLAIN);
    sim_lock();
    result = find_both(__func__, handle, stream_handle, &exec, &stream);
    return sim_lock_leave(result == CUDA_SUCCESS ? sim_graph_launch(exec, stream)
                                                 : result);
}

/* --- updates --- */

static bool is_same_shape(const struct sim_step *a, const struct sim_step *b)
{
    if (a->after_count != b->after_count)
        return false;
    for (size_t i = 0; i < a->after_count; i++)
        if (a->after[i] != b->after[i])
            return false;
    return true;
}

/* Nodes are matched in topological order. */
static int compare(const struct sim_exec *exec, const struct sim_exec *other)
{
    if (exec->step_count != other->step_count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < exec->step_count; i++) {
        const struct sim_node *a = exec->steps[i].node, *b = other->steps[i].node;
        if (!is_same_shape(&exec->steps[i], &other->steps[i]))
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (!a != !b || (a && a->kind != b->kind))
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* Queued launches have their own copies of the operations. */
static void exchange(struct sim_exec *exec, struct sim_exec *other)
{
    struct sim_exec old = *exec;

    exec->graph = other->graph;
    exec->steps = other->steps;
    exec->branches = other->branches;
    exec->step_capacity = other->step_capacity;
    other->graph = old.graph;
    other->steps = old.steps;
    other->branches = old.branches;
    other->step_capacity = old.step_capacity;
}

static CUresult update(CUgraphExec handle, CUgraph graph_handle, int *why)
{
    struct sim_exec *exec = sim_graph_find_exec(handle), *other;
    const struct sim_graph *graph = sim_graph_find(graph_handle);
    struct sim_graph *clone;
    CUresult result;

    *why = CU_GRAPH_EXEC_UPDATE_ERROR;
    if (!exec || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (graph->memory_nodes > 0 || exec->graph->memory_nodes > 0) {
        *why = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    clone = sim_graph_clone(graph, true);
    if (!clone)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_graph_exec_new(clone, exec->flags, &other);
    if (result != CUDA_SUCCESS) {
        sim_graph_destroy(clone);
        if (result != CUDA_ERROR_INVALID_VALUE)
            return result;
        *why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED; /* a cycle */
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    *why = compare(exec, other);
    if (*why == CU_GRAPH_EXEC_UPDATE_SUCCESS)
        exchange(exec, other);
    sim_graph_exec_destroy(other);
    return *why == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *bad, int *why)
{
    int reason;

    ENTER(CALL_PLAIN);
    if (!bad || !why)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = update(exec, graph, &reason);
    *bad = NULL;
    *why = reason;
    return sim_lock_leave(result);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                              CUgraphExecUpdateResultInfo *out)
{
    int reason;

    ENTER(CALL_PLAIN);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = update(exec, graph, &reason);
    *out = (CUgraphExecUpdateResultInfo){.result = reason};
    return sim_lock_leave(result);
}
