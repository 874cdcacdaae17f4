/* stream_api.c -- the calls that wait for streams and contexts, and queries. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/hooks.h"
#include "sim/races/races.h"
#include "sim/work/event.h"
#include "sim/work/stream_lookup.h"
#include "sim/work/work.h"

/* --- waiting --- */

static CUresult wait_for(struct sim_stream *stream)
{
    struct sim_op *barrier;
    CUresult result;

    sim_races_host_waits(stream);
    if (sim_stream_is_idle(stream))
        return CUDA_SUCCESS;
    if (stream == stream->context->legacy) {
        barrier = sim_op_new(0, NULL, NULL);
        result = barrier ? sim_work_queue(stream, barrier) : CUDA_ERROR_OUT_OF_MEMORY;
        if (result != CUDA_SUCCESS)
            return result;
    }
    struct sim_context *context = stream->context;
    sim_work_wait(stream, stream->queued);
    return sim_context_error(context);
}

CUresult cuStreamQuery(CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_HANDLE);
    sim_lock();
    result = sim_stream_lookup(__func__, handle, &stream);
    if (result == CUDA_SUCCESS && !sim_stream_is_idle(stream)) {
        sim_stream_retain(stream);
        sim_work_poll();
        result = sim_stream_is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
        sim_stream_release(stream);
    }
    if (result == CUDA_SUCCESS)
        sim_races_host_waits(stream); /* all of it is complete, as after a wait */
    return sim_lock_leave(result);
}

CUresult cuStreamSynchronize(CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_HANDLE);
    sim_lock();
    result = sim_stream_lookup(__func__, handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    CUdevice device = stream->context->device;
    result = wait_for(stream);
    sim_hooks.pool_trim_all_to_threshold(device);
    return sim_lock_leave(result);
}

/* Add a node to the capture of `stream`: it waits for the event at every launch. */
static CUresult wait_in_graph(CUevent event, struct sim_stream *stream)
{
    CUresult result = sim_event_check(event);

    return result == CUDA_SUCCESS ? sim_hooks.capture_add_event(stream, event, false)
                                  : result;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_PLAIN);
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_stream_lookup(__func__, handle, &stream);
    if (result == CUDA_SUCCESS && flags && !stream->member)
        result = CUDA_ERROR_ILLEGAL_STATE; /* a wait that only a graph contains */
    if (result == CUDA_SUCCESS)
        result = flags ? wait_in_graph(event, stream) : sim_event_order(event, stream);
    return sim_lock_leave(result);
}

CUresult cuCtxSynchronize(void)
{
    ENTER(CALL_CONTEXT);
    sim_lock();
    CUresult result = sim_hooks.capture_context(sim_context_current());
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    sim_work_wait_context(sim_context_current());
    sim_hooks.pool_trim_all_to_threshold(sim_context_current()->device);
    return sim_lock_leave(sim_context_error(sim_context_current()));
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
    struct sim_context *context;

    ENTER(CALL_PLAIN);
    sim_lock();
    CUresult result = sim_context_alive(handle, &context);
    if (result == CUDA_SUCCESS)
        result = sim_hooks.capture_context(context);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    sim_work_wait_context(context);
    sim_hooks.pool_trim_all_to_threshold(context->device);
    return sim_lock_leave(sim_context_error(context));
}

/* --- queries --- */

/* Define a query of one stream attribute. */
#define STREAM_QUERY(name, traits, type, expression)                    \
    CUresult name(CUstream handle, type *out)                           \
    {                                                                   \
        struct sim_stream *stream;                                      \
        ENTER(traits);                                                  \
        if (!out)                                                       \
            return CUDA_ERROR_INVALID_VALUE;                            \
        sim_lock();                                                     \
        CUresult result = sim_stream_lookup(__func__, handle, &stream); \
        if (result == CUDA_SUCCESS)                                     \
            *out = expression;                                          \
        return sim_lock_leave(result);                                  \
    }

STREAM_QUERY(cuStreamGetId, CALL_HANDLE, unsigned long long, stream->id)
STREAM_QUERY(cuStreamGetCtx, CALL_PLAIN, CUcontext, (CUcontext)(void *)stream->context)
STREAM_QUERY(cuStreamGetDevice, CALL_PLAIN, CUdevice, stream->context->device)
STREAM_QUERY(cuStreamGetFlags, CALL_HANDLE, unsigned int, stream->flags)
STREAM_QUERY(cuStreamGetPriority, CALL_PLAIN, int, stream->priority)

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *out, CUgreenCtx *green)
{
    CUresult result = cuStreamGetCtx(handle, out);

    if (result == CUDA_SUCCESS && green)
        *green = NULL;
    return result;
}

/* --- attributes --- */

static CUresult check_stream(const char *call, CUstream handle)
{
    struct sim_stream *stream;

    sim_lock();
    return sim_lock_leave(sim_stream_lookup(call, handle, &stream));
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
