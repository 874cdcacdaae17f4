/* capturing.c -- run captures around calls of Tarn. It uses the driver's own calls, as a
 * program beside Tarn would. */
#define _GNU_SOURCE
#include "capturing.h"
#include "driver_calls.h"
#include "test.h"
#include <pthread.h>

enum { ACTIVE = 1, MODES = 3 };

static struct {
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*stream_create)(void **out, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*begin)(void *stream, int mode);
    int (*is_capturing)(void *stream, int *out);
    int (*end)(void *stream, void **graph);
    int (*graph_destroy)(void *graph);
    int (*exchange)(int *mode);
} cu;

static void find_calls(void)
{
    find_call("cuDevicePrimaryCtxRetain", &cu.retain);
    find_call("cuCtxSetCurrent", &cu.set_current);
    find_call("cuStreamCreate", &cu.stream_create);
    find_call("cuStreamDestroy_v2", &cu.stream_destroy);
    find_call("cuStreamBeginCapture_v2", &cu.begin);
    find_call("cuStreamIsCapturing", &cu.is_capturing);
    find_call("cuStreamEndCapture", &cu.end);
    find_call("cuGraphDestroy", &cu.graph_destroy);
    find_call("cuThreadExchangeStreamCaptureMode", &cu.exchange);
}

/* The task of a thread, and its result. */
struct job {
    tarn_status (*work)(void);
    int mode; /* the thread's own, during the work */
    tarn_status status;
    int mode_after;
    char message[sizeof((tarn_error *)0)->message];
};

static void *do_job(void *data)
{
    struct job *job = data;
    int before = job->mode;

    cu.exchange(&before);
    job->status = job->work();
    snprintf(job->message, sizeof job->message, "%s", tarn_error_last()->message);
    cu.exchange(&before);
    job->mode_after = before;
    return NULL;
}

/* On this thread, or on another one. */
static void run_job(struct job *job, bool on_other_thread)
{
    pthread_t thread;

    if (!on_other_thread) {
        do_job(job);
        return;
    }
    CHECK_EQUAL(0, pthread_create(&thread, NULL, do_job, job));
    pthread_join(thread, NULL);
}

static void survive(tarn_status (*work)(void), unsigned flags, int mode,
                    bool on_other_thread)
{
    struct job job = {.work = work, .mode = mode};
    void *stream, *graph = NULL;
    int state = -1;

    CHECK_EQUAL(0, cu.stream_create(&stream, flags));
    CHECK_EQUAL(0, cu.begin(stream, mode));
    run_job(&job, on_other_thread);
    cu.is_capturing(stream, &state);
    int end = cu.end(stream, &graph);
    if (graph)
        cu.graph_destroy(graph);
    cu.stream_destroy(stream);
    if (job.status != TARN_OK || state != ACTIVE || end != 0 || job.mode_after != mode)
        fail_msg("%s stream, mode %d, %s thread: status %s (%s), the stream's state %d, "
                 "the end %d, the thread's mode %d",
                 flags ? "non-blocking" : "blocking", mode,
                 on_other_thread ? "another" : "its", tarn_status_name(job.status),
                 job.message, state, end, job.mode_after);
}

void capture_survives(tarn_status (*work)(void))
{
    void *context;

    find_calls();
    CHECK_EQUAL(0, cu.retain(&context, 0));
    CHECK_EQUAL(0, cu.set_current(context));
    for (unsigned flags = 0; flags < 2; flags++)
        for (int mode = 0; mode < MODES; mode++)
            for (int on_other_thread = 0; on_other_thread < 2; on_other_thread++)
                survive(work, flags, mode, on_other_thread);
    CHECK_EQUAL(0, cu.set_current(NULL));
}
