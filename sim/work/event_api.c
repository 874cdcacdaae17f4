/* event_api.c -- the calls about events: create, record, wait, query, measure, share. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/hooks.h"
#include "sim/races/races.h"
#include "sim/work/event.h"
#include "sim/work/event_foreign.h"
#include "sim/work/event_share.h"
#include "sim/work/stream_lookup.h"
#include "sim/work/work.h"
#include <stdlib.h>

static bool are_flags(unsigned flags)
{
    const unsigned known =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

    return (flags & ~known) == 0 &&
           (!(flags & CU_EVENT_INTERPROCESS) || flags & CU_EVENT_DISABLE_TIMING);
}

/* Create an event that other processes may open. */
static CUresult create_shared(CUevent *out, unsigned flags)
{
    struct sim_event_share *share;
    CUresult result = sim_event_share_create(&share);

    if (result != CUDA_SUCCESS)
        return result;
    result = sim_event_create(out, flags, share);
    if (result != CUDA_SUCCESS)
        sim_event_share_release(share);
    return result;
}

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!out || !are_flags(flags))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    return sim_lock_leave(flags & CU_EVENT_INTERPROCESS
                              ? create_shared(out, flags)
                              : sim_event_create(out, flags, NULL));
}

CUresult cuEventDestroy_v2(CUevent handle)
{
    struct sim_event *event;
    CUresult result;

    ENTER(CALL_HANDLE);
    sim_lock();
    result = sim_event_find(handle, &event);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    sim_event_destroy(handle, event);
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- recording --- */

static CUresult record(const char *call, CUevent handle, CUstream stream_handle,
                       bool is_external)
{
    struct sim_stream *stream;
    struct sim_event *event;
    CUresult result = sim_stream_lookup(call, stream_handle, &stream);

    if (result == CUDA_SUCCESS)
        result = sim_event_find(handle, &event);
    if (result != CUDA_SUCCESS)
        return result;
    if (event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->member)
        return is_external ? sim_hooks.capture_add_event(stream, handle, true)
                           : sim_hooks.capture_record(stream, &event->captured);
    if (is_external)
        return CUDA_ERROR_ILLEGAL_STATE;
    return sim_event_record(event, stream);
}

CUresult cuEventRecord(CUevent handle, CUstream stream)
{
    ENTER(CALL_HANDLE);
    sim_lock();
    return sim_lock_leave(record(__func__, handle, stream, false));
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned int flags)
{
    ENTER(CALL_PLAIN);
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    return sim_lock_leave(record(__func__, handle, stream, flags));
}

/* Record after all work queued in the context, including that of destroyed streams. */
static CUresult record_context(struct sim_context *context, CUevent handle)
{
    struct sim_event *event;
    CUresult result = sim_event_find(handle, &event);

    if (result != CUDA_SUCCESS)
        return result;
    if (event->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_event_record_context(event, context);
}

CUresult cuCtxRecordEvent(CUcontext handle, CUevent event)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_context *context;
    CUresult result =
        handle ? sim_context_alive(handle, &context) : CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS)
        result = sim_hooks.capture_context(context);
    return sim_lock_leave(result == CUDA_SUCCESS ? record_context(context, event)
                                                 : result);
}

/* --- waiting --- */

/* Make every stream of `context` wait for `event`. */
static CUresult order_streams(struct sim_context *context, CUevent event)
{
    size_t count;
    struct sim_stream **list = sim_stream_lookup_all(context, &count);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (list)
        result = sim_event_order(event, context->legacy);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = sim_event_order(event, list[i]);
    free(list);
    return result;
}

CUresult cuCtxWaitEvent(CUcontext handle, CUevent event)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_context *context;
    CUresult result = sim_context_alive(handle, &context);
    if (result == CUDA_SUCCESS)
        result = sim_hooks.capture_context(context);
    return sim_lock_leave(result == CUDA_SUCCESS ? order_streams(context, event)
                                                 : result);
}

CUresult cuEventQuery(CUevent handle)
{
    struct sim_event *event;
    CUresult result;

    ENTER(CALL_HANDLE);
    sim_lock();
    result = sim_event_find(handle, &event);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    if (event->captured.capture)
        return sim_lock_leave(sim_hooks.capture_event_error(&event->captured));
    event->references++; /* it may be destroyed meanwhile */
    if (!sim_event_is_done(event))
        sim_work_poll();
    result = sim_event_is_done(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS)
        sim_races_host_waits_for(&event->point);
    sim_event_release(event);
    return sim_lock_leave(result);
}

CUresult cuEventSynchronize(CUevent handle)
{
    struct sim_event *event;
    uint64_t number;
    CUresult result;

    ENTER(CALL_HANDLE);
    sim_lock();
    result = sim_event_find(handle, &event);
    if (result == CUDA_SUCCESS && event->captured.capture)
        result = sim_hooks.capture_event_error(&event->captured);
    if (result == CUDA_SUCCESS && sim_event_foreign_is_last(event, &number))
        return sim_lock_leave(sim_event_foreign_synchronize(event, number));
    if (result != CUDA_SUCCESS || !event->stream)
        return sim_lock_leave(result);
    struct sim_context *context = event->context; /* the event may go meanwhile */
    sim_races_host_waits_for(&event->point);
    sim_work_wait(event->stream, event->position);
    sim_hooks.pool_trim_all_to_threshold(context->device);
    return sim_lock_leave(sim_context_error(context));
}

static CUresult elapsed(float *milliseconds, CUevent start, CUevent end)
{
    struct sim_event *first, *second;
    CUresult result = sim_event_find(start, &first);

    if (result == CUDA_SUCCESS)
        result = sim_event_find(end, &second);
    if (result != CUDA_SUCCESS)
        return result;
    if (first->captured.capture || second->captured.capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if ((first->flags | second->flags) & CU_EVENT_DISABLE_TIMING || !first->stream ||
        !second->stream || first->context != second->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!sim_event_is_done(first) || !sim_event_is_done(second))
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)((double)(int64_t)(second->time_ns - first->time_ns) * 1e-6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    ENTER(CALL_PLAIN);
    if (!milliseconds)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    return sim_lock_leave(elapsed(milliseconds, start, end));
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    return cuEventElapsedTime(milliseconds, start, end);
}

/* --- sharing --- */

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event_handle)
{
    struct sim_event *event;

    ENTER(CALL_CONTEXT);
    if (!handle || !event_handle)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_event_find(event_handle, &event);
    if (result == CUDA_SUCCESS &&
        (!event->share || !sim_event_share_handle(event->share, handle)))
        result = CUDA_ERROR_INVALID_HANDLE;
    return sim_lock_leave(result);
}

/* Each call creates another event with the same records. */
CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    struct sim_event_share *share;

    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_event_share_open(&handle, &share);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    result =
        sim_event_create(out, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, share);
    if (result != CUDA_SUCCESS)
        sim_event_share_release(share);
    return sim_lock_leave(result);
}
