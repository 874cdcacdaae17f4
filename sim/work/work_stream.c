/* work_stream.c -- creation and destruction of the scheduler's streams by reference
 * count. */
#include "sim/core/call.h"
#include "sim/races/races.h"
#include "sim/work/work.h"
#include <stdlib.h>

struct sim_stream *sim_stream_new(struct sim_context *context, unsigned flags)
{
    struct sim_stream *stream = calloc(1, sizeof *stream);

    if (stream) {
        stream->context = context;
        stream->context_generation = context->id;
        stream->flags = flags;
        stream->id = sim_next_id();
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
