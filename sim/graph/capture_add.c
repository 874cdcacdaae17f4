/* capture_add.c -- adds the work of a capturing stream to the graph. */
#include "sim/graph/capture_add.h"
#include "sim/graph/capture.h"
#include "sim/memory/graph_memory.h"

CUresult sim_capture_add_event(struct sim_stream *stream, CUevent event, bool records)
{
    struct sim_node *node;
    CUresult result = sim_capture_node(stream, records ? NODE_RECORD : NODE_WAIT, &node);

    if (result == CUDA_SUCCESS)
        node->event = event;
    return result;
}

CUresult sim_capture_add_host_function(struct sim_stream *stream,
                                       const struct sim_host_function *host)
{
    struct sim_node *node;
    CUresult result = sim_capture_node(stream, NODE_HOST, &node);

    if (result == CUDA_SUCCESS)
        node->host = *host;
    return result;
}

CUresult sim_capture_add_copy(struct sim_stream *stream, const struct sim_box *box)
{
    struct sim_node *node;
    CUresult result = sim_capture_node(stream, NODE_COPY, &node);

    if (result == CUDA_SUCCESS) {
        node->box = *box;
        sim_copy_set_known(&node->box);
    }
    return result;
}

CUresult sim_capture_add_fill(struct sim_stream *stream, const struct sim_fill *fill)
{
    struct sim_node *node;
    CUresult result = sim_capture_node(stream, NODE_FILL, &node);

    if (result == CUDA_SUCCESS)
        node->fill = *fill;
    return result;
}

CUresult sim_capture_add_kernel(struct sim_stream *stream,
                                const struct sim_kernel *kernel)
{
    struct sim_node *node;
    CUresult result = sim_capture_node(stream, NODE_KERNEL, &node);

    if (result == CUDA_SUCCESS) {
        node->kernel = *kernel;
        sim_kernel_retain(kernel);
    }
    return result;
}

CUresult sim_capture_add_allocation(struct sim_stream *stream, CUdevice device,
                                    size_t bytes, CUdeviceptr *out)
{
    struct sim_graph_memory *memory;
    struct sim_node *node;
    CUresult result;

    if (stream->member->capture->is_invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    memory = sim_graph_memory_new(device, bytes);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_capture_node(stream, NODE_ALLOCATE, &node);
    if (result != CUDA_SUCCESS) {
        sim_graph_memory_release(memory);
        return result;
    }
    sim_graph_set_node_memory(node, memory);
    *out = memory->range.start;
    return CUDA_SUCCESS;
}

CUresult sim_capture_add_free(struct sim_stream *stream, CUdeviceptr address)
{
    struct sim_graph_memory *memory;
    struct sim_node *node;
    CUresult result;

    if (stream->member->capture->is_invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    memory = sim_graph_find_to_free(stream->member->capture->graph, address);
    if (!memory)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_capture_node(stream, NODE_FREE, &node);
    if (result == CUDA_SUCCESS) {
        sim_graph_memory_retain(memory);
        sim_graph_set_node_memory(node, memory);
    }
    return result;
}
