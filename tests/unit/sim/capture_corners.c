/* Test the limits of captures, default streams during a capture, and a reset context,
 * against the lines that an H200 printed. */
#include "driver.h"
#include "output.h"
#include <sched.h>
#include <stdatomic.h>

static const char *const modes[] = {"global", "thread-local", "relaxed"};

static CUstream new_stream(unsigned flags)
{
    CUstream stream;

    CU(cuStreamCreate(&stream, flags));
    return stream;
}

static CUevent new_event(void)
{
    CUevent event;

    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static CUresult end_quietly(CUstream stream, size_t *nodes)
{
    CUgraph graph = NULL;
    CUresult result = driver.cuStreamEndCapture(stream, &graph);

    *nodes = 0;
    if (graph) {
        CU(cuGraphGetNodes(graph, NULL, nodes));
        CU(cuGraphDestroy(graph));
    }
    return result;
}

static void block_stream(void *open)
{
    while (!atomic_load((atomic_bool *)open))
        sched_yield();
}

static void wait_across(int mode, bool pending, bool own)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    atomic_bool open = !pending;
    size_t nodes;

    CU(cuLaunchHostFunc(own ? stream : other, block_stream, &open));
    CU(cuEventRecord(event, own ? stream : other));
    if (!pending)
        CU(cuCtxSynchronize());
    CU(cuStreamBeginCapture_v2(stream, mode));
    CUresult wait = driver.cuStreamWaitEvent(stream, event, 0);
    CUresult end = end_quietly(stream, &nodes);
    print_output(
        "capturing stream waits for an event recorded before the capture on %s stream, "
        "%s, %s: %d, end %d, nodes %zu\n",
        own ? "its own" : "another", pending ? "pending" : "done", modes[mode], wait, end,
        nodes);
    atomic_store(&open, true);
    CU(cuCtxSynchronize());
    CU(cuEventDestroy_v2(event));
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
}

static void join_and_query(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    size_t nodes;
    int status;

    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUresult record = driver.cuEventRecord(event, stream);
    CUresult wait = driver.cuStreamWaitEvent(other, event, 0);
    CU(cuStreamIsCapturing(other, &status));
    CUresult query = driver.cuEventQuery(event);
    print_output(
        "event recorded on a capturing stream (%d): another stream waits for it: %d, "
        "that stream is now capturing: %d, query of the event %d, ",
        record, wait, status, query);
    print_output("end of capture without joining back: %d\n",
                 end_quietly(stream, &nodes));
    CU(cuEventDestroy_v2(event));
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
}

static void destroy_joined(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    size_t nodes;
    int status;

    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuEventRecord(event, stream));
    CU(cuStreamWaitEvent(other, event, 0));
    CUresult destroyed = driver.cuStreamDestroy_v2(other);
    CUstream next = new_stream(CU_STREAM_NON_BLOCKING);
    CU(cuStreamIsCapturing(next, &status));
    print_output(
        "joined stream destroyed during the capture: %d; a new stream has its handle: "
        "%d, capturing: %d, end %d\n",
        destroyed, next == other, status, end_quietly(stream, &nodes));
    CU(cuEventDestroy_v2(event));
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(next));
}

struct query_results {
    unsigned long long id;
    int status;
};

static CUresult query_default(int which, CUevent event,
                              struct query_results *query_results)
{
    switch (which) {
    case 0:
        return driver.cuStreamGetId(NULL, &query_results->id);
    case 1:
        return driver.cuStreamIsCapturing(NULL, &query_results->status);
    case 2:
        return driver.cuStreamWaitEvent(NULL, event, 0);
    case 3:
        return driver.cuEventRecord(event, NULL);
    }
    return driver.cuStreamGetId(CU_STREAM_PER_THREAD, &query_results->id);
}

/* Outputs without an answer are unchanged from the previous query. */
static void query_defaults(unsigned flags)
{
    static const char *const names[] = {"cuStreamGetId(0)", "cuStreamIsCapturing(0)",
                                        "cuStreamWaitEvent(0)", "cuEventRecord(0)",
                                        "cuStreamGetId(per-thread)"};
    struct query_results query_results = {0, 9};
    size_t nodes;

    for (int which = 0; which < 5; which++) {
        CUstream stream = new_stream(flags);
        CUevent event = new_event();
        CU(cuEventRecord(event, NULL));
        CU(cuCtxSynchronize());
        CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        CUresult result = query_default(which, event, &query_results);
        CUresult end = end_quietly(stream, &nodes);
        print_output("while a %s stream captures: %s %d (%s, status %d)%s\n",
                     flags ? "non-blocking" : "blocking", names[which], result,
                     query_results.id ? "id given" : "no id", query_results.status,
                     end ? ", capture lost" : "");
        CU(cuEventDestroy_v2(event));
        CU(cuStreamDestroy_v2(stream));
    }
}

TEST(capture_corners_are_those_of_an_h200)
{
    use_device(0);
    for (int i = 0; i < 12; i++)
        wait_across(i / 4, i / 2 % 2, i % 2);
    join_and_query();
    destroy_joined();
    query_defaults(CU_STREAM_NON_BLOCKING);
    query_defaults(0);
    check_output("h200_corners.txt");
}

/* --- cases outside the table; an H200 answers the same --- */

TEST(capture_invalidated_rejects_work_until_it_is_ended)
{
    unsigned long long id;
    CUdeviceptr block;
    CUgraph graph;
    int status;

    use_device(0);
    CU(cuMemAlloc_v2(&block, 4096));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU_IS(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture_v2(stream, 0));
    CU(cuEventRecord(event, stream));
    CU_IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamGetId(stream, &id));
    CU(cuStreamIsCapturing(stream, &status));
    CHECK_EQUAL(CU_STREAM_CAPTURE_STATUS_INVALIDATED, status);
    CU_IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD8Async(block, 1, 16, stream));
    CU_IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemFreeAsync(block, stream));
    CU_IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuEventRecord(event, stream));
    CU_IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamWaitEvent(stream, event, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(other, event, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuEventQuery(event));
    CU_IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    CHECK(graph == NULL);
    CU_IS(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream, &graph));
    CU(cuMemsetD8Async(block, 1, 16, stream));
    CU(cuCtxSynchronize());
    CU(cuMemFree_v2(block));
    CU(cuEventDestroy_v2(event));
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
}

TEST(capture_joined_with_another_invalidates_both)
{
    size_t nodes;

    use_device(0);
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    CU(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuStreamBeginCapture_v2(second, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuEventRecord(event, first));
    CU_IS(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(second, event, 0));
    CHECK_EQUAL(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end_quietly(first, &nodes));
    CHECK_EQUAL(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end_quietly(second, &nodes));
    CU(cuEventDestroy_v2(event));
    CU(cuStreamDestroy_v2(first));
    CU(cuStreamDestroy_v2(second));
}

TEST(capture_with_work_that_was_not_joined_is_an_error)
{
    CUdeviceptr block;
    size_t nodes;

    use_device(0);
    CU(cuMemAlloc_v2(&block, 4096));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(cuEventRecord(event, stream));
    CU(cuStreamWaitEvent(other, event, 0));
    CU(cuMemsetD8Async(block, 1, 16, other));
    CU(cuStreamDestroy_v2(other));
    CHECK_EQUAL(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, end_quietly(stream, &nodes));
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuStreamDestroy_v2(stream)); /* and the capture with it */
    CU(cuMemFree_v2(block));
    CU(cuEventDestroy_v2(event));
}

TEST(capture_ends_with_its_context)
{
    CUcontext context;
    CUdeviceptr block;

    use_device(0);
    CU(cuCtxCreate_v2(&context, 0, 0));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuCtxDestroy_v2(context));
    CU(cuMemAlloc_v2(&block, 4096));
    CU(cuMemFree_v2(block));
}

TEST(capture_can_be_queried_and_redirected)
{
    const CUgraphNode *nodes;
    CUdeviceptr block;
    CUgraph graph, same;
    CUgraphNode empty;
    uint64_t id, next;
    size_t count;
    int status;

    use_device(0);
    CU(cuMemAlloc_v2(&block, 4096));
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuMemsetD8Async(block, 1, 16, stream));
    CU(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &nodes, &count));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1);
    CU_IS(CUDA_ERROR_ILLEGAL_STATE, cuGraphDestroy(graph));
    CU(cuGraphAddEmptyNode(&empty, graph, nodes, count));
    CU(cuStreamUpdateCaptureDependencies(stream, &empty, 1,
                                         CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    CU(cuStreamGetCaptureInfo_v2(stream, &status, &id, NULL, &nodes, &count));
    CHECK(count == 1 && nodes[0] == empty);
    CU(cuStreamEndCapture(stream, &same));
    CHECK(same == graph);
    CU(cuStreamBeginCaptureToGraph(stream, graph, &empty, NULL, 1, 0));
    CU(cuStreamGetCaptureInfo(stream, &status, &next));
    CHECK(next > id);
    CU(cuMemsetD8Async(block, 2, 16, stream));
    CU(cuStreamEndCapture(stream, &same));
    CU(cuGraphGetNodes(graph, NULL, &count));
    CHECK(same == graph && count == 3);
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy_v2(stream));
    CU(cuMemFree_v2(block));
}

/* Make a call in a global capture of this thread; return its result, and whether the
 * capture is lost. */
#define IN_A_CAPTURE(wanted, call)                                    \
    do {                                                              \
        size_t nodes_;                                                \
        CU(cuStreamBeginCapture_v2(stream, 0));                       \
        CU_IS(wanted, call);                                          \
        CHECK_EQUAL((wanted) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED \
                        ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED       \
                        : CUDA_SUCCESS,                               \
                    end_quietly(stream, &nodes_));                    \
    } while (0)

TEST(capture_is_invalidated_by_graph_instantiation_and_settings)
{
    const CUresult lost = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUmemoryPool pool;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraph graph;

    use_device(0);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CU(cuGraphCreate(&graph, 0));
    IN_A_CAPTURE(CUDA_SUCCESS, cuGraphAddEmptyNode(&node, graph, NULL, 0));
    IN_A_CAPTURE(lost, cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    IN_A_CAPTURE(lost, cuGraphUpload(exec, stream));
    IN_A_CAPTURE(lost, cuGraphLaunch(exec, stream));
    IN_A_CAPTURE(CUDA_SUCCESS, cuGraphLaunch(exec, CU_STREAM_PER_THREAD));
    IN_A_CAPTURE(lost, cuGraphExecDestroy(exec));
    IN_A_CAPTURE(CUDA_SUCCESS, cuDeviceGetDefaultMemPool(&pool, 0));
    IN_A_CAPTURE(lost, cuDeviceSetMemPool(0, pool));
    IN_A_CAPTURE(lost, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
    IN_A_CAPTURE(lost, cuCtxSetCacheConfig(0));
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy_v2(stream));
}
