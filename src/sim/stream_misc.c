/* stream_misc.c -- capture state (nothing captures yet), attributes, profiler marks. */
#include "sim/api.h"
#include "sim/call.h"
#include "sim/memory.h"
#include "sim/stream.h"
#include "sim/thread.h"

static CUresult check_stream(const char *call, CUstream handle)
{
    struct sim_stream *stream;

    sim_lock();
    return sim_leave(sim_stream_find(call, handle, &stream));
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CUresult result;

    ENTER(CALL_PLAIN);
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    result = check_stream(__func__, handle);
    if (result == CUDA_SUCCESS)
        *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return result;
}

/* Where nothing captures, only the status is an answer. */
static CUresult capture_info(const char *call, CUstream handle,
                             CUstreamCaptureStatus *status)
{
    CUresult result;

    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    result = check_stream(call, handle);
    if (result == CUDA_SUCCESS)
        *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return result;
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status,
                                uint64_t *id)
{
    ENTER(CALL_PLAIN);
    (void)id;
    return capture_info(__func__, handle, status);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status,
                                   uint64_t *id, CUgraph *graph,
                                   const CUgraphNode **nodes, size_t *count)
{
    ENTER(CALL_PLAIN);
    (void)id, (void)graph, (void)nodes, (void)count;
    return capture_info(__func__, handle, status);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status,
                                   uint64_t *id, CUgraph *graph,
                                   const CUgraphNode **nodes, const void **edges,
                                   size_t *count)
{
    ENTER(CALL_PLAIN);
    (void)id, (void)graph, (void)nodes, (void)edges, (void)count;
    return capture_info(__func__, handle, status);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER(CALL_PLAIN);
    if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
        *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    int old = sim_thread.capture_mode;
    sim_thread.capture_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t bytes,
                                unsigned int flags)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_PLAIN);
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
        flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_stream_find(__func__, handle, &stream);
    const struct sim_block *block = sim_block_find((uintptr_t)address);
    if (result == CUDA_SUCCESS && (!block || block->kind != BLOCK_MANAGED ||
                                   (bytes && bytes != block->range.bytes)))
        result = CUDA_ERROR_INVALID_VALUE;
    return sim_leave(result);
}

/* Policies of caches and schedulers: taken, and without effect. */
CUresult cuStreamSetAttribute(CUstream handle, int attribute, const void *value)
{
    ENTER(CALL_PLAIN);
    (void)attribute;
    return value ? check_stream(__func__, handle) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetAttribute(CUstream handle, int attribute, void *value)
{
    ENTER(CALL_PLAIN);
    (void)handle, (void)attribute, (void)value;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
    CUresult result;

    ENTER(CALL_PLAIN);
    result = check_stream(__func__, to);
    return result == CUDA_SUCCESS ? check_stream(__func__, from) : result;
}

CUresult cuProfilerStart(void)
{
    ENTER(CALL_CONTEXT);
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
    ENTER(CALL_CONTEXT);
    return CUDA_SUCCESS;
}
