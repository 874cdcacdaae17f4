/* hostfn.c -- facts about functions that a stream calls on the host. */
#include "facts.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

struct seen {
    unsigned char *pin;
    unsigned char byte;
    bool other_thread;
    pthread_t launcher;
    int order[4];
    atomic_int calls;
    CUstream stream;
    CUresult status;
    bool stream_as_given;
};

static void look(void *data)
{
    struct seen *seen = data;

    seen->byte = *seen->pin;
    seen->other_thread = !pthread_equal(pthread_self(), seen->launcher);
    atomic_fetch_add(&seen->calls, 1);
}

static void running(void)
{
    struct seen seen = {.pin = pinned(4096), .launcher = pthread_self()};
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = block_of(256, 5), b = block_of(256, 0);

    fact_result("launch.null_function", cuLaunchHostFunc(stream, NULL, &seen));
    cuMemcpyDtoHAsync(seen.pin, a, 1, stream);
    fact_result("launch", cuLaunchHostFunc(stream, look, &seen));
    cuMemcpyDtoDAsync(b, a, 1, stream);
    cuStreamSynchronize(stream);
    fact("launch.calls", "%d", atomic_load(&seen.calls));
    fact("launch.sees_earlier_work", "%d", seen.byte);
    fact_bool("launch.in_another_thread", seen.other_thread);
    fact("launch.later_work", "%d", peek(b));
    fact_result("launch.legacy_stream", cuLaunchHostFunc(NULL, look, &seen));
    fact_result("launch.per_thread_stream",
                cuLaunchHostFunc(CU_STREAM_PER_THREAD, look, &seen));
    cuCtxSynchronize();
    fact("launch.calls_in_all", "%d", atomic_load(&seen.calls));
    cuMemFree(a);
    cuMemFree(b);
    cuMemFreeHost(seen.pin);
    cuStreamDestroy(stream);
}

static void hold_back(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = block_of(256, 0);
    CUevent event = new_event();
    struct gate gate;

    gate_close(&gate, stream);
    cuMemsetD8Async(a, 5, 256, stream);
    cuEventRecord(event, stream);
    fact("holds.bytes_before", "%d", peek(a));
    fact_result("holds.event_before", cuEventQuery(event));
    fact_result("holds.stream_before", cuStreamQuery(stream));
    gate_open(&gate);
    fact("holds.bytes_after", "%d", peek(a));
    fact_result("holds.event_after", cuEventQuery(event));
    cuEventDestroy(event);
    cuMemFree(a);
    cuStreamDestroy(stream);
}

/* --- driver calls inside a host function --- */

struct inside {
    CUresult (*call)(struct inside *);
    CUresult result;
    CUstream stream;
    CUevent event;
    CUdeviceptr pointer;
    unsigned char *pin;
};

static void call_inside(void *data)
{
    struct inside *inside = data;

    inside->result = inside->call(inside);
}

static void callback_inside(CUstream stream, CUresult status, void *data)
{
    (void)stream, (void)status;
    call_inside(data);
}

#define INSIDE(X)                                                               \
    X(cuMemAlloc, cuMemAlloc(&(CUdeviceptr){0}, 256))                           \
    X(cuMemFree_0, cuMemFree(0))                                                \
    X(cuMemGetInfo, cuMemGetInfo(&(size_t){0}, &(size_t){0}))                   \
    X(cuMemHostAlloc, cuMemHostAlloc(&(void *){0}, 256, 0))                     \
    X(cuMemGetAddressRange,                                                     \
      cuMemGetAddressRange(&(CUdeviceptr){0}, &(size_t){0}, inside->pointer))   \
    X(cuPointerGetAttribute,                                                    \
      cuPointerGetAttribute(&(int){0}, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,        \
                            inside->pointer))                                   \
    X(cuMemsetD8Async, cuMemsetD8Async(inside->pointer, 1, 16, inside->stream)) \
    X(cuMemcpyDtoH, cuMemcpyDtoH(inside->pin, inside->pointer, 16))             \
    X(cuMemAllocAsync, cuMemAllocAsync(&(CUdeviceptr){0}, 256, inside->stream)) \
    X(cuStreamCreate, cuStreamCreate(&(CUstream){0}, 0))                        \
    X(cuStreamSynchronize, cuStreamSynchronize(inside->stream))                 \
    X(cuStreamIsCapturing, cuStreamIsCapturing(inside->stream, &(int){0}))      \
    X(cuStreamGetId, cuStreamGetId(inside->stream, &(unsigned long long){0}))   \
    X(cuStreamGetFlags, cuStreamGetFlags(inside->stream, &(unsigned int){0}))   \
    X(cuEventCreate, cuEventCreate(&(CUevent){0}, 2))                           \
    X(cuEventQuery, cuEventQuery(inside->event))                                \
    X(cuEventRecord, cuEventRecord(inside->event, inside->stream))              \
    X(cuEventSynchronize, cuEventSynchronize(inside->event))                    \
    X(cuLaunchHostFunc, cuLaunchHostFunc(inside->stream, call_inside, inside))  \
    X(cuCtxSynchronize, cuCtxSynchronize())                                     \
    X(cuCtxGetCurrent, cuCtxGetCurrent(&(CUcontext){0}))                        \
    X(cuCtxSetCurrent, cuCtxSetCurrent(context))                                \
    X(cuCtxGetDevice, cuCtxGetDevice(&(CUdevice){0}))                           \
    X(cuDeviceGet, cuDeviceGet(&(CUdevice){0}, 0))                              \
    X(cuDeviceGetCount, cuDeviceGetCount(&(int){0}))                            \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute(&(int){0}, 75, 0))             \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain(&(CUcontext){0}, 0))   \
    X(cuDriverGetVersion, cuDriverGetVersion(&(int){0}))                        \
    X(cuGetErrorName, cuGetErrorName(1, &(const char *){0}))                    \
    X(cuInit, cuInit(0))                                                        \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode(&(int){0}))

#define INSIDE_CALL(name, expression)                    \
    static CUresult inside_##name(struct inside *inside) \
    {                                                    \
        (void)inside;                                    \
        return expression;                               \
    }
INSIDE(INSIDE_CALL)

static const struct {
    const char *name;
    CUresult (*call)(struct inside *);
} inside_calls[] = {
#define ROW(name, expression) {#name, inside_##name},
    INSIDE(ROW)};

static struct inside inside_setup(void)
{
    return (struct inside){.stream = new_stream(CU_STREAM_NON_BLOCKING),
                           .event = new_event(),
                           .pointer = block(256),
                           .pin = pinned(256)};
}

static void inside_function(void)
{
    struct inside inside = inside_setup();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);

    for (size_t i = 0; i < sizeof inside_calls / sizeof *inside_calls; i++) {
        inside.call = inside_calls[i].call;
        inside.result = -1;
        cuLaunchHostFunc(stream, call_inside, &inside);
        cuStreamSynchronize(stream);
        fact_result(named("inside.%s", inside_calls[i].name), inside.result);
    }
    fact_result("inside.afterwards", cuCtxSynchronize());
}

static void inside_callback(void)
{
    struct inside inside = inside_setup();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);

    for (size_t i = 0; i < sizeof inside_calls / sizeof *inside_calls; i++) {
        inside.call = inside_calls[i].call;
        inside.result = -1;
        cuStreamAddCallback(stream, callback_inside, &inside, 0);
        cuStreamSynchronize(stream);
        fact_result(named("inside_callback.%s", inside_calls[i].name), inside.result);
    }
}

/* --- the older callback --- */

static void take_down(CUstream stream, CUresult status, void *data)
{
    struct seen *seen = data;

    seen->status = status;
    seen->stream_as_given = stream == seen->stream;
    atomic_fetch_add(&seen->calls, 1);
}

static void callbacks(void)
{
    struct seen seen = {.stream = new_stream(CU_STREAM_NON_BLOCKING), .status = -1};

    fact_result("callback.null", cuStreamAddCallback(seen.stream, NULL, &seen, 0));
    fact_result("callback.flags_1",
                cuStreamAddCallback(seen.stream, take_down, &seen, 1));
    fact_result("callback", cuStreamAddCallback(seen.stream, take_down, &seen, 0));
    cuStreamSynchronize(seen.stream);
    fact("callback.calls", "%d", atomic_load(&seen.calls));
    fact_result("callback.status", seen.status);
    fact_bool("callback.stream_as_given", seen.stream_as_given);
    CUstream stream = seen.stream;
    seen.stream = NULL;
    fact_result("callback.legacy_stream", cuStreamAddCallback(NULL, take_down, &seen, 0));
    cuCtxSynchronize();
    fact_bool("callback.null_as_given", seen.stream_as_given);
    seen.stream = CU_STREAM_PER_THREAD;
    cuStreamAddCallback(CU_STREAM_PER_THREAD, take_down, &seen, 0);
    cuCtxSynchronize();
    fact_bool("callback.per_thread_as_given", seen.stream_as_given);
    cuStreamDestroy(stream);
}

static void count_up(void *data)
{
    atomic_fetch_add((atomic_int *)data, 1);
}

static CUresult synchronize_it(void *stream)
{
    return cuStreamSynchronize(stream);
}

/* Check whether a host function on one stream delays one on another (one thread for all).
 */
static void two_streams(void)
{
    CUstream held = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    atomic_int calls = 0;
    struct gate gate;

    gate_close(&gate, held);
    while (!atomic_load(&gate.reached)) /* streams have no order */
        sched_yield();
    cuLaunchHostFunc(other, count_up, &calls);
    fact_waits("two_streams", synchronize_it, other, &gate);
    fact("two_streams.calls", "%d", atomic_load(&calls));
    cuStreamDestroy(held);
    cuStreamDestroy(other);
}

/* A stream is destroyed before its function ran. */
static void destroyed(void)
{
    CUstream held = new_stream(CU_STREAM_NON_BLOCKING);
    atomic_int calls = 0;
    struct gate gate;

    gate_close(&gate, held);
    cuLaunchHostFunc(held, count_up, &calls);
    cuStreamDestroy(held);
    fact("destroyed.before", "%d", atomic_load(&calls));
    gate_open(&gate);
    fact("destroyed.after", "%d", atomic_load(&calls));
}

static const struct part parts[] = {
    {"running", running, TOGETHER},
    {"hold_back", hold_back, TOGETHER},
    {"callbacks", callbacks, TOGETHER},
    {"destroyed", destroyed, TOGETHER},
    {"two_streams", two_streams, TOGETHER},
    {"inside_function", inside_function, RISKY},
    {"inside_callback", inside_callback, RISKY},
    END_OF_PARTS,
};
const struct theme theme_hostfn = {"hostfn", parts, true};
