/* event_foreign.c -- events that another process has recorded. When a stream waits for
 * one, a worker sleeps, because no operation of this process completes that record. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/work/event_internal.h"
#include "sim/work/stream.h"

bool sim_event_is_foreign(const struct sim_event *event, uint64_t *number)
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

CUresult sim_event_order_behind_foreign(struct sim_event *event, uint64_t number,
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
CUresult sim_event_synchronize_foreign(struct sim_event *event, uint64_t number)
{
    struct sim_event_share *share = event->share;
    struct sim_context *context = event->context;

    sim_event_share_retain(share); /* the event may go meanwhile */
    while (!sim_event_share_is_done(share, number)) {
        if (sim_work_step())
            continue;
        sim_unlock();
        sim_event_share_wait(share, number);
        sim_lock();
    }
    sim_event_share_release(share);
    return sim_context_error(context);
}

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
    return sim_leave(result);
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
        return sim_leave(result);
    result =
        sim_event_create(out, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, share);
    if (result != CUDA_SUCCESS)
        sim_event_share_release(share);
    return sim_leave(result);
}
