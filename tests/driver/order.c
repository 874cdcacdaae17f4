/* order.c -- facts about the order of work on streams.
 *
 * Each fact is one question: while stream A is held by a gate, does work queued on stream
 * B run? If it does, cuStreamSynchronize(B) returns while the gate is closed, and the
 * fact prints `passes`. If it does not, that call hangs until the gate opens, and the
 * fact prints `is held`.
 */
#include "facts.h"

#include <pthread.h>

static CUresult synchronize_stream(void *stream)
{
    return cuStreamSynchronize(stream);
}

static CUresult synchronize_context(void *unused)
{
    (void)unused;
    return cuCtxSynchronize();
}

/* With `held` behind a gate: check whether a fill on `other`, queued after, runs. */
static void holds(const char *name, CUstream held, CUstream other)
{
    CUdeviceptr a = block_of(256, 0);
    struct gate gate;
    CUresult result;

    gate_close(&gate, held);
    cuMemsetD8Async(a, 5, 256, other);
    bool waited = waits(synchronize_stream, other, &gate, &result);
    fact(name, "%s, %s", waited ? "is held" : "passes", result_name(result));
    gate_open(&gate);
    cuMemFree(a);
}

static void between_streams(void)
{
    CUstream blocking = new_stream(CU_STREAM_DEFAULT),
             blocking2 = new_stream(CU_STREAM_DEFAULT);
    CUstream free_one = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream free_two = new_stream(CU_STREAM_NON_BLOCKING);

    holds("blocking_then_blocking", blocking, blocking2);
    holds("blocking_then_non_blocking", blocking, free_one);
    holds("non_blocking_then_blocking", free_one, blocking);
    holds("non_blocking_then_non_blocking", free_one, free_two);
    holds("legacy_then_blocking", NULL, blocking);
    holds("legacy_then_non_blocking", NULL, free_one);
    holds("legacy_then_legacy", CU_STREAM_LEGACY, NULL);
    holds("blocking_then_legacy", blocking, NULL);
    holds("blocking_then_legacy_handle", blocking, CU_STREAM_LEGACY);
    holds("non_blocking_then_legacy", free_one, NULL);
    cuStreamDestroy(blocking);
    cuStreamDestroy(blocking2);
    cuStreamDestroy(free_one);
    cuStreamDestroy(free_two);
}

/* Another thread's per-thread stream is another stream, so these are created in this
 * thread: the wait is by an event, for which any thread may wait. */
static CUresult synchronize_event(void *event)
{
    return cuEventSynchronize(event);
}

static void holds_by_event(const char *name, CUstream held, CUstream other)
{
    CUevent event = new_event();
    struct gate gate;
    CUresult result;

    gate_close(&gate, held);
    cuEventRecord(event, other);
    bool waited = waits(synchronize_event, event, &gate, &result);
    fact(name, "%s, %s", waited ? "is held" : "passes", result_name(result));
    gate_open(&gate);
    cuEventDestroy(event);
}

static void per_thread(void)
{
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    CUstream free_one = new_stream(CU_STREAM_NON_BLOCKING);

    holds_by_event("legacy_then_per_thread", NULL, CU_STREAM_PER_THREAD);
    holds_by_event("per_thread_then_legacy", CU_STREAM_PER_THREAD, NULL);
    holds_by_event("per_thread_then_blocking", CU_STREAM_PER_THREAD, blocking);
    holds_by_event("blocking_then_per_thread", blocking, CU_STREAM_PER_THREAD);
    holds_by_event("per_thread_then_non_blocking", CU_STREAM_PER_THREAD, free_one);
    holds_by_event("non_blocking_then_per_thread", free_one, CU_STREAM_PER_THREAD);
    holds_by_event("record_on_legacy_covers_blocking", blocking, NULL);
    holds_by_event("record_on_legacy_covers_non_blocking", free_one, NULL);
    cuStreamDestroy(blocking);
    cuStreamDestroy(free_one);
}

/* Query the default streams while others work. */
static void asking(const char *name, CUstream held)
{
    struct gate gate;

    gate_close(&gate, held);
    fact_result(named("%s.query_legacy", name), cuStreamQuery(NULL));
    fact_result(named("%s.query_per_thread", name), cuStreamQuery(CU_STREAM_PER_THREAD));
    fact_waits(named("%s.synchronize_legacy", name), synchronize_stream, NULL, &gate);
    gate_close(&gate, held);
    fact_waits(named("%s.synchronize_context", name), synchronize_context, NULL, &gate);
}

static void default_streams(void)
{
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    CUstream free_one = new_stream(CU_STREAM_NON_BLOCKING);

    asking("busy_blocking", blocking);
    asking("busy_non_blocking", free_one);
    asking("busy_legacy", NULL);
    asking("busy_per_thread", CU_STREAM_PER_THREAD);
    cuStreamDestroy(blocking);
    cuStreamDestroy(free_one);
}

/* A stream behind the legacy stream is busy, though it has no work itself. */
static void behind_legacy(void)
{
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    struct gate gate;

    gate_close(&gate, NULL);
    fact_result("query_of_an_empty_blocking_stream_while_legacy_works",
                cuStreamQuery(blocking));
    fact_waits("synchronize_an_empty_blocking_stream_while_legacy_works",
               synchronize_stream, blocking, &gate);
    cuStreamDestroy(blocking);
}

static void within_a_stream(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = block_of(MIB, 0), b = block_of(MIB, 0), c = block_of(MIB, 0);
    struct gate gate;

    gate_close(&gate, stream);
    cuMemsetD8Async(a, 1, MIB, stream);
    cuMemcpyDtoDAsync(b, a, MIB, stream);
    cuMemsetD8Async(a, 2, MIB, stream);
    cuMemcpyDtoDAsync(c, a, MIB, stream);
    cuMemsetD8Async(a, 3, MIB, stream);
    fact("within.before", "%d %d %d", peek(a), peek(b), peek(c));
    gate_open(&gate);
    fact("within.after", "%d %d %d", peek(a), peek(b), peek(c));
    fact_bool("within.all",
              all_are(a, MIB, 3) && all_are(b, MIB, 1) && all_are(c, MIB, 2));
    cuMemFree(a);
    cuMemFree(b);
    cuMemFree(c);
    cuStreamDestroy(stream);
}

/* A wait orders the work after it, and only on its stream. */
static void by_events(void)
{
    CUstream held = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream waiting = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = block_of(256, 0), b = block_of(256, 7), c = block_of(256, 7);
    CUevent event = new_event(), chain = new_event();
    struct gate gate;

    gate_close(&gate, held);
    cuMemsetD8Async(a, 5, 256, held);
    cuEventRecord(event, held);
    cuStreamWaitEvent(waiting, event, 0);
    cuMemcpyDtoDAsync(b, a, 256, waiting);
    cuEventRecord(chain, waiting);
    cuMemcpyDtoDAsync(c, a, 256, third);
    cuStreamSynchronize(third);
    fact("events.waits_for_nobody", "%d", peek(c));
    fact_result("events.query_of_the_waiting", cuStreamQuery(waiting));
    fact_result("events.query_of_the_chain", cuEventQuery(chain));
    cuStreamWaitEvent(third, chain, 0);
    cuMemcpyDtoDAsync(c, b, 256, third);
    gate_open(&gate);
    fact("events.waited", "%d", peek(b));
    fact("events.waited_through_two", "%d", peek(c));
    cuEventDestroy(event);
    cuEventDestroy(chain);
    cuMemFree(a);
    cuMemFree(b);
    cuMemFree(c);
    cuStreamDestroy(held);
    cuStreamDestroy(waiting);
    cuStreamDestroy(third);
}

/* The context's event covers every stream; a context's wait holds every stream. */
static void context_events(void)
{
    CUstream held = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream blocking = new_stream(CU_STREAM_DEFAULT);
    CUevent event = new_event();
    CUdeviceptr a = block_of(256, 0), b = block_of(256, 7);
    struct gate gate;

    gate_close(&gate, held);
    cuMemsetD8Async(a, 5, 256, held);
    fact_result("context.record", cuCtxRecordEvent(context, event));
    fact_result("context.query", cuEventQuery(event));
    fact_result("context.stream_waits", cuStreamWaitEvent(other, event, 0));
    cuMemcpyDtoDAsync(b, a, 256, other);
    gate_open(&gate);
    fact("context.ordered_byte", "%d", peek(b));
    fact_result("context.query_after", cuEventQuery(event));

    gate_close(&gate, held);
    cuStreamDestroy(held);
    fact_result("context.record_of_a_gone_stream", cuCtxRecordEvent(context, event));
    fact_result("context.query_of_a_gone_stream", cuEventQuery(event));
    fact_result("context.wait", cuCtxWaitEvent(context, event));
    cuMemsetD8Async(a, 6, 256, other);
    cuMemsetD8Async(b, 6, 256, blocking);
    fact_result("context.wait_holds_non_blocking", cuStreamQuery(other));
    fact_result("context.wait_holds_blocking", cuStreamQuery(blocking));
    gate_open(&gate);
    fact_result("context.record_null_context", cuCtxRecordEvent(NULL, event));
    fact_result("context.record_null_event", cuCtxRecordEvent(context, NULL));
    fact_result("context.wait_null_event", cuCtxWaitEvent(context, NULL));
    cuEventDestroy(event);
    cuMemFree(a);
    cuMemFree(b);
    cuStreamDestroy(other);
    cuStreamDestroy(blocking);
}

/* Two legacy operations with a blocking stream's work between them, shown by bytes. */
static void legacy_as_barrier(unsigned int flags, const char *name)
{
    CUstream first = new_stream(flags), second = new_stream(flags);
    CUdeviceptr a = block_of(256, 1), b = block_of(256, 0), c = block_of(256, 0);
    struct gate gate;

    gate_close(&gate, first);
    cuMemsetD8Async(a, 2, 256, first);
    cuMemcpyDtoDAsync(b, a, 256, NULL);
    cuMemsetD8Async(a, 3, 256, NULL);
    cuMemcpyDtoDAsync(c, a, 256, second);
    if (flags == CU_STREAM_NON_BLOCKING) { /* check that they ran before the gate opens */
        cuStreamSynchronize(NULL);
        cuStreamSynchronize(second);
    }
    fact(named("barrier.%s.before", name), "%d then %s", peek(b),
         flags == CU_STREAM_NON_BLOCKING ? "anything"
         : peek(c)                       ? "done"
                                         : "0");
    gate_open(&gate);
    fact(named("barrier.%s.after", name), "%d then %s", peek(b),
         flags == CU_STREAM_NON_BLOCKING ? "anything"
         : peek(c) == 3                  ? "3"
                                         : "wrong");
    cuMemFree(a);
    cuMemFree(b);
    cuMemFree(c);
    cuStreamDestroy(first);
    cuStreamDestroy(second);
}

static void barriers(void)
{
    legacy_as_barrier(CU_STREAM_DEFAULT, "blocking");
    legacy_as_barrier(CU_STREAM_NON_BLOCKING, "non_blocking");
}

struct leaving {
    struct gate gate;
    CUdeviceptr pointer;
    unsigned long long id;
};

static void *leave_work(void *data)
{
    struct leaving *leaving = data;

    cuCtxSetCurrent(context);
    cuStreamGetId(CU_STREAM_PER_THREAD, &leaving->id);
    gate_close(&leaving->gate, CU_STREAM_PER_THREAD);
    cuMemsetD8Async(leaving->pointer, 5, 256, CU_STREAM_PER_THREAD);
    return NULL;
}

/* A thread ends with work on its per-thread stream. */
static void gone_thread(void)
{
    struct leaving leaving = {.pointer = block_of(256, 0)};
    unsigned long long mine = 0;
    pthread_t thread;

    pthread_create(&thread, NULL, leave_work, &leaving);
    pthread_join(thread, NULL);
    cuStreamGetId(CU_STREAM_PER_THREAD, &mine);
    fact("gone_thread.before", "%d", peek(leaving.pointer));
    fact_result("gone_thread.query_of_mine", cuStreamQuery(CU_STREAM_PER_THREAD));
    gate_open(&leaving.gate);
    fact("gone_thread.after", "%d", peek(leaving.pointer));
    fact_bool("gone_thread.id_was_mine", mine == leaving.id);
    cuMemFree(leaving.pointer);
}

static const struct part parts[] = {
    {"within_a_stream", within_a_stream, TOGETHER},
    {"between_streams", between_streams, TOGETHER},
    {"per_thread", per_thread, TOGETHER},
    {"default_streams", default_streams, TOGETHER},
    {"behind_legacy", behind_legacy, TOGETHER},
    {"by_events", by_events, TOGETHER},
    {"barriers", barriers, TOGETHER},
    {"context_events", context_events, TOGETHER},
    {"gone_thread", gone_thread, TOGETHER},
    END_OF_PARTS,
};
const struct theme theme_order = {"order", parts, true};
