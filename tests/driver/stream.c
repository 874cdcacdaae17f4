/* stream.c -- facts about streams: creating, naming, querying, destroying, and destroyed
 * streams. */
#include "facts.h"

#include <stdlib.h>

static void making(void)
{
    CUstream out = (CUstream)(uintptr_t)77;

    fact_result("create.null", cuStreamCreate(NULL, 0));
    fact_output("create.flags_2", cuStreamCreate(&out, 2), out == (void *)77);
    fact_output("create.flags_3", cuStreamCreate(&out, 3), out == (void *)77);
    fact_output("create.flags_0x100", cuStreamCreate(&out, 0x100), out == (void *)77);
    for (unsigned int flags = 0; flags < 2; flags++) {
        unsigned int got = 77;
        fact_result(named("create.flags_%u", flags), cuStreamCreate(&out, flags));
        CUresult result = cuStreamGetFlags(out, &got);
        fact(named("flags.of_%u", flags), "%s, %u", result_name(result), got);
        fact_result(named("destroy.flags_%u", flags), cuStreamDestroy(out));
    }
}

static void priority_fact(int requested)
{
    CUstream stream = NULL;
    int got = 77;
    CUresult result =
        cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, requested);

    if (result == CUDA_SUCCESS)
        cuStreamGetPriority(stream, &got);
    fact(named("priority.%d", requested), "%s, %d", result_name(result), got);
    if (result == CUDA_SUCCESS)
        cuStreamDestroy(stream);
}

static void priorities(void)
{
    CUstream out = (CUstream)(uintptr_t)77;

    priority_fact(0);
    priority_fact(-1);
    priority_fact(-5);
    priority_fact(-99);
    priority_fact(1);
    priority_fact(99);
    fact_output("priority.bad_flags", cuStreamCreateWithPriority(&out, 2, 0),
                out == (void *)77);
    fact_result("priority.null", cuStreamCreateWithPriority(NULL, 0, 0));
}

/* The attributes of one stream, default or created. */
static void describe(const char *name, CUstream stream)
{
    unsigned int flags = 77;
    int priority = 77;
    CUcontext owner = NULL;
    CUdevice where = 77;
    int capturing = 77;

    CUresult result = cuStreamGetFlags(stream, &flags);
    fact(named("%s.flags", name), "%s, %u", result_name(result), flags);
    result = cuStreamGetPriority(stream, &priority);
    fact(named("%s.priority", name), "%s, %d", result_name(result), priority);
    result = cuStreamGetCtx(stream, &owner);
    fact(named("%s.context", name), "%s, %s", result_name(result),
         owner == context ? "the current" : "another");
    result = cuStreamGetDevice(stream, &where);
    fact(named("%s.device", name), "%s, %d", result_name(result), where);
    result = cuStreamIsCapturing(stream, &capturing);
    fact(named("%s.capturing", name), "%s, %d", result_name(result), capturing);
    fact_result(named("%s.query", name), cuStreamQuery(stream));
    fact_result(named("%s.synchronize", name), cuStreamSynchronize(stream));
}

static void describing(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);

    describe("null", NULL);
    describe("legacy", CU_STREAM_LEGACY);
    describe("per_thread", CU_STREAM_PER_THREAD);
    describe("made", stream);
    fact_result("flags.null_output", cuStreamGetFlags(stream, NULL));
    fact_result("priority.null_output", cuStreamGetPriority(stream, NULL));
    fact_result("context.null_output", cuStreamGetCtx(stream, NULL));
    fact_result("id.null_output", cuStreamGetId(stream, NULL));
    fact_result("capturing.null_output", cuStreamIsCapturing(stream, NULL));
    cuStreamDestroy(stream);
}

static void destroy_default(const char *name, CUstream stream)
{
    fact_result(named("destroy.%s", name), cuStreamDestroy(stream));
    fact_result(named("destroy.%s.query_after", name), cuStreamQuery(stream));
}

static void destroy_null(void)
{
    destroy_default("null", NULL);
}

static void destroy_legacy(void)
{
    destroy_default("legacy", CU_STREAM_LEGACY);
}

static void destroy_per_thread(void)
{
    destroy_default("per_thread", CU_STREAM_PER_THREAD);
}

static unsigned long long id_of(CUstream stream)
{
    unsigned long long id = 0;

    cuStreamGetId(stream, &id);
    return id;
}

static void ids(void)
{
    enum { N = 32 };
    CUstream s[N];
    bool unique = true, rising = true;
    unsigned long long highest = 0;

    fact_bool("id.null_as_legacy", id_of(NULL) == id_of(CU_STREAM_LEGACY));
    fact_bool("id.per_thread_as_legacy", id_of(NULL) == id_of(CU_STREAM_PER_THREAD));
    fact_bool("id.per_thread_steady",
              id_of(CU_STREAM_PER_THREAD) == id_of(CU_STREAM_PER_THREAD));
    for (int i = 0; i < N; i++) {
        s[i] = new_stream(i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
        for (int k = 0; k < i; k++)
            unique = unique && id_of(s[i]) != id_of(s[k]) && s[i] != s[k];
        rising = rising && id_of(s[i]) > highest;
        highest = id_of(s[i]);
    }
    fact_bool("id.unique", unique);
    fact_bool("id.rising", rising);
    for (int i = 0; i < N; i++)
        cuStreamDestroy(s[i]);
    CUstream next = new_stream(CU_STREAM_NON_BLOCKING);
    fact_bool("id.comes_back", id_of(next) <= highest);
    cuStreamDestroy(next);
}

/* A handle is reused at once, its id never. */
static void handles(void)
{
    int same = 0, id_again = 0;

    for (int i = 0; i < 50; i++) {
        CUstream a = new_stream(CU_STREAM_NON_BLOCKING);
        unsigned long long id = id_of(a);
        cuStreamDestroy(a);
        CUstream b = new_stream(CU_STREAM_NON_BLOCKING);
        same += a == b;
        id_again += id_of(b) == id;
        cuStreamDestroy(b);
    }
    fact("handle.reused_at_once", "%d of 50", same);
    fact("handle.id_again", "%d of 50", id_again);
}

static CUresult destroy_it(void *stream)
{
    return cuStreamDestroy(stream);
}

/* Destroying a stream with work returns at once, and the work is done all the same. */
static void destroyed_busy(void)
{
    CUdeviceptr a = block_of(256, 0);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate gate;
    CUresult result;

    gate_close(&gate, stream);
    cuMemsetD8Async(a, 5, 256, stream);
    bool waited = waits(destroy_it, stream, &gate, &result);
    fact("destroyed_busy", "%s, %s", waited ? "waits" : "does not wait",
         result_name(result));
    CUstream next = new_stream(CU_STREAM_NON_BLOCKING);
    fact_bool("destroyed_busy.next_has_its_handle", next == stream);
    fact_result("destroyed_busy.query_of_the_next", cuStreamQuery(next));
    fact("destroyed_busy.before", "%d", peek(a));
    gate_open(&gate);
    fact("destroyed_busy.after", "%d", peek(a));
    cuStreamDestroy(next);
    cuMemFree(a);
}

static void event_outlives(void)
{
    CUdeviceptr a = block_of(256, 0), b = block_of(256, 9);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream waiting = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    struct gate gate;

    gate_close(&gate, stream);
    cuMemsetD8Async(a, 5, 256, stream);
    cuEventRecord(event, stream);
    cuStreamDestroy(stream);
    fact_result("event_outlives.query", cuEventQuery(event));
    fact_result("event_outlives.wait", cuStreamWaitEvent(waiting, event, 0));
    cuMemcpyDtoDAsync(b, a, 256, waiting);
    gate_open(&gate);
    fact_result("event_outlives.query_after", cuEventQuery(event));
    fact("event_outlives.ordered_byte", "%d", peek(b));
    cuStreamDestroy(waiting);
    cuEventDestroy(event);
    cuMemFree(a);
    cuMemFree(b);
}

static void busy(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate gate;

    gate_close(&gate, stream);
    fact_result("query.busy", cuStreamQuery(stream));
    gate_open(&gate);
    fact_result("query.idle", cuStreamQuery(stream));
    cuStreamDestroy(stream);
}

/* --- calls that kill the process --- */

static CUstream destroyed_stream(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);

    cuStreamDestroy(stream);
    return stream;
}

static CUstream wrong(void)
{
    return (CUstream)(uintptr_t)0x1234560;
}

/* Each is a part of its own: the call with a destroyed stream, and with a wrong one. */
#define FATAL_CALL(name, call)             \
    static void gone_##name(void)          \
    {                                      \
        CUstream s = destroyed_stream();   \
        fact_result("gone." #name, call);  \
    }                                      \
    static void wrong_##name(void)         \
    {                                      \
        CUstream s = wrong();              \
        fact_result("wrong." #name, call); \
    }

#define FATAL_CALLS(X)                                             \
    X(cuStreamGetId, cuStreamGetId(s, &(unsigned long long){0}))   \
    X(cuStreamQuery, cuStreamQuery(s))                             \
    X(cuStreamSynchronize, cuStreamSynchronize(s))                 \
    X(cuStreamIsCapturing, cuStreamIsCapturing(s, &(int){0}))      \
    X(cuStreamGetFlags, cuStreamGetFlags(s, &(unsigned int){0}))   \
    X(cuStreamGetPriority, cuStreamGetPriority(s, &(int){0}))      \
    X(cuStreamGetCtx, cuStreamGetCtx(s, &(CUcontext){0}))          \
    X(cuStreamDestroy, cuStreamDestroy(s))                         \
    X(cuStreamWaitEvent, cuStreamWaitEvent(s, new_event(), 0))     \
    X(cuEventRecord, cuEventRecord(new_event(), s))                \
    X(cuMemsetD8Async, cuMemsetD8Async(block(256), 0, 256, s))     \
    X(cuMemAllocAsync, cuMemAllocAsync(&(CUdeviceptr){0}, 256, s)) \
    X(cuStreamBeginCapture, cuStreamBeginCapture(s, 0))            \
    X(cuLaunchHostFunc, cuLaunchHostFunc(s, free, NULL))
FATAL_CALLS(FATAL_CALL)
#undef FATAL_CALL

#define PART(name, call) \
    {"gone." #name, gone_##name, RISKY}, {"wrong." #name, wrong_##name, RISKY},
static const struct part parts[] = {
    {"making", making, TOGETHER},
    {"priorities", priorities, TOGETHER},
    {"describing", describing, TOGETHER},
    {"ids", ids, TOGETHER},
    {"handles", handles, TOGETHER},
    {"busy", busy, TOGETHER},
    {"destroyed_busy", destroyed_busy, TOGETHER},
    {"event_outlives", event_outlives, TOGETHER},
    {"destroy.null", destroy_null, RISKY},
    {"destroy.legacy", destroy_legacy, RISKY},
    {"destroy.per_thread", destroy_per_thread, RISKY},
    FATAL_CALLS(PART) END_OF_PARTS,
};
const struct theme theme_stream = {"stream", parts, true};
