/* capture_api.c -- the calls that begin, end, query and change captures. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/thread.h"
#include "sim/graph/capture.h"
#include "sim/work/stream_lookup.h"
#include <stdlib.h>

/* --- beginning and ending --- */

static CUresult find_to_begin(const char *call, CUstream handle, CUstreamCaptureMode mode,
                              struct sim_stream **out)
{
    CUresult result;

    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_stream_lookup(call, handle, out);
    if (result != CUDA_SUCCESS)
        return result;
    if ((*out)->member)
        return CUDA_ERROR_ILLEGAL_STATE;
    return *out == (*out)->context->legacy ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                           : CUDA_SUCCESS;
}

static CUresult begin(const char *call, CUstream handle, CUstreamCaptureMode mode)
{
    struct sim_nodes none = {0};
    struct sim_stream *stream;
    struct sim_graph *graph;
    CUresult result = find_to_begin(call, handle, mode, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    graph = sim_graph_new(false);
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_capture_begin(stream, graph, &none, mode);
    if (result != CUDA_SUCCESS)
        sim_graph_destroy(graph);
    return result;
}

CUresult cuStreamBeginCapture(CUstream stream)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    return sim_lock_leave(begin(__func__, stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    return sim_lock_leave(begin(__func__, stream, mode));
}

static CUresult begin_to(const char *call, CUstream handle, CUgraph graph_handle,
                         const CUgraphNode *handles, size_t count,
                         CUstreamCaptureMode mode)
{
    struct sim_graph *graph = sim_graph_find(graph_handle);
    struct sim_stream *stream;
    struct sim_nodes nodes;
    CUresult result = find_to_begin(call, handle, mode, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (!graph || graph->capture ||
        (graph->owner && graph->owner->kind != NODE_CONDITION))
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_graph_find_nodes(graph, handles, count, &nodes);
    if (result != CUDA_SUCCESS)
        return result;
    result = sim_capture_begin(stream, graph, &nodes, mode);
    sim_nodes_free(&nodes);
    return result;
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                     const CUgraphNode *nodes,
                                     const CUgraphEdgeData *edges, size_t count,
                                     CUstreamCaptureMode mode)
{
    ENTER(CALL_PLAIN);
    (void)edges;
    sim_lock();
    return sim_lock_leave(begin_to(__func__, stream, graph, nodes, count, mode));
}

/* Without `out` no caller can ever name the graph. */
CUresult cuStreamEndCapture(CUstream handle, CUgraph *out)
{
    struct sim_stream *stream;
    struct sim_graph *graph;
    CUresult result;

    CLEAR(out);
    ENTER(CALL_PLAIN);
    sim_lock();
    result = sim_stream_lookup(__func__, handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    result = sim_capture_end(stream, &graph);
    if (out && result != CUDA_ERROR_ILLEGAL_STATE)
        *out = (CUgraph)(void *)graph;
    if (!out && graph)
        sim_graph_destroy(graph);
    return sim_lock_leave(result);
}

/* --- queries --- */

static CUstreamCaptureStatus status_of(const struct sim_stream *stream)
{
    if (!stream->member)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->member->capture->is_invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_HANDLE);
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_stream_lookup(__func__, handle, &stream);
    if (result == CUDA_SUCCESS)
        *status = status_of(stream);
    return sim_lock_leave(result);
}

struct outputs {
    CUstreamCaptureStatus *status;
    uint64_t *id;
    CUgraph *graph;
    const CUgraphNode **nodes;
    const CUgraphEdgeData **edges;
    size_t *count;
};

/* No edge has data, so the list is all 0. Clients read it, so there is one. */
static bool reserve_edges(struct sim_member *member)
{
    size_t count = member->nodes.count ? member->nodes.count : 1;

    if (member->edge_count >= count)
        return true;
    CUgraphEdgeData *edges = calloc(count, sizeof *edges);
    if (!edges)
        return false;
    free(member->edges);
    member->edges = edges;
    member->edge_count = count;
    return true;
}

/* If the stream is not capturing, or its capture is invalidated, only the status is
 * returned. A node's handle is its address, so the list of nodes is a list of handles.
 */
static CUresult write_outputs(const struct outputs *outputs,
                              const struct sim_stream *stream)
{
    *outputs->status = status_of(stream);
    if (*outputs->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    if (outputs->edges && !reserve_edges(stream->member))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (outputs->id)
        *outputs->id = stream->member->capture->id;
    if (outputs->graph)
        *outputs->graph = (CUgraph)(void *)stream->member->capture->graph;
    if (outputs->nodes)
        *outputs->nodes = (const CUgraphNode *)(void *)stream->member->nodes.list;
    if (outputs->edges)
        *outputs->edges = stream->member->edges;
    if (outputs->count)
        *outputs->count = stream->member->nodes.count;
    return CUDA_SUCCESS;
}

static CUresult capture_info(const char *call, CUstream handle,
                             const struct outputs *outputs)
{
    struct sim_stream *stream;
    CUresult result;

    if (!outputs->status)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_stream_lookup(call, handle, &stream);
    if (result == CUDA_SUCCESS)
        result = write_outputs(outputs, stream);
    return sim_lock_leave(result);
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status,
                                uint64_t *id)
{
    ENTER(CALL_PLAIN);
    return capture_info(__func__, handle, &(struct outputs){.status = status, .id = id});
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status,
                                   uint64_t *id, CUgraph *graph,
                                   const CUgraphNode **nodes, size_t *count)
{
    ENTER(CALL_PLAIN);
    return capture_info(__func__, handle,
                        &(struct outputs){status, id, graph, nodes, NULL, count});
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status,
                                   uint64_t *id, CUgraph *graph,
                                   const CUgraphNode **nodes,
                                   const CUgraphEdgeData **edges, size_t *count)
{
    ENTER(CALL_PLAIN);
    return capture_info(__func__, handle,
                        &(struct outputs){status, id, graph, nodes, edges, count});
}

/* --- changing --- */

static CUresult update(const char *call, CUstream handle, const CUgraphNode *handles,
                       size_t count, unsigned flags)
{
    struct sim_stream *stream;
    struct sim_member *member;
    struct sim_nodes nodes;
    CUresult result = sim_stream_lookup(call, handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    member = stream->member;
    if (!member)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (member->capture->is_invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_graph_find_nodes(member->capture->graph, handles, count, &nodes);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sim_nodes_reserve(&member->nodes, count))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        member->nodes.count = 0;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        sim_nodes_add(&member->nodes, nodes.list[i]);
    sim_nodes_free(&nodes);
    return result;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes,
                                           size_t count, unsigned int flags)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    return sim_lock_leave(update(__func__, stream, nodes, count, flags));
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *nodes,
                                              const CUgraphEdgeData *edges, size_t count,
                                              unsigned int flags)
{
    ENTER(CALL_PLAIN);
    (void)edges;
    sim_lock();
    return sim_lock_leave(update(__func__, stream, nodes, count, flags));
}

/* Accept any number, as the real driver does. Numbers above the modes act as relaxed. */
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER(CALL_HANDLE);
    if (!mode) {
        sim_lock();
        sim_misuse(__func__, "mode is NULL; a real driver crashes here");
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    int old = sim_thread.capture_mode;
    sim_thread.capture_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
