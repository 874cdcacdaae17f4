/* stream.c -- streams of the driver API: handles, default streams, waiting. */
#include "sim/work/stream.h"
#include "sim/core/api.h"
#include "sim/graph/capture.h"
#include "sim/core/call.h"
#include "sim/work/event.h"
#include "sim/core/handles.h"
#include "sim/memory/pool.h"
#include "sim/races/races.h"
#include "sim/core/thread.h"
#include <stdlib.h>
#include <string.h>

static struct sim_handles handles = SIM_HANDLES;
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

/* --- per-thread default streams --- */

/* The thread has ended; work on its streams continues. */
static void forget_thread(void *first)
{
    struct sim_stream *stream = first;

    if (sim_is_stopped())
        return;
    sim_lock();
    while (stream) {
        struct sim_stream *next = stream->next_of_thread;
        sim_capture_forget_stream(stream);
        sim_stream_release(stream);
        stream = next;
    }
    sim_unlock();
}

static void make_key(void)
{
    if (pthread_key_create(&thread_key, forget_thread) != 0)
        abort();
}

static struct sim_stream *per_thread(struct sim_context *context)
{
    struct sim_stream *stream = sim_thread.stream;

    while (stream && (stream->context != context || !sim_stream_is_alive(stream)))
        stream = stream->next_of_thread;
    if (stream)
        return stream;
    pthread_once(&thread_once, make_key);
    stream = sim_stream_new(context, 0);
    if (!stream)
        return NULL;
    stream->next_of_thread = sim_thread.stream;
    if (pthread_setspecific(thread_key, stream) != 0) {
        sim_stream_release(stream);
        return NULL;
    }
    sim_thread.stream = stream;
    return stream;
}

/* --- handles --- */

static CUresult find_default(CUstream handle, struct sim_stream **out)
{
    struct sim_context *context = sim_context_current();
    CUresult result = sim_context_check_current();

    if (result != CUDA_SUCCESS)
        return result;
    if (handle == CU_STREAM_PER_THREAD || (!handle && sim_thread.is_per_thread))
        *out = per_thread(context);
    else
        *out = context->legacy;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_stream_default(struct sim_stream **out)
{
    return find_default(NULL, out);
}

static CUresult find_stream(const char *call, CUstream handle, struct sim_stream **out)
{
    struct sim_stream *stream;

    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return find_default(handle, out);
    stream = sim_handle_find(&handles, handle);
    if (!stream) {
        sim_misuse(
            call,
            "stream %p was destroyed or is not a stream; a real driver crashes here",
            (void *)handle);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!sim_stream_is_alive(stream))
        /* the context of the handle was destroyed */
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = stream;
    return sim_context_error(stream->context);
}

CUresult sim_stream_find(const char *call, CUstream handle, struct sim_stream **out)
{
    CUresult result = find_stream(call, handle, out);

    return result == CUDA_SUCCESS && sim_capture_any() ? sim_capture_stream(call, *out)
                                                       : result;
}

static bool are_flags(unsigned flags)
{
    return (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) == 0;
}

static CUresult create(CUstream *out, unsigned flags, int priority)
{
    struct sim_stream *stream;
    CUstream handle;

    if (!out || !are_flags(flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (priority > SIM_PRIORITY_LEAST)
        priority = SIM_PRIORITY_LEAST;
    if (priority < SIM_PRIORITY_GREATEST)
        priority = SIM_PRIORITY_GREATEST;
    stream = sim_stream_new(sim_context_current(), flags);
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    handle = sim_handle_create(&handles, stream);
    if (!handle) {
        sim_stream_release(stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stream->handle = handle;
    stream->priority = priority;
    *out = handle;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
    if (are_flags(flags))
        CLEAR(out);
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    sim_lock();
    return sim_leave(create(out, flags, SIM_PRIORITY_LEAST));
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    sim_lock();
    return sim_leave(create(out, flags, priority));
}

static void reuse_handle(void *data)
{
    sim_handle_reuse(&handles, *(void **)data);
}

/* The next stream gets the handle, but not before this one has finished its work. */
static void release_handle(struct sim_stream *stream)
{
    struct sim_op *last = NULL;
    void *handle = stream->handle;

    stream->handle = NULL;
    sim_handle_close(&handles, handle);
    if (stream->done < stream->queued)
        last = sim_op_new(sizeof handle, NULL, reuse_handle);
    if (!last) {
        sim_handle_reuse(&handles, handle);
        return;
    }
    memcpy(last->data, &handle, sizeof handle);
    last->failed = reuse_handle;
    sim_work_queue(stream, last);
}

/* Queued work continues without the handle. */
CUresult cuStreamDestroy_v2(CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    if (sim_is_forked())
        sim_abort(__func__, "called in a forked child; a real driver crashes here");
    ENTER(CALL_PLAIN);
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    result = sim_stream_find(__func__, handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    release_handle(stream);
    sim_capture_forget_stream(stream);
    sim_stream_release(stream);
    return sim_leave(CUDA_SUCCESS);
}

/* --- waiting --- */

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

static int compare_ids(const void *a, const void *b)
{
    const struct sim_stream *first = *(struct sim_stream *const *)a,
                            *second = *(struct sim_stream *const *)b;

    return first->id < second->id ? -1 : first->id > second->id;
}

/* List the streams of `context` that have handles, oldest first. The order of handles is
 * that of addresses, which differ in each run. NULL: no host memory. */
static struct sim_stream **list_streams(const struct sim_context *context, size_t *count)
{
    struct sim_stream **list = malloc((handles.objects.count + 1) * sizeof(void *));
    size_t cursor = 0;
    uint64_t handle;
    void *object;

    *count = 0;
    while (list && tarn__map_next(&handles.objects, &cursor, &handle, &object)) {
        struct sim_stream *stream = *(struct sim_stream **)object;
        if (stream->context == context && sim_stream_is_alive(stream))
            list[(*count)++] = stream;
    }
    if (list)
        qsort(list, *count, sizeof(void *), compare_ids);
    return list;
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

CUresult sim_streams_order(struct sim_context *context, CUevent event)
{
    size_t count;
    struct sim_stream **list = list_streams(context, &count);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (list)
        result = sim_event_order(event, context->legacy);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = sim_event_order(event, list[i]);
    free(list);
    return result;
}

CUresult cuStreamQuery(CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_HANDLE);
    sim_lock();
    result = sim_stream_find(__func__, handle, &stream);
    if (result == CUDA_SUCCESS && !sim_stream_is_idle(stream)) {
        sim_stream_retain(stream);
        sim_work_poll();
        result = sim_stream_is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
        sim_stream_release(stream);
    }
    if (result == CUDA_SUCCESS)
        sim_races_host_waits(stream); /* all of it is complete, as after a wait */
    return sim_leave(result);
}

CUresult cuStreamSynchronize(CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_HANDLE);
    sim_lock();
    result = sim_stream_find(__func__, handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    CUdevice device = stream->context->device;
    result = wait_for(stream);
    sim_pools_trim_to_threshold(device);
    return sim_leave(result);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_PLAIN);
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_stream_find(__func__, handle, &stream);
    if (result == CUDA_SUCCESS && flags && !stream->member)
        result = CUDA_ERROR_ILLEGAL_STATE; /* a wait that only a graph contains */
    if (result == CUDA_SUCCESS)
        result = flags ? sim_event_capture_wait(event, stream)
                       : sim_event_order(event, stream);
    return sim_leave(result);
}

/* --- queries --- */

/* Define a query of one stream attribute. */
#define STREAM_QUERY(name, traits, type, expression)                  \
    CUresult name(CUstream handle, type *out)                         \
    {                                                                 \
        struct sim_stream *stream;                                    \
        ENTER(traits);                                                \
        if (!out)                                                     \
            return CUDA_ERROR_INVALID_VALUE;                          \
        sim_lock();                                                   \
        CUresult result = sim_stream_find(__func__, handle, &stream); \
        if (result == CUDA_SUCCESS)                                   \
            *out = expression;                                        \
        return sim_leave(result);                                     \
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
