/* stream.c -- creation of streams, destruction by reference count, and their order. */
#include "sim/work/stream.h"
#include "sim/core/lock.h"
#include "sim/races/races.h"
#include <stdlib.h>

struct sim_stream *sim_stream_new(struct sim_context *context, unsigned flags)
{
    struct sim_stream *stream = calloc(1, sizeof *stream);

    if (stream) {
        stream->context = context;
        stream->context_generation = context->id;
        stream->flags = flags;
        stream->id = sim_lock_next_id();
        stream->references = 1;
        stream->turn.number = sim_seeded_number(context, flags);
    }
    return stream;
}

void sim_stream_retain(struct sim_stream *stream)
{
    stream->references++;
}

/* Only dropped operations can wait for a stream that will do nothing more. */
static void end_waiters(struct sim_stream *stream)
{
    while (stream->waiters) {
        struct sim_waiter *waiter = stream->waiters;
        stream->waiters = waiter->next;
        if (--waiter->op->pending == 0)
            free(waiter->op);
        free(waiter);
    }
}

void sim_stream_release(struct sim_stream *stream)
{
    if (--stream->references != 0)
        return;
    end_waiters(stream);
    sim_races_end_stream(stream);
    free(stream);
}

bool sim_stream_is_alive(const struct sim_stream *stream)
{
    return atomic_load(&stream->context->is_alive) &&
           stream->context->id == stream->context_generation;
}

CUresult sim_stream_begin_context(struct sim_context *context)
{
    struct sim_stream *legacy = sim_stream_new(context, 0);
    struct sim_stream *record_stream = sim_stream_new(context, CU_STREAM_NON_BLOCKING);

    if (!legacy || !record_stream) {
        free(legacy);
        free(record_stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    record_stream->is_internal = true;
    context->legacy = legacy;
    context->record_stream = record_stream;
    return CUDA_SUCCESS;
}

void sim_stream_end_context(struct sim_context *context)
{
    sim_stream_release(context->legacy);
    sim_stream_release(context->record_stream);
    context->legacy = context->record_stream = NULL;
}

/* Work of the legacy stream is ordered after that of all blocking streams. */
bool sim_stream_is_idle(const struct sim_stream *stream)
{
    const struct sim_stream *other = stream->context->busy;

    if (stream != stream->context->legacy)
        return stream->done == stream->queued;
    while (other && (other->is_internal || other->flags & CU_STREAM_NON_BLOCKING))
        other = other->next;
    return !other;
}

void sim_stream_record_order(struct sim_stream *stream, const struct sim_stream *other,
                             uint64_t until)
{
    stream->orders[stream->next_order++ % SIM_ORDERS] =
        (struct sim_order){other->id, until};
}

bool sim_stream_is_after(const struct sim_stream *stream, const struct sim_stream *other,
                         uint64_t until)
{
    for (int i = 0; i < SIM_ORDERS; i++)
        if (stream->orders[i].stream == other->id && stream->orders[i].until >= until)
            return true;
    return false;
}
