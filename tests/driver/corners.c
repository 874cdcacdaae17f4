/* corners.c -- facts about the limits of captures, default streams during one, resets,
 * device-wide waits. */
#include "facts.h"

static const char *const modes[] = {"global", "thread_local", "relaxed"};

static int capturing(CUstream stream)
{
    int status = 77;

    cuStreamIsCapturing(stream, &status);
    return status;
}

/* End a capture and destroy the graph; print the result and the number of nodes. */
static CUresult end(CUstream stream, size_t *nodes)
{
    CUgraph graph = NULL;
    CUresult result = cuStreamEndCapture(stream, &graph);

    *nodes = 0;
    if (graph) {
        cuGraphGetNodes(graph, NULL, nodes);
        cuGraphDestroy(graph);
    }
    return result;
}

static CUresult end_quietly(CUstream stream)
{
    size_t nodes;

    return end(stream, &nodes);
}

/* A capturing stream waits for an event recorded before the capture. */
static void wait_across(int mode, bool pending, bool own)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    struct gate gate = {.open = true};
    size_t nodes;

    if (pending)
        gate_close(&gate, own ? stream : other);
    cuEventRecord(event, own ? stream : other);
    if (!pending)
        cuCtxSynchronize();
    cuStreamBeginCapture(stream, mode);
    CUresult wait = cuStreamWaitEvent(stream, event, 0);
    int status = capturing(stream);
    CUresult ended = end(stream, &nodes);
    fact(named("wait_across.%s.%s.%s", modes[mode], pending ? "pending" : "done",
               own ? "own_stream" : "another_stream"),
         "%s, status %d, end %s, %zu nodes", result_name(wait), status,
         result_name(ended), nodes);
    gate_open(&gate);
    cuEventDestroy(event);
    cuStreamDestroy(stream);
    cuStreamDestroy(other);
}

static void waits_across(void)
{
    for (int mode = 0; mode < 3; mode++)
        for (int i = 0; i < 4; i++)
            wait_across(mode, i / 2, i % 2);
}

/* The reverse: a stream outside waits for an event of the capture, and joins it. */
static void joining(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    size_t nodes;

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    fact_result("join.record", cuEventRecord(event, stream));
    fact_result("join.wait", cuStreamWaitEvent(other, event, 0));
    fact("join.other_is_capturing", "%d", capturing(other));
    fact_result("join.query_of_the_event", cuEventQuery(event));
    fact_result("join.synchronize_the_event", cuEventSynchronize(event));
    fact_result("join.end_on_the_other", end(other, &nodes));
    CUresult ended = end(stream, &nodes);
    fact("join.end_without_joining_back", "%s, %zu nodes", result_name(ended), nodes);
    fact("join.other_afterwards", "%d", capturing(other));
    fact_result("join.query_afterwards", cuEventQuery(event));
    fact_result("join.wait_afterwards", cuStreamWaitEvent(other, event, 0));
    cuEventDestroy(event);
    cuStreamDestroy(stream);
    cuStreamDestroy(other);
}

static void joining_back(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent out = new_event(), back = new_event();
    CUdeviceptr a = block_of(256, 0);
    size_t nodes;

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuEventRecord(out, stream);
    cuStreamWaitEvent(other, out, 0);
    cuMemsetD8Async(a, 5, 256, other);
    cuEventRecord(back, other);
    fact_result("join_back.wait", cuStreamWaitEvent(stream, back, 0));
    cuMemsetD8Async(a, 6, 256, stream);
    CUresult ended = end(stream, &nodes);
    fact("join_back.end", "%s, %zu nodes", result_name(ended), nodes);
    fact("join_back.other_afterwards", "%d", capturing(other));
    fact("join_back.nothing_ran", "%d", peek(a));
    cuEventDestroy(out);
    cuEventDestroy(back);
    cuMemFree(a);
    cuStreamDestroy(stream);
    cuStreamDestroy(other);
}

/* An event that another thread recorded on a stream while that was in a capture, which has
 * ended well since. */
static void event_of_an_ended_capture(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream third = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent out = new_event(), back = new_event(), inside = new_event();
    CUdeviceptr a = block_of(256, 0);
    CUgraph graph = NULL;

    cuEventRecord(inside, other); /* it was an ordinary event before */
    cuStreamSynchronize(other);
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    cuEventRecord(out, stream);
    cuStreamWaitEvent(other, out, 0);
    cuMemsetD8Async(a, 5, 256, other);
    fact_result("ended_event.record", cuEventRecord(inside, other));
    cuEventRecord(back, other);
    cuStreamWaitEvent(stream, back, 0);
    fact_result("ended_event.end", cuStreamEndCapture(stream, &graph));
    fact_result("ended_event.query", cuEventQuery(inside));
    fact_result("ended_event.synchronize", cuEventSynchronize(inside));
    fact_result("ended_event.wait", cuStreamWaitEvent(third, inside, 0));
    fact("ended_event.waiter_captures", "%d", capturing(third));
    fact_result("ended_event.use_of_the_waiter", cuMemsetD8Async(a, 6, 256, third));
    cuGraphDestroy(graph);
    fact_result("ended_event.query_without_graph", cuEventQuery(inside));
    fact_result("ended_event.wait_without_graph", cuStreamWaitEvent(third, inside, 0));
    cuStreamBeginCapture(third, CU_STREAM_CAPTURE_MODE_RELAXED);
    fact_result("ended_event.query_beside_a_capture", cuEventQuery(inside));
    fact("ended_event.capture_after_the_query", "%d", capturing(third));
    fact_result("ended_event.end_of_that", end_quietly(third));
    fact_result("ended_event.record_again", cuEventRecord(inside, other));
    fact_result("ended_event.synchronize_then", cuEventSynchronize(inside));
    fact_result("ended_event.query_then", cuEventQuery(inside));
    cuEventDestroy(out);
    cuEventDestroy(back);
    cuEventDestroy(inside);
    cuMemFree(a);
    cuStreamDestroy(stream);
    cuStreamDestroy(other);
    cuStreamDestroy(third);
}

static void unjoined_work(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent out = new_event();
    CUdeviceptr a = block_of(256, 0);

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    cuEventRecord(out, stream);
    cuStreamWaitEvent(other, out, 0);
    cuMemsetD8Async(a, 5, 256, other);
    fact_result("unjoined.end", end_quietly(stream));
    fact("unjoined.other_afterwards", "%d", capturing(other));
    fact_result("unjoined.use_of_the_other", cuMemsetD8Async(a, 6, 256, other));
    cuEventDestroy(out);
    cuMemFree(a);
    cuStreamDestroy(stream);
    cuStreamDestroy(other);
}

static void destroyed_joined(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    cuEventRecord(event, stream);
    cuStreamWaitEvent(other, event, 0);
    fact_result("destroyed_joined", cuStreamDestroy(other));
    CUstream next = new_stream(CU_STREAM_NON_BLOCKING);
    fact_bool("destroyed_joined.next_has_its_handle", next == other);
    fact("destroyed_joined.next_is_capturing", "%d", capturing(next));
    fact_result("destroyed_joined.end", end_quietly(stream));
    cuEventDestroy(event);
    cuStreamDestroy(stream);
    cuStreamDestroy(next);
}

static void destroyed_capturing(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    fact_result("destroyed_capturing", cuStreamDestroy(stream));
    CUstream next = new_stream(CU_STREAM_NON_BLOCKING);
    fact_bool("destroyed_capturing.next_has_its_handle", next == stream);
    fact("destroyed_capturing.next_is_capturing", "%d", capturing(next));
    fact_result("destroyed_capturing.synchronize", cuCtxSynchronize());
    cuStreamDestroy(next);
}

/* --- default streams while another captures --- */

static void default_during(unsigned int flags, int which)
{
    static const char *const names[] = {"cuStreamGetId", "cuStreamIsCapturing",
                                        "cuStreamWaitEvent", "cuEventRecord",
                                        "cuStreamGetId_per_thread"};
    CUstream stream = new_stream(flags);
    CUevent event = new_event();
    unsigned long long id = 0;
    int status = 9;
    CUresult result;

    cuEventRecord(event, NULL);
    cuCtxSynchronize();
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    result = which == 0   ? cuStreamGetId(NULL, &id)
             : which == 1 ? cuStreamIsCapturing(NULL, &status)
             : which == 2 ? cuStreamWaitEvent(NULL, event, 0)
             : which == 3 ? cuEventRecord(event, NULL)
                          : cuStreamGetId(CU_STREAM_PER_THREAD, &id);
    CUresult ended = end_quietly(stream);
    fact(named("default.while_%s_captures.%s", flags ? "non_blocking" : "blocking",
               names[which]),
         "%s, id %s, status %d, end %s", result_name(result), id ? "given" : "0", status,
         result_name(ended));
    cuEventDestroy(event);
    cuStreamDestroy(stream);
}

static void defaults(void)
{
    for (unsigned int flags = 0; flags < 2; flags++)
        for (int which = 0; which < 5; which++)
            default_during(flags, which);
}

/* Capturing the default streams. */
static void capture_default(const char *name, CUstream stream)
{
    for (int mode = 0; mode < 3; mode++) {
        CUresult begun = cuStreamBeginCapture(stream, mode);
        fact_result(named("begin.%s.%s", name, modes[mode]), begun);
        if (begun == CUDA_SUCCESS)
            fact_result(named("end.%s.%s", name, modes[mode]), end_quietly(stream));
    }
}

static void beginning(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = (CUgraph)(uintptr_t)77;
    struct gate gate;

    capture_default("null", NULL);
    capture_default("legacy", CU_STREAM_LEGACY);
    capture_default("per_thread", CU_STREAM_PER_THREAD);
    fact_result("begin.mode_3", cuStreamBeginCapture(stream, 3));
    fact_output("end.not_begun", cuStreamEndCapture(stream, &graph), graph == (void *)77);
    fact_result("begin", cuStreamBeginCapture(stream, 0));
    fact_result("begin.twice", cuStreamBeginCapture(stream, 0));
    fact("begin.twice.status", "%d", capturing(stream));
    fact_result("end.null_output", cuStreamEndCapture(stream, NULL));
    fact("end.null_output.status", "%d", capturing(stream));
    cuStreamEndCapture(stream, &graph);
    gate_close(&gate, stream);
    fact_result("begin.busy", cuStreamBeginCapture(stream, 0));
    graph = NULL;
    CUresult ended = cuStreamEndCapture(stream, &graph);
    fact("end.empty", "%s, %s", result_name(ended), graph ? "a graph" : "NULL");
    if (graph)
        cuGraphDestroy(graph);
    gate_open(&gate);
    cuStreamDestroy(stream);
}

static void asking(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    const CUgraphNode *nodes = NULL;
    CUdeviceptr a = block_of(256, 0);
    CUgraph graph = NULL;
    uint64_t id = 0, next_id = 0;
    size_t count = 77;
    int status = 77;

    CUresult result =
        cuStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &count);
    fact("info.before", "%s, status %d", result_name(result), status);
    cuStreamBeginCapture(stream, 2);
    fact("info.capturing", "%d", capturing(stream));
    cuStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &count);
    fact("info.empty", "status %d, %s id, %s, %zu nodes", status, id ? "an" : "no",
         graph ? "a graph" : "no graph", count);
    cuMemsetD8Async(a, 5, 256, stream);
    cuStreamGetCaptureInfo(stream, &status, &next_id, &graph, &nodes, &count);
    fact("info.one_node", "status %d, %s id, %zu nodes", status,
         id == next_id ? "same" : "another", count);
    fact_result("info.null_status",
                cuStreamGetCaptureInfo(stream, NULL, &id, NULL, NULL, NULL));
    cuStreamQuery(stream);
    fact("info.lost", "%d", capturing(stream));
    CUresult lost = cuStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &count);
    fact("info.of_lost", "%s, status %d", result_name(lost), status);
    fact_result("lost.memset", cuMemsetD8Async(a, 6, 256, stream));
    fact_result("lost.record", cuEventRecord(new_event(), stream));
    fact_result("lost.query", cuStreamQuery(stream));
    fact_result("lost.id", cuStreamGetId(stream, &(unsigned long long){0}));
    fact_result("lost.host_function_on_legacy", cuEventRecord(new_event(), NULL));
    fact_result("lost.alloc", cuMemAlloc(&(CUdeviceptr){0}, 256));
    graph = (CUgraph)(uintptr_t)77;
    lost = cuStreamEndCapture(stream, &graph);
    fact("lost.end", "%s, graph %s", result_name(lost),
         !graph                ? "NULL"
         : graph == (void *)77 ? "kept"
                               : "given");
    fact("lost.after_end", "%d", capturing(stream));
    fact_result("lost.good_again", cuMemsetD8Async(a, 7, 256, stream));
    cuStreamBeginCapture(stream, 2);
    cuStreamGetCaptureInfo(stream, &status, &next_id, NULL, NULL, NULL);
    fact_bool("info.id_is_new", next_id > id);
    end_quietly(stream);
    cuMemFree(a);
    cuStreamDestroy(stream);
}

/* The answers of a stream after its capture is lost. Also those of the legacy stream, if
 * it was a blocking stream's capture. */
static void lost_questions(void)
{
    CUstream stream = new_stream(0), other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    CUdeviceptr a = block_of(256, 0), b = 0;
    CUcontext owner;
    CUdevice where;
    unsigned int flags;
    int priority;

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    cuMemsetD8Async(a, 5, 256, stream);
    cuStreamQuery(stream);
    cuStreamGetId(stream, &(unsigned long long){0});
    fact("lost.state", "%d", capturing(stream));
    fact_result("lost.GetCtx", cuStreamGetCtx(stream, &owner));
    fact_result("lost.GetDevice", cuStreamGetDevice(stream, &where));
    fact_result("lost.GetFlags", cuStreamGetFlags(stream, &flags));
    fact_result("lost.GetPriority", cuStreamGetPriority(stream, &priority));
    fact_result("lost.WaitEvent", cuStreamWaitEvent(stream, event, 0));
    fact_result("lost.Synchronize", cuStreamSynchronize(stream));
    fact_result("lost.MemAllocAsync", cuMemAllocAsync(&b, 256, stream));
    fact_result("lost.MemcpyAsync", cuMemcpyDtoDAsync(a, a, 128, stream));
    fact_result("lost.BeginCapture", cuStreamBeginCapture(stream, 2));
    fact("lost.blocking.legacy_is_capturing", "%d", capturing(NULL));
    fact_result("lost.blocking.record_on_legacy", cuEventRecord(event, NULL));
    fact_result("lost.blocking.another_stream", cuMemsetD8Async(a, 6, 256, other));
    fact_result("lost.Destroy", cuStreamDestroy(stream));
    fact_result("lost.destroyed.context", cuCtxSynchronize());
    cuEventDestroy(event);
    cuMemFree(a);
    cuStreamDestroy(other);
}

/* --- threads that may end a capture, and two captures that meet --- */

static CUresult end_in_thread(void *stream)
{
    return end_quietly(stream);
}

static void other_thread_ends(void)
{
    for (int mode = 0; mode < 3; mode++) {
        CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
        cuStreamBeginCapture(stream, mode);
        CUresult result = in_thread(end_in_thread, stream);
        int status = capturing(stream);
        fact(named("end_by_another_thread.%s", modes[mode]), "%s, status %d, then %s",
             result_name(result), status,
             status ? result_name(end_quietly(stream)) : "nothing");
        cuStreamDestroy(stream);
    }
}

static void meeting(void)
{
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING),
             b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();

    cuStreamBeginCapture(a, 2);
    cuStreamBeginCapture(b, 2);
    cuEventRecord(event, a);
    fact_result("meet.wait", cuStreamWaitEvent(b, event, 0));
    fact("meet.status", "%d and %d", capturing(a), capturing(b));
    fact_result("meet.end_first", end_quietly(a));
    fact_result("meet.end_second", end_quietly(b));
    cuEventDestroy(event);
    cuStreamDestroy(a);
    cuStreamDestroy(b);
}

static void legacy_waits(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();

    cuStreamBeginCapture(stream, 2);
    cuEventRecord(event, stream);
    fact_result("legacy_waits_for_captured_event", cuStreamWaitEvent(NULL, event, 0));
    fact_result("legacy_waits_for_captured_event.end", end_quietly(stream));
    cuEventDestroy(event);
    cuStreamDestroy(stream);
}

static void event_reused(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();

    cuStreamBeginCapture(stream, 2);
    cuEventRecord(event, stream);
    fact_result("captured_event.record_elsewhere", cuEventRecord(event, other));
    fact_result("captured_event.query_then", cuEventQuery(event));
    fact_result("captured_event.destroy",
                (cuEventRecord(event, stream), cuEventDestroy(event)));
    fact_result("captured_event.end", end_quietly(stream));
    cuStreamDestroy(stream);
    cuStreamDestroy(other);
}

/* An event recorded in a capture, then on a busy stream outside of it: does the end of the
 * capture change it? */
static void event_reused_on_busy_stream(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream busy = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream waiter = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    CUdeviceptr a = block_of(256, 0);
    struct gate gate;

    gate_close(&gate, busy);
    cuMemsetD8Async(a, 1, 256, busy);
    cuStreamBeginCapture(stream, 2);
    cuEventRecord(event, stream);
    fact_result("reused_event.record_on_busy", cuEventRecord(event, busy));
    fact_result("reused_event.query", cuEventQuery(event));
    fact_result("reused_event.end", end_quietly(stream));
    fact_result("reused_event.query_after_the_end", cuEventQuery(event));
    fact_result("reused_event.wait_after_the_end", cuStreamWaitEvent(waiter, event, 0));
    cuMemsetD8Async(a, 2, 256, waiter);
    fact_result("reused_event.waiter", cuStreamQuery(waiter));
    gate_open(&gate);
    fact("reused_event.last_write", "%d", peek(a));
    fact_result("reused_event.query_in_the_end", cuEventQuery(event));
    cuEventDestroy(event);
    cuMemFree(a);
    cuStreamDestroy(stream);
    cuStreamDestroy(busy);
    cuStreamDestroy(waiter);
}

/* --- thread modes --- */

static void exchanging(void)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    fact_result("exchange", cuThreadExchangeStreamCaptureMode(&mode));
    fact("exchange.first_was", "%d", mode);
    mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    cuThreadExchangeStreamCaptureMode(&mode);
    fact("exchange.then_was", "%d", mode);
    mode = 3;
    CUresult result = cuThreadExchangeStreamCaptureMode(&mode);
    fact("exchange.mode_3", "%s, %d", result_name(result), mode);
    fact_result("exchange.null", cuThreadExchangeStreamCaptureMode(NULL));
    mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    cuThreadExchangeStreamCaptureMode(&mode);
    fact("exchange.before_that", "%d", mode);
}

static CUresult exchange_in_thread(void *unused)
{
    int mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

    (void)unused;
    cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static void exchange_is_a_threads_own(void)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    cuThreadExchangeStreamCaptureMode(&mode);
    fact("exchange.in_another_thread_was", "%d", in_thread(exchange_in_thread, NULL));
    cuThreadExchangeStreamCaptureMode(&mode);
}

/* The result of an unsafe call by the capture's mode, the caller's thread mode, and the
 * thread: capture mode / thread mode of the caller / same or another thread. */
struct unsafe {
    int thread_mode;
};

static CUresult unsafe_call(void *data)
{
    struct unsafe *unsafe = data;
    int mode = unsafe->thread_mode;
    CUdeviceptr pointer = 0;

    cuThreadExchangeStreamCaptureMode(&mode);
    CUresult result = cuMemAlloc(&pointer, MIB);
    cuThreadExchangeStreamCaptureMode(&mode); /* the memory stays: a free is unsafe too */
    return result;
}

static void unsafe_calls(void)
{
    for (int i = 0; i < 18; i++) {
        int mode = i / 6;
        struct unsafe unsafe = {i / 2 % 3};
        CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
        cuStreamBeginCapture(stream, mode);
        CUresult result = i % 2 ? in_thread(unsafe_call, &unsafe) : unsafe_call(&unsafe);
        CUresult ended = end_quietly(stream);
        fact(named("unsafe.%s_capture.%s_thread.%s", modes[mode],
                   modes[unsafe.thread_mode], i % 2 ? "another" : "same"),
             "%s, end %s", result_name(result), result_name(ended));
        cuStreamDestroy(stream);
    }
}

/* Check whether a lost capture still blocks unsafe calls until it is ended. */
static CUresult wait_for_legacy(void *unused)
{
    (void)unused;
    return cuStreamSynchronize(CU_STREAM_LEGACY);
}

static CUresult wait_for_context(void *unused)
{
    (void)unused;
    return cuCtxSynchronize();
}

static CUresult allocate(void *unused)
{
    CUdeviceptr pointer = 0;

    (void)unused;
    return cuMemAlloc(&pointer, MIB); /* the memory stays */
}

static CUresult record_context(void *event)
{
    return cuCtxRecordEvent(context, event);
}

static void after_a_loss(void)
{
    CUevent event = new_event();
    const struct {
        const char *name;
        CUresult (*call)(void *);
    } calls[] = {{"cuStreamSynchronize_legacy", wait_for_legacy},
                 {"cuCtxSynchronize", wait_for_context},
                 {"cuMemAlloc", allocate},
                 {"cuCtxRecordEvent", record_context}};

    for (int i = 0; i < 24; i++) {
        int at = i / 6, mode = i / 2 % 3;
        CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
        cuStreamBeginCapture(stream, mode);
        CUresult first = cuCtxSynchronize();
        CUresult then = i % 2 ? in_thread(calls[at].call, event) : calls[at].call(event);
        CUresult ended = end_quietly(stream);
        fact(named("lost_before.%s_capture.%s.%s", modes[mode], calls[at].name,
                   i % 2 ? "another" : "same"),
             "%s, then %s, end %s", result_name(first), result_name(then),
             result_name(ended));
        cuStreamDestroy(stream);
    }
    cuEventDestroy(event);
}

/* --- device-wide waits and reset --- */

static CUresult barrier(void *unused)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr pointer = 0;

    (void)unused;
    cuThreadExchangeStreamCaptureMode(&mode);
    CUresult result = cuMemAlloc(&pointer, 2 * MIB);
    if (result == CUDA_SUCCESS)
        result = cuMemFree(pointer);
    cuThreadExchangeStreamCaptureMode(&mode);
    return result;
}

static void barriers(void)
{
    CUstream busy = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    struct gate gate;

    gate_close(&gate, busy);
    fact_waits("barrier.busy_stream", barrier, NULL, &gate);
    gate_close(&gate, busy);
    cuStreamDestroy(busy);
    fact_waits("barrier.destroyed_busy_stream", barrier, NULL, &gate);
    busy = new_stream(CU_STREAM_NON_BLOCKING);
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    gate_close(&gate, busy);
    CUresult result;
    bool waited = waits(barrier, NULL, &gate, &result);
    atomic_store(&gate.open, true); /* no cuCtxSynchronize: it would end the capture */
    fact("barrier.during_a_capture", "%s, %s, end %s", waited ? "waits" : "does not wait",
         result_name(result), result_name(end_quietly(stream)));
    cuStreamDestroy(busy);
    cuStreamDestroy(stream);
}

/* Streams and events from before are not queried: that is an error in one run and kills
 * the process in another. */
static void reset(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING), next;
    CUdeviceptr old = block(MIB), fresh = 0;
    struct range r = vmm_range(2 * MIB);
    unsigned long long id = 0, next_id = 0;
    CUcontext current = NULL, again = NULL;
    unsigned int flags = 77;
    int active = 77;

    cuStreamGetId(stream, &id);
    fact_result("reset.bad_device", cuDevicePrimaryCtxReset(99));
    fact_result("reset", cuDevicePrimaryCtxReset(device));
    CUresult result = cuDevicePrimaryCtxGetState(device, &flags, &active);
    fact("reset.state", "%s, flags %u, active %d", result_name(result), flags, active);
    result = cuCtxGetCurrent(&current);
    fact("reset.current", "%s, %s", result_name(result),
         current == context ? "same"
         : current          ? "another"
                            : "NULL");
    fact_result("reset.alloc_before_retain", cuMemAlloc(&fresh, 256));
    fact_result("reset.retain", cuDevicePrimaryCtxRetain(&again, device));
    fact_bool("reset.same_handle", again == context);
    cuCtxSetCurrent(again);
    next = (CUstream)(uintptr_t)77;
    fact_result("reset.stream_create", cuStreamCreate(&next, CU_STREAM_NON_BLOCKING));
    cuStreamGetId(next, &next_id);
    fact_bool("reset.ids_go_on", next_id > id);
    fact_result("reset.free_old_memory", cuMemFree(old));
    fact_result("reset.memset_on_old_vmm", cuMemsetD8(r.pointer, 1, MIB));
    fact_result("reset.synchronize", cuCtxSynchronize());
    fact_result("reset.unmap", cuMemUnmap(r.pointer, 2 * MIB));
    fact_result("reset.release", cuMemRelease(r.handle));
    fact_result("reset.address_free", cuMemAddressFree(r.pointer, 2 * MIB));
    fact_result("reset.alloc", cuMemAlloc(&fresh, 256));
    fact_result("reset.free", cuMemFree(fresh));
    fact_result("reset.release_primary", cuDevicePrimaryCtxRelease(device));
    fact_result("reset.release_primary_again", cuDevicePrimaryCtxRelease(device));
}

static void reset_pinned(void)
{
    unsigned char *pin = pinned(4096);
    unsigned int flags;

    cuDevicePrimaryCtxReset(device);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    fact_result("reset_pinned.flags", cuMemHostGetFlags(&flags, pin));
    fact_result("reset_pinned.free", cuMemFreeHost(pin));
}

static void reset_pool(void)
{
    CUmemoryPool pool = NULL, again = NULL;
    CUdeviceptr pointer = 0;

    cuDeviceGetDefaultMemPool(&pool, device);
    cuMemAllocAsync(&pointer, 4096, NULL);
    cuStreamSynchronize(NULL);
    cuDevicePrimaryCtxReset(device);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    cuDeviceGetDefaultMemPool(&again, device);
    fact_bool("reset_pool.same_handle", pool == again);
    fact_result("reset_pool.free_old", cuMemFreeAsync(pointer, NULL));
    fact_result("reset_pool.alloc", cuMemAllocAsync(&pointer, 4096, NULL));
    fact_result("reset_pool.synchronize", cuCtxSynchronize());
}

static const struct part parts[] = {
    {"waits_across", waits_across, TOGETHER},
    {"joining", joining, TOGETHER},
    {"joining_back", joining_back, TOGETHER},
    {"unjoined_work", unjoined_work, TOGETHER},
    {"destroyed_joined", destroyed_joined, TOGETHER},
    {"defaults", defaults, TOGETHER},
    {"beginning", beginning, TOGETHER},
    {"asking", asking, TOGETHER},
    {"event_of_an_ended_capture", event_of_an_ended_capture, RISKY},
    {"lost_questions", lost_questions, RISKY},
    {"other_thread_ends", other_thread_ends, TOGETHER},
    {"meeting", meeting, TOGETHER},
    {"exchanging", exchanging, TOGETHER},
    {"exchange_is_a_threads_own", exchange_is_a_threads_own, TOGETHER},
    {"unsafe_calls", unsafe_calls, TOGETHER},
    {"after_a_loss", after_a_loss, TOGETHER},
    {"barriers", barriers, TOGETHER},
    {"legacy_waits", legacy_waits, TOGETHER},
    {"event_reused", event_reused, RISKY},
    {"event_reused_on_busy_stream", event_reused_on_busy_stream, RISKY},
    {"destroyed_capturing", destroyed_capturing, RISKY},
    {"reset_pinned", reset_pinned, RISKY},
    {"reset_pool", reset_pool, RISKY},
    {"reset", reset, RISKY}, /* it leaves no context */
    END_OF_PARTS,
};
const struct theme theme_corners = {"corners", parts, true};
