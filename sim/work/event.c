/* event.c -- an event is a position in a queue: a stream, and the number of operations
 * before it.
 *
 * It references the queue, not the stream's handle, so it stays valid when the stream is
 * destroyed. The operation that the record queued sets the time.
 */
#include "sim/work/event.h"
#include "sim/core/handles.h"
#include "sim/core/hooks.h"
#include "sim/core/misuse.h"
#include "sim/core/thread.h"
#include "sim/races/races.h"
#include "sim/work/event_foreign.h"
#include "sim/work/event_share.h"
#include "sim/work/work.h"
#include <stdlib.h>

struct record {
    struct sim_event *event;
    uint64_t position;
    uint64_t number; /* for other processes */
};

static struct sim_handles handles = SIM_HANDLES;

void sim_event_release(struct sim_event *event)
{
    if (--event->references != 0)
        return;
    sim_races_drop_point(&event->point);
    if (event->share)
        sim_event_share_release(event->share);
    free(event);
}

CUresult sim_event_find(CUevent handle, struct sim_event **out)
{
    struct sim_event *event;

    if (!handle)
        return CUDA_ERROR_INVALID_HANDLE;
    event = sim_handles_find(&handles, handle);
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

bool sim_event_is_done(const struct sim_event *event)
{
    uint64_t number;

    if (sim_event_foreign_is_last(event, &number))
        return sim_event_share_is_done(event->share, number);
    return !event->stream || event->stream->done >= event->position;
}

CUresult sim_event_create(CUevent *out, unsigned flags, struct sim_event_share *share)
{
    struct sim_event *event = calloc(1, sizeof *event);

    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUevent handle = sim_handles_create(&handles, event);
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

void sim_event_destroy(CUevent handle, struct sim_event *event)
{
    sim_handles_release(&handles, handle);
    if (event->stream)
        sim_stream_release(event->stream);
    event->stream = NULL;
    sim_hooks.capture_clear(&event->captured);
    sim_event_release(event);
}

/* --- recording --- */

static void set_record_time(void *data)
{
    struct record *record = data;

    if (record->event->position == record->position)
        record->event->time_ns = sim_seeded_now_ns();
    if (record->number)
        sim_event_share_complete(record->event->share, record->number);
    sim_event_release(record->event);
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
        sim_races_get_point(&event->point, stream);
        sim_hooks.capture_clear(&event->captured);
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
    sim_event_release(event);
    return result;
}

CUresult sim_event_record(struct sim_event *event, struct sim_stream *stream)
{
    struct sim_op *op = sim_op_new(sizeof(struct record), NULL, set_record_time);

    return op ? record_with(event, stream, op) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_event_record_context(struct sim_event *event, struct sim_context *context)
{
    struct sim_op *op = sim_op_new(sizeof(struct record), NULL, set_record_time);

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

/* --- waiting --- */

CUresult sim_event_order(CUevent handle, struct sim_stream *stream)
{
    struct sim_event *event;
    struct sim_op *op;
    uint64_t number;
    CUresult result = sim_event_find(handle, &event);

    if (result != CUDA_SUCCESS && stream->member)
        sim_hooks.capture_isolate(stream); /* an event that was not captured */
    if (result != CUDA_SUCCESS)
        return result;
    if (event->captured.capture)
        return sim_hooks.capture_wait(stream, &event->captured);
    bool foreign = sim_event_foreign_is_last(event, &number);
    if (stream->member)
        return event->stream || foreign ? sim_hooks.capture_isolate(stream)
                                        : CUDA_SUCCESS;
    if (foreign && !sim_event_is_done(event))
        return sim_event_foreign_order(event, number, stream);
    sim_races_order(stream, &event->point);
    if ((sim_event_is_done(event) || event->stream == stream) &&
        stream != stream->context->legacy)
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

    if (result != CUDA_SUCCESS || sim_event_is_done(event))
        return result;
    if (sim_event_foreign_is_last(event, &number))
        return CUDA_ERROR_NOT_SUPPORTED; /* a node cannot wait for another process */
    return sim_op_after(op, event->stream, event->position) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_OUT_OF_MEMORY;
}
