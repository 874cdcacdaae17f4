/* stream_lookup.c -- streams of the driver API: handles and default streams. */
#include "sim/work/stream_lookup.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/handles.h"
#include "sim/core/hooks.h"
#include "sim/core/thread.h"
#include "sim/work/work.h"
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

    if (sim_phase_is_stopped())
        return;
    sim_lock();
    while (stream) {
        struct sim_stream *next = stream->next_of_thread;
        sim_hooks.capture_forget_stream(stream);
        sim_stream_release(stream);
        stream = next;
    }
    sim_lock_release();
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

CUresult sim_stream_lookup_default(struct sim_stream **out)
{
    return find_default(NULL, out);
}

static CUresult find_stream(const char *call, CUstream handle, struct sim_stream **out)
{
    struct sim_stream *stream;

    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return find_default(handle, out);
    stream = sim_handles_find(&handles, handle);
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

CUresult sim_stream_lookup(const char *call, CUstream handle, struct sim_stream **out)
{
    CUresult result = find_stream(call, handle, out);

    return result == CUDA_SUCCESS && sim_hooks_any_captures()
               ? sim_hooks.capture_stream(call, *out)
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
    handle = sim_handles_create(&handles, stream);
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
    return sim_lock_leave(create(out, flags, SIM_PRIORITY_LEAST));
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(create(out, flags, priority));
}

static void reuse_handle(void *data)
{
    sim_handles_reuse(&handles, *(void **)data);
}

/* The next stream gets the handle, but not before this one has finished its work. */
static void release_handle(struct sim_stream *stream)
{
    struct sim_op *last = NULL;
    void *handle = stream->handle;

    stream->handle = NULL;
    sim_handles_close(&handles, handle);
    if (stream->done < stream->queued)
        last = sim_op_new(sizeof handle, NULL, reuse_handle);
    if (!last) {
        sim_handles_reuse(&handles, handle);
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

    if (sim_phase_is_forked())
        sim_misuse_abort(__func__,
                         "called in a forked child; a real driver crashes here");
    ENTER(CALL_PLAIN);
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    result = sim_stream_lookup(__func__, handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    release_handle(stream);
    sim_hooks.capture_forget_stream(stream);
    sim_stream_release(stream);
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- all streams --- */

static int compare_ids(const void *a, const void *b)
{
    const struct sim_stream *first = *(struct sim_stream *const *)a,
                            *second = *(struct sim_stream *const *)b;

    return first->id < second->id ? -1 : first->id > second->id;
}

/* List the streams of `context` that have handles, oldest first. The order of handles is
 * that of addresses, which differ in each run. NULL: no host memory. */
struct sim_stream **sim_stream_lookup_all(const struct sim_context *context,
                                          size_t *count)
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
