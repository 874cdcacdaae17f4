/* Test graphs: the nodes of a capture, the work of a launch, memory of graphs, and graphs
 * built by calls.
 *
 * The expected results are those of an H200 (tests/driver/graph.c).
 */
#include "driver.h"
#include <sched.h>
#include <stdatomic.h>

enum { BYTES = 4096 };

static CUstream stream;

static void begin(void)
{
    use_device(0);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static CUgraph end(void)
{
    CUgraph graph;

    CU(cuStreamEndCapture(stream, &graph));
    return graph;
}

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;

    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static CUdeviceptr block_of(unsigned char value)
{
    CUdeviceptr block;

    CU(cuMemAlloc_v2(&block, BYTES));
    CU(cuMemsetD8_v2(block, value, BYTES));
    return block;
}

/* Initialize blocks with a memset on the default stream, for which graphs do not wait.
 * Not allowed while a stream captures. */
static void settle(void)
{
    CU(cuCtxSynchronize());
}

static int peek(CUdeviceptr block)
{
    unsigned char byte;

    CU(cuMemcpyDtoH_v2(&byte, block + BYTES - 1, 1));
    return byte;
}

/* How many nodes of `kind`. */
static int count_nodes(CUgraph graph, int kind)
{
    CUgraphNode nodes[16];
    size_t count = 16;
    int found = 0, type;

    CU(cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        CU(cuGraphNodeGetType(nodes[i], &type));
        found += type == kind;
    }
    return found;
}

static size_t count_edges(CUgraph graph)
{
    size_t edges;

    CU(cuGraphGetEdges(graph, NULL, NULL, &edges));
    return edges;
}

static void destroy(CUgraphExec exec, CUgraph graph)
{
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy_v2(stream));
}

static void add_one(void *count)
{
    atomic_fetch_add((atomic_int *)count, 1);
}

static void block_stream(void *open)
{
    while (!atomic_load((atomic_bool *)open))
        sched_yield();
}

TEST(graph_is_built_by_a_capture_and_executed_by_each_launch)
{
    atomic_int calls = 0;

    begin();
    CUdeviceptr a = 0, b = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CU(cuThreadExchangeStreamCaptureMode(&mode));
    a = block_of(0), b = block_of(0);
    CU(cuThreadExchangeStreamCaptureMode(&mode));
    CU(cuMemsetD8Async(a, 5, BYTES, stream));
    CU(cuMemcpyDtoDAsync_v2(b, a, BYTES, stream));
    CU(cuLaunchHostFunc(stream, add_one, &calls));
    CUgraph graph = end();
    settle();
    CHECK_EQUAL(1, count_nodes(graph, CU_GRAPH_NODE_TYPE_MEMSET));
    CHECK_EQUAL(1, count_nodes(graph, CU_GRAPH_NODE_TYPE_MEMCPY));
    CHECK_EQUAL(1, count_nodes(graph, CU_GRAPH_NODE_TYPE_HOST));
    CHECK_EQUAL(2, count_edges(graph));
    CHECK_EQUAL(0, peek(b));
    CUgraphExec exec = instantiate(graph);
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    CHECK_EQUAL(5, peek(b));
    CU(cuGraphLaunch(exec, stream));
    CU(cuGraphLaunch(exec, NULL));
    destroy(exec, graph); /* launched work is done all the same */
    CU(cuCtxSynchronize());
    CHECK_EQUAL(3, atomic_load(&calls));
    CU(cuMemFree_v2(a));
    CU(cuMemFree_v2(b));
}

TEST(graph_launch_has_its_place_in_the_stream)
{
    CUdeviceptr a, b, c;
    atomic_bool open = false;

    use_device(0);
    a = block_of(1), b = block_of(0), c = block_of(0);
    settle();
    begin();
    CU(cuMemcpyDtoDAsync_v2(b, a, BYTES, stream));
    CUgraph graph = end();
    CUgraphExec exec = instantiate(graph);
    CU(cuLaunchHostFunc(stream, block_stream, &open));
    CU(cuMemsetD8Async(a, 2, BYTES, stream));
    CU(cuGraphLaunch(exec, stream));
    CU(cuMemsetD8Async(a, 3, BYTES, stream));
    CU(cuMemcpyDtoDAsync_v2(c, b, BYTES, stream));
    CU_IS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    CHECK_EQUAL(0, peek(b));
    atomic_store(&open, true);
    CU(cuStreamSynchronize(stream));
    CHECK_EQUAL(3, peek(a));
    CHECK_EQUAL(2, peek(b));
    CHECK_EQUAL(2, peek(c));
    destroy(exec, graph);
    CU(cuMemFree_v2(a));
    CU(cuMemFree_v2(b));
    CU(cuMemFree_v2(c));
}

/* Two streams in one capture, ordered by events: a fork and a join. */
static CUgraph capture_fork(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, bool joins)
{
    CUstream side;
    CUevent out, back;

    begin();
    CU(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&out, CU_EVENT_DISABLE_TIMING));
    CU(cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
    CU(cuMemsetD8Async(a, 5, BYTES, stream));
    CU(cuEventRecord(out, stream));
    CU(cuStreamWaitEvent(side, out, 0));
    CU(cuMemcpyDtoDAsync_v2(b, a, BYTES, side));
    CU(cuMemsetD8Async(c, 1, BYTES, stream));
    CU(cuEventRecord(back, side));
    if (joins)
        CU(cuStreamWaitEvent(stream, back, 0));
    CU(cuMemcpyDtoDAsync_v2(c, b, BYTES, stream));
    if (!joins)
        CU(cuStreamWaitEvent(stream, back, 0)); /* too late for the copy */
    CUgraph graph = end();
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuEventQuery(out));
    CU(cuEventDestroy_v2(out));
    CU(cuEventDestroy_v2(back));
    CU(cuStreamDestroy_v2(side));
    return graph;
}

static int launch_fork(bool joins)
{
    CUdeviceptr a, b, c;

    use_device(0);
    a = block_of(0), b = block_of(0), c = block_of(0);
    CU(cuCtxSynchronize());
    CUgraph graph = capture_fork(a, b, c, joins);
    CHECK_EQUAL(joins ? 4 : 3, count_edges(graph));
    CUgraphExec exec = instantiate(graph);
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    int got = peek(c);
    destroy(exec, graph);
    CU(cuMemFree_v2(a));
    CU(cuMemFree_v2(b));
    CU(cuMemFree_v2(c));
    return got;
}

TEST(graph_of_two_streams_is_ordered_by_their_events)
{
    char options[64];

    CHECK_EQUAL(5, launch_fork(true));
    for (unsigned seed = 1; seed <= 16; seed++) {
        snprintf(options, sizeof options, "mode=seeded,seed=%u", seed);
        CHECK_EQUAL(0, driver.configure(options));
        CHECK_EQUAL(5, launch_fork(true));
    }
    CHECK_EQUAL(0, driver.configure(NULL));
}

TEST(graph_without_an_edge_shows_wrong_bytes_for_some_seed)
{
    unsigned wrong = 0;
    char options[64];

    for (unsigned seed = 1; seed <= 64; seed++) {
        snprintf(options, sizeof options, "mode=seeded,seed=%u", seed);
        CHECK_EQUAL(0, driver.configure(options));
        wrong += launch_fork(false) != 5;
    }
    CHECK_EQUAL(0, driver.configure(NULL));
    CHECK(wrong > 0 && wrong < 64);
}

TEST(graph_races_are_found_where_an_edge_is_missing)
{
    /* Seeded: in real time the race would be one of two threads. */
    CHECK_EQUAL(0, driver.configure("mode=seeded,races=on"));
    launch_fork(true);
    CHECK_EQUAL(0, driver.races());
    launch_fork(false);
    CHECK(driver.races() > 0);
    CHECK_EQUAL(0, driver.configure(NULL));
}

TEST(graph_records_and_waits_for_events_at_each_launch)
{
    atomic_bool open = false;
    CUevent record, wait;
    CUstream other;
    CUdeviceptr a;

    use_device(0);
    a = block_of(0);
    settle();
    CU(cuEventCreate(&record, CU_EVENT_DISABLE_TIMING));
    CU(cuEventCreate(&wait, CU_EVENT_DISABLE_TIMING));
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU_IS(CUDA_ERROR_ILLEGAL_STATE,
          cuEventRecordWithFlags(record, other, CU_EVENT_RECORD_EXTERNAL));
    begin();
    CU(cuStreamWaitEvent(stream, wait, CU_EVENT_WAIT_EXTERNAL));
    CU(cuMemsetD8Async(a, 5, BYTES, stream));
    CU(cuEventRecordWithFlags(record, stream, CU_EVENT_RECORD_EXTERNAL));
    CUgraph graph = end();
    CHECK_EQUAL(1, count_nodes(graph, CU_GRAPH_NODE_TYPE_WAIT_EVENT));
    CHECK_EQUAL(1, count_nodes(graph, CU_GRAPH_NODE_TYPE_EVENT_RECORD));
    CUgraphExec exec = instantiate(graph);
    CU(cuEventQuery(record));
    CU(cuLaunchHostFunc(other, block_stream, &open));
    CU(cuEventRecord(wait, other));
    CU(cuGraphLaunch(exec, stream));
    CU_IS(CUDA_ERROR_NOT_READY, cuEventQuery(record));
    atomic_store(&open, true);
    CU(cuEventSynchronize(record));
    CHECK_EQUAL(5, peek(a));
    destroy(exec, graph);
    CU(cuEventDestroy_v2(record));
    CU(cuEventDestroy_v2(wait));
    CU(cuStreamDestroy_v2(other));
    CU(cuMemFree_v2(a));
}

TEST(graph_reads_pageable_memory_at_the_launch)
{
    static unsigned char mine[BYTES];
    CUdeviceptr a;

    use_device(0);
    a = block_of(0);
    settle();
    begin();
    memset(mine, 1, sizeof mine);
    CU(cuMemcpyHtoDAsync_v2(a, mine, BYTES, stream));
    CUgraph graph = end();
    CUgraphExec exec = instantiate(graph);
    memset(mine, 2, sizeof mine);
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    CHECK_EQUAL(2, peek(a));
    destroy(exec, graph);
    CU(cuMemFree_v2(a));
}

TEST(graph_launch_with_freed_memory_is_rejected)
{
    CUdeviceptr a;

    use_device(0);
    a = block_of(0);
    settle();
    begin();
    CU(cuMemsetD8Async(a, 5, BYTES, stream));
    CU(cuMemcpyDtoDAsync_v2(a, a + 64, 64, stream));
    CUgraph graph = end();
    CUgraphExec exec = instantiate(graph);
    CU(cuMemFree_v2(a));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
    destroy(exec, graph);
}

/* A worker would write to memory that is freed. */
TEST(graph_with_destroyed_memory_is_not_launched)
{
    void *pinned[2];
    CUdeviceptr a;

    use_device(0);
    for (int i = 0; i < 2; i++) {
        CU(cuMemAlloc_v2(&a, BYTES));
        for (int k = 0; k < 2; k++)
            CU(cuMemHostAlloc(&pinned[k], BYTES, 0));
        begin();
        if (i)
            CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)pinned[0], 1, BYTES, stream));
        else
            CU(cuMemcpyDtoHAsync_v2(pinned[0], a, BYTES, stream));
        CUgraph graph = end();
        CUgraphExec exec = instantiate(graph);
        CU(cuGraphLaunch(exec, stream));
        CU(cuStreamSynchronize(stream));
        CU(cuMemFreeHost(pinned[0]));
        CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
        destroy(exec, graph);
        CU(cuMemFreeHost(pinned[1]));
        CU(cuMemFree_v2(a));
    }
}

/* --- memory --- */

TEST(graph_memory_allocated_and_freed_inside_is_invalid_outside)
{
    unsigned long long before;
    CUdeviceptr a, base, out;
    CUgraphExec second;
    size_t bytes;

    use_device(0);
    out = block_of(0);
    settle();
    before = driver.live_bytes();
    begin();
    CU(cuMemAllocAsync(&a, BYTES, stream));
    CU_IS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&base, &bytes, a));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(a, 1, BYTES));
    CU(cuMemsetD8Async(a, 5, BYTES, stream));
    CU(cuMemcpyDtoDAsync_v2(out, a, BYTES, stream));
    CU(cuMemFreeAsync(a, stream));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(a, stream));
    CUgraph graph = end();
    CHECK_EQUAL(1, count_nodes(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC));
    CHECK_EQUAL(1, count_nodes(graph, CU_GRAPH_NODE_TYPE_MEM_FREE));
    CUgraphExec exec = instantiate(graph);
    CU_IS(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags(&second, graph, 0));
    CU_IS(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&graph, graph));
    CU(cuGraphLaunch(exec, stream));
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    CHECK_EQUAL(5, peek(out));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(a, stream));
    CHECK(driver.live_bytes() == before);
    destroy(exec, graph);
    CU(cuMemFree_v2(out));
}

TEST(graph_memory_that_stays_allocated_is_freed_before_the_next_launch)
{
    CUdeviceptr a;

    begin();
    CU(cuMemAllocAsync(&a, BYTES, stream));
    CU(cuMemsetD8Async(a, 5, BYTES, stream));
    CUgraph graph = end();
    CUgraphExec exec = instantiate(graph);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(a, stream));
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    CHECK_EQUAL(5, peek(a));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
    CU(cuMemFreeAsync(a, stream));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(a, stream));
    CU(cuGraphLaunch(exec, stream));
    CU(cuMemFree_v2(a));
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    CUstream old = stream;
    destroy(exec, graph); /* the memory outlives both */
    CU(cuStreamCreate(&stream, 0));
    CHECK(old == stream);
    CHECK_EQUAL(5, peek(a));
    CU(cuMemFreeAsync(a, stream));
    CU(cuStreamSynchronize(stream));
    CU(cuStreamDestroy_v2(stream));
}

TEST(graph_memory_may_be_freed_by_itself_or_by_another_graph)
{
    CUgraphExec maker, freer, again;
    CUdeviceptr a;

    begin();
    CU(cuMemAllocAsync(&a, BYTES, stream));
    CUgraph makes = end();
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CU(cuMemFreeAsync(a, stream));
    CUgraph frees = end();
    maker = instantiate(makes), freer = instantiate(frees);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(freer, stream));
    CU(cuGraphLaunch(maker, stream));
    CU(cuGraphLaunch(freer, stream));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(freer, stream));
    CU(cuGraphExecDestroy(maker));
    CU(cuGraphInstantiateWithFlags(&again, makes,
                                   CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    CU(cuGraphLaunch(again, stream));
    CU(cuGraphLaunch(again, stream));
    CU(cuMemFreeAsync(a, stream));
    CU(cuStreamSynchronize(stream));
    CU(cuGraphExecDestroy(again));
    CU(cuGraphDestroy(makes));
    destroy(freer, frees);
}

/* --- graphs built by calls --- */

TEST(graph_by_hand_takes_no_node_twice_and_no_cycle)
{
    CUgraph graph, other;
    CUgraphNode a, b, got[8];
    CUgraphExec exec;
    size_t count = 8;

    use_device(0);
    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphCreate(&other, 0));
    CU(cuGraphAddEmptyNode(&a, graph, NULL, 0));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&b, other, &a, 1));
    CU(cuGraphAddEmptyNode(&b, graph, &a, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphAddEmptyNode(&b, graph, (CUgraphNode[]){a, a}, 2));
    CU(cuGraphGetRootNodes(graph, got, &count));
    CHECK(count == 1 && got[0] == a && got[7] == NULL);
    CU(cuGraphAddDependencies(graph, &b, &a, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &b, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &a, 1));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphRemoveDependencies(graph, &b, &a, 1));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphLaunch(exec, NULL));
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroyNode(a));
    CHECK_EQUAL(0, count_edges(graph));
    CU(cuGraphDestroy(graph));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphExecDestroy(exec));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, NULL));
    CU(cuGraphDestroy(other));
}

/* A graph that fills `block`. */
static CUgraph graph_of_fill(CUdeviceptr block, unsigned value, CUgraphNode *node)
{
    CUDA_MEMSET_NODE_PARAMS fill = {block, 0, value, 1, BYTES, 1};
    CUgraph graph;

    CU(cuGraphCreate(&graph, 0));
    CU(cuGraphAddMemsetNode(node, graph, NULL, 0, &fill, NULL));
    fill.elementSize = 3;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphAddMemsetNode(node, graph, NULL, 0, &fill, NULL));
    fill.elementSize = 1;
    fill.width = BYTES + 1;
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuGraphAddMemsetNode(node, graph, NULL, 0, &fill, NULL));
    return graph;
}

TEST(graph_child_runs_between_its_dependencies_and_its_dependents)
{
    CUDA_MEMCPY3D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .WidthInBytes = BYTES,
        .Height = 1,
        .Depth = 1,
    };
    CUgraphNode fill, first, child, last;
    CUgraph inner, outer, owned;
    CUdeviceptr a, b, c;

    use_device(0);
    a = block_of(1), b = block_of(0), c = block_of(0);
    settle();
    inner = graph_of_fill(a, 7, &fill);
    CU(cuGraphCreate(&outer, 0));
    copy.srcDevice = a, copy.dstDevice = b;
    CU(cuGraphAddMemcpyNode(&first, outer, NULL, 0, &copy, NULL));
    CU(cuGraphAddChildGraphNode(&child, outer, &first, 1, inner));
    copy.dstDevice = c;
    CU(cuGraphAddMemcpyNode(&last, outer, &child, 1, &copy, NULL));
    CU(cuGraphDestroy(inner)); /* it was copied */
    CU(cuGraphChildGraphNodeGetGraph(child, &owned));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(owned));
    CUgraphExec exec = instantiate(outer);
    CU(cuGraphLaunch(exec, NULL));
    CU(cuStreamSynchronize(NULL));
    CHECK_EQUAL(1, peek(b));
    CHECK_EQUAL(7, peek(c));
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(outer));
    CU(cuMemFree_v2(a));
    CU(cuMemFree_v2(b));
    CU(cuMemFree_v2(c));
}

TEST(graph_update_takes_new_parameters_and_no_new_shape)
{
    CUgraphExecUpdateResultInfo info;
    CUDA_MEMSET_NODE_PARAMS fill;
    CUgraphNode node, more;
    CUdeviceptr a;

    use_device(0);
    a = block_of(0);
    settle();
    CUgraph graph = graph_of_fill(a, 3, &node), clone;
    CUgraphExec exec = instantiate(graph);
    CU(cuGraphClone(&clone, graph));
    CU(cuGraphNodeFindInClone(&node, node, clone));
    CU(cuGraphMemsetNodeGetParams(node, &fill));
    fill.value = 4;
    CU(cuGraphMemsetNodeSetParams(node, &fill));
    CU(cuGraphExecUpdate_v2(exec, clone, &info));
    CHECK_EQUAL(CU_GRAPH_EXEC_UPDATE_SUCCESS, info.result);
    CU(cuGraphAddEmptyNode(&more, clone, &node, 1));
    CU_IS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, clone, &info));
    CHECK_EQUAL(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result);
    CU(cuGraphLaunch(exec, NULL));
    CU(cuStreamSynchronize(NULL));
    CHECK_EQUAL(4, peek(a));
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(clone));
    CU(cuGraphDestroy(graph));
    CU(cuMemFree_v2(a));
}

/* --- without host memory --- */

/* Whatever fails, all of it can be destroyed. */
static void try_everything(void)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUdeviceptr a = 0;
    atomic_int calls = 0;

    if (driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED))
        return;
    driver.cuMemAllocAsync(&a, BYTES, stream);
    if (a) {
        driver.cuMemsetD8Async(a, 5, BYTES, stream);
        driver.cuMemcpyDtoDAsync_v2(a, a + 64, 64, stream);
        driver.cuMemFreeAsync(a, stream);
    }
    driver.cuLaunchHostFunc(stream, add_one, &calls);
    driver.cuStreamEndCapture(stream, &graph);
    if (graph && !driver.cuGraphInstantiateWithFlags(&exec, graph, 1)) {
        driver.cuGraphLaunch(exec, stream);
        driver.cuGraphLaunch(exec, stream);
    }
    driver.cuStreamSynchronize(stream);
    if (a)
        driver.cuMemFreeAsync(a, stream);
    driver.cuStreamSynchronize(stream);
    if (exec)
        CU(cuGraphExecDestroy(exec));
    if (graph)
        CU(cuGraphDestroy(graph));
}

TEST(graph_without_host_memory_is_an_error_and_loses_nothing)
{
    unsigned long long before, failures = 1;
    char options[64];
    unsigned nth = 0;

    use_device(0);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    try_everything();
    before = driver.live_bytes();
    while (failures && ++nth < 1000) {
        snprintf(options, sizeof options, "host-memory=fail:%u", nth);
        CHECK_EQUAL(0, driver.configure(options));
        try_everything();
        failures = driver.faults();
        CHECK_EQUAL(0, driver.configure(NULL));
        CHECK(driver.live_bytes() == before);
    }
    CHECK(nth > 20);
    CU(cuStreamDestroy_v2(stream));
}
