/* host_function.c -- functions of the client that run when a stream reaches them. */
#include "sim/work/host_function.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/hooks.h"
#include "sim/core/thread.h"
#include "sim/work/stream_lookup.h"
#include "sim/work/work.h"

/* Run one at a time, as the real driver runs them all on one thread: a function that
 * blocks delays those of every stream. Driver calls in it fail, except a few that take a
 * handle. */
static void run_host_function(void *data)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    const struct sim_host_function *host = data;

    pthread_mutex_lock(&turn);
    sim_thread.in_host_function = true;
    if (host->function)
        host->function(host->data);
    else
        host->callback(host->stream, CUDA_SUCCESS, host->data);
    sim_thread.in_host_function = false;
    pthread_mutex_unlock(&turn);
}

struct sim_op *sim_host_function_op(const struct sim_host_function *host)
{
    struct sim_op *op = sim_op_new(sizeof *host, run_host_function, NULL);

    if (op)
        *(struct sim_host_function *)(void *)op->data = *host;
    return op;
}

static CUresult queue_host_function(const char *call,
                                    const struct sim_host_function *host)
{
    struct sim_stream *stream;
    struct sim_op *op;
    CUresult result = sim_stream_lookup(call, host->stream, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (stream->member)
        return sim_hooks.capture_add_host_function(stream, host);
    op = sim_host_function_op(host);
    return op ? sim_work_queue(stream, op) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    struct sim_host_function host = {
        .function = function, .data = data, .stream = stream};

    ENTER(CALL_HANDLE);
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    return sim_lock_leave(queue_host_function(__func__, &host));
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data,
                             unsigned int flags)
{
    struct sim_host_function host = {
        .callback = callback, .data = data, .stream = stream};

    ENTER(CALL_PLAIN);
    if (!callback || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    return sim_lock_leave(queue_host_function(__func__, &host));
}
