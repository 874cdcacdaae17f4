/* event_foreign.c -- events that another process has recorded. When a stream waits for
 * one, a worker sleeps, because no operation of this process completes that record. */
#include "sim/work/event_foreign.h"
#include "sim/core/lock.h"
#include "sim/work/event_share.h"
#include "sim/work/work.h"

bool sim_event_foreign_is_last(const struct sim_event *event, uint64_t *number)
{
    if (!event->share)
        return false;
    *number = sim_event_share_last(event->share);
    return *number != event->number;
}

/* A wait for the record of another process: a worker sleeps meanwhile. */
struct foreign_wait {
    struct sim_event_share *share;
    uint64_t number;
};

static void wait_for_foreign(void *data)
{
    const struct foreign_wait *wait = data;

    while (!sim_event_share_is_done(wait->share, wait->number))
        sim_event_share_wait(wait->share, wait->number);
}

static void end_foreign_wait(void *data)
{
    sim_event_share_release(((struct foreign_wait *)data)->share);
}

CUresult sim_event_foreign_order(struct sim_event *event, uint64_t number,
                                 struct sim_stream *stream)
{
    struct sim_op *op =
        sim_op_new(sizeof(struct foreign_wait), wait_for_foreign, end_foreign_wait);

    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *(struct foreign_wait *)(void *)op->data =
        (struct foreign_wait){event->share, number};
    op->failed = end_foreign_wait;
    sim_event_share_retain(event->share);
    return sim_work_queue(stream, op);
}

/* This process's work continues meanwhile: the other process may wait for it. */
CUresult sim_event_foreign_synchronize(struct sim_event *event, uint64_t number)
{
    struct sim_event_share *share = event->share;
    struct sim_context *context = event->context;

    sim_event_share_retain(share); /* the event may go meanwhile */
    while (!sim_event_share_is_done(share, number)) {
        if (sim_work_step())
            continue;
        sim_lock_release();
        sim_event_share_wait(share, number);
        sim_lock();
    }
    sim_event_share_release(share);
    return sim_context_error(context);
}
