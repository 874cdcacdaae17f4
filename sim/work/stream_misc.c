/* stream_misc.c -- attributes, profiler marks. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/memory/memory.h"
#include "sim/work/stream.h"

static CUresult check_stream(const char *call, CUstream handle)
{
    struct sim_stream *stream;

    sim_lock();
    return sim_leave(sim_stream_find(call, handle, &stream));
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t bytes,
                                unsigned int flags)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_PLAIN);
    if (flags == 0)
        sim_abort(__func__, "flags are 0; a real driver crashes here");
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

/* Policies of caches and schedulers: accepted, without effect. */
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
