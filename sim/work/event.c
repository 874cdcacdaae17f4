/* event.c -- an event is a position in a queue: a stream, and the number of operations
 * before it.
 *
 * It references the queue, not the stream's handle, so it stays valid when the stream is
 * destroyed. The operation that the record queued sets the time.
 */
#include "sim/work/event_internal.h"
#include "sim/core/api.h"
#include "sim/graph/capture.h"
#include "sim/core/call.h"
#include "sim/work/event_share.h"
#include "sim/core/handles.h"
#include "sim/memory/pool.h"
#include "sim/races/races.h"
#include "sim/work/stream.h"
#include "sim/core/thread.h"
#include <stdlib.h>

struct record {
    struct sim_event *event;
    uint64_t position;
    uint64_t number; /* for other processes */
};

static struct sim_handles handles = SIM_HANDLES;

static void release(struct sim_event *event)
{
    if (--event->references != 0)
        return;
    sim_point_drop(&event->point);
    if (event->share)
        sim_event_share_release(event->share);
    free(event);
}

CUresult sim_event_find(CUevent handle, struct sim_event **out)
{
    struct sim_event *event;

    if (!handle)
        return CUDA_ERROR_INVALID_HANDLE;
    event = sim_handle_find(&handles, handle);
    if (!event) {
        sim_misuse(
            sim_thread.call,
            "event %p was destroyed or is not an event; a real driver crashes here",
            (void *)handle);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!atomic_load(&event->context->is_alive) ||
        event->context->id != event->context_generation)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = event;
    return sim_context_error(event->context);
}

static bool is_done(const struct sim_event *event)
{
    uint64_t number;

    if (sim_event_is_foreign(event, &number))
        return sim_event_share_is_done(event->share, number);
    return !event->stream || event->stream->done >= event->position;
}

static bool are_flags(unsigned flags)
{
    const unsigned known =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

    return (flags & ~known) == 0 &&
           (!(flags & CU_EVENT_INTERPROCESS) || flags & CU_EVENT_DISABLE_TIMING);
}

CUresult sim_event_create(CUevent *out, unsigned flags, struct sim_event_share *share)
{
    struct sim_event *event = calloc(1, sizeof *event);

    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUevent handle = sim_handle_create(&handles, event);
    if (!handle) {
        free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->context = sim_context_current();
    event->context_generation = event->context->id;
    event->flags = flags;
    event->references = 1;
    event->share = share;
    *out = handle;
    return CUDA_SUCCESS;
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
    return sim_leave(flags & CU_EVENT_INTERPROCESS ? create_shared(out, flags)
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
        return sim_leave(result);
    sim_handle_release(&handles, handle);
    if (event->stream)
        sim_stream_release(event->stream);
    event->stream = NULL;
    sim_captured_clear(&event->captured);
    release(event);
    return sim_leave(CUDA_SUCCESS);
}

/* --- recording --- */

static void set_record_time(void *data)
{
    struct record *record = data;

    if (record->event->position == record->position)
        record->event->time_ns = sim_now_ns();
    if (record->number)
        sim_event_share_complete(record->event->share, record->number);
    release(record->event);
}

/* Queue `op`, whose data is a record, on `stream`: it becomes the event's new position.
 */
static CUresult record_with(struct sim_event *event, struct sim_stream *stream,
                            struct sim_op *op)
{
    struct record *record = (struct record *)(void *)op->data;
    struct sim_stream *old_stream = event->stream;
    uint64_t old_position = event->position, old_number = event->number;
    CUresult result;

    *record = (struct record){event, stream->queued + 1, 0};
    if (event->share)
        record->number = event->number = sim_event_share_record(event->share);
    event->references++;
    event->stream = stream;
    event->position = record->position;
    sim_stream_retain(stream);
    result =
        sim_work_queue(stream, op); /* may be done at once: the event is set before */
    if (result == CUDA_SUCCESS) {
        sim_point_get(&event->point, stream);
        sim_captured_clear(&event->captured);
        if (old_stream)
            sim_stream_release(old_stream);
        return CUDA_SUCCESS;
    }
    if (event->share) /* no process must wait for it */
        sim_event_share_complete(event->share, event->number);
    event->number = old_number;
    event->stream = old_stream;
    event->position = old_position;
    sim_stream_release(stream);
    release(event);
    return result;
}

/* Add a node that records at every launch. */
static CUresult capture_record(CUevent event, struct sim_stream *stream)
{
    struct sim_node *node;
    CUresult result = sim_capture_add(stream, NODE_RECORD, &node);

    if (result == CUDA_SUCCESS)
        node->event = event;
    return result;
}

static CUresult record(const char *call, CUevent handle, CUstream stream_handle,
                       bool is_external)
{
    struct sim_stream *stream;
    struct sim_event *event;
    struct sim_op *op;
    CUresult result = sim_stream_find(call, stream_handle, &stream);

    if (result == CUDA_SUCCESS)
        result = sim_event_find(handle, &event);
    if (result != CUDA_SUCCESS)
        return result;
    if (event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->member)
        return is_external ? capture_record(handle, stream)
                           : sim_capture_record(stream, &event->captured);
    if (is_external)
        return CUDA_ERROR_ILLEGAL_STATE;
    op = sim_op_new(sizeof(struct record), NULL, set_record_time);
    return op ? record_with(event, stream, op) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventRecord(CUevent handle, CUstream stream)
{
    ENTER(CALL_HANDLE);
    sim_lock();
    return sim_leave(record(__func__, handle, stream, false));
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned int flags)
{
    ENTER(CALL_PLAIN);
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    return sim_leave(record(__func__, handle, stream, flags));
}

/* Record after all work queued in the context, including that of destroyed streams. */
static CUresult record_context(struct sim_context *context, CUevent handle)
{
    struct sim_event *event;
    CUresult result = sim_event_find(handle, &event);
    struct sim_op *op;

    if (result != CUDA_SUCCESS)
        return result;
    if (event->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    op = sim_op_new(sizeof(struct record), NULL, set_record_time);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_races_order_context(context->record_stream);
    for (struct sim_stream *stream = context->busy; stream; stream = stream->next) {
        if (stream == context->record_stream || sim_op_after(op, stream, stream->queued))
            continue;
        sim_op_drop(op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return record_with(event, context->record_stream, op);
}

CUresult cuCtxRecordEvent(CUcontext handle, CUevent event)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_context *context;
    CUresult result =
        handle ? sim_context_alive(handle, &context) : CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS)
        result = sim_capture_context(context);
    return sim_leave(result == CUDA_SUCCESS ? record_context(context, event) : result);
}

/* --- waiting --- */

CUresult sim_event_order(CUevent handle, struct sim_stream *stream)
{
    struct sim_event *event;
    struct sim_op *op;
    uint64_t number;
    CUresult result = sim_event_find(handle, &event);

    if (result != CUDA_SUCCESS && stream->member)
        sim_capture_isolate(stream); /* an event that was not captured */
    if (result != CUDA_SUCCESS)
        return result;
    if (event->captured.capture)
        return sim_capture_wait(stream, &event->captured);
    bool foreign = sim_event_is_foreign(event, &number);
    if (stream->member)
        return event->stream || foreign ? sim_capture_isolate(stream) : CUDA_SUCCESS;
    if (foreign && !is_done(event))
        return sim_event_order_behind_foreign(event, number, stream);
    sim_races_order(stream, &event->point);
    if ((is_done(event) || event->stream == stream) && stream != stream->context->legacy)
        return CUDA_SUCCESS; /* on the legacy stream every operation is a barrier */
    op = sim_op_new(0, NULL, NULL);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!event->stream || sim_op_after(op, event->stream, event->position)) {
        result = sim_work_queue(stream, op);
        if (result == CUDA_SUCCESS && event->stream)
            sim_stream_record_order(stream, event->stream, event->position);
        return result;
    }
    sim_op_drop(op);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- in graphs --- */

CUresult sim_event_check(CUevent handle)
{
    struct sim_event *event;

    return sim_event_find(handle, &event);
}

CUresult sim_event_capture_wait(CUevent handle, struct sim_stream *stream)
{
    struct sim_node *node;
    CUresult result = sim_event_check(handle);

    if (result == CUDA_SUCCESS)
        result = sim_capture_add(stream, NODE_WAIT, &node);
    if (result == CUDA_SUCCESS)
        node->event = handle;
    return result;
}

CUresult sim_event_record_op(CUevent handle, struct sim_op **out)
{
    CUresult result = sim_event_check(handle);

    if (result != CUDA_SUCCESS)
        return result;
    *out = sim_op_new(sizeof(struct record), NULL, set_record_time);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_event_record_with(CUevent handle, struct sim_stream *stream,
                               struct sim_op *op)
{
    struct sim_event *event;
    CUresult result = sim_event_find(handle, &event);

    return result == CUDA_SUCCESS ? record_with(event, stream, op) : result;
}

CUresult sim_event_order_op(CUevent handle, struct sim_op *op, struct sim_stream *stream)
{
    struct sim_event *event;
    uint64_t number;
    CUresult result = sim_event_find(handle, &event);

    if (result == CUDA_SUCCESS)
        sim_races_order(stream, &event->point);

    if (result != CUDA_SUCCESS || is_done(event))
        return result;
    if (sim_event_is_foreign(event, &number))
        return CUDA_ERROR_NOT_SUPPORTED; /* a node cannot wait for another process */
    return sim_op_after(op, event->stream, event->position) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxWaitEvent(CUcontext handle, CUevent event)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_context *context;
    CUresult result = sim_context_alive(handle, &context);
    if (result == CUDA_SUCCESS)
        result = sim_capture_context(context);
    return sim_leave(result == CUDA_SUCCESS ? sim_streams_order(context, event) : result);
}

CUresult cuEventQuery(CUevent handle)
{
    struct sim_event *event;
    CUresult result;

    ENTER(CALL_HANDLE);
    sim_lock();
    result = sim_event_find(handle, &event);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    if (event->captured.capture)
        return sim_leave(sim_capture_event_error(&event->captured));
    event->references++; /* it may be destroyed meanwhile */
    if (!is_done(event))
        sim_work_poll();
    result = is_done(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS)
        sim_races_host_waits_for(&event->point);
    release(event);
    return sim_leave(result);
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
        result = sim_capture_event_error(&event->captured);
    if (result == CUDA_SUCCESS && sim_event_is_foreign(event, &number))
        return sim_leave(sim_event_synchronize_foreign(event, number));
    if (result != CUDA_SUCCESS || !event->stream)
        return sim_leave(result);
    struct sim_context *context = event->context; /* the event may go meanwhile */
    sim_races_host_waits_for(&event->point);
    sim_work_wait(event->stream, event->position);
    sim_pools_trim_to_threshold(context->device);
    return sim_leave(sim_context_error(context));
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
    if (!is_done(first) || !is_done(second))
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
    return sim_leave(elapsed(milliseconds, start, end));
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    return cuEventElapsedTime(milliseconds, start, end);
}
