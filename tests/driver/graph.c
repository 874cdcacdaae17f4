/* graph.c -- facts about captured graphs: their nodes, and the work of a launch. */
#include "facts.h"

#include <string.h>

enum { BYTES = 65536 };

/* The kinds of a graph's nodes, counted, in the order of their numbers. */
static const char *contents(CUgraph graph)
{
    static char text[200];
    CUgraphNode nodes[16];
    size_t count = 16, edges = 0;
    int kinds[16] = {0};

    if (!graph || cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS)
        return "no graph";
    for (size_t i = 0; i < count; i++) {
        int kind = 0;
        cuGraphNodeGetType(nodes[i], &kind);
        if (kind >= 0 && kind < 16)
            kinds[kind]++;
    }
    *text = '\0';
    for (int kind = 0; kind < 16; kind++)
        if (kinds[kind])
            strcat(text, named("%d of kind %d, ", kinds[kind], kind));
    cuGraphGetEdges(graph, NULL, NULL, &edges);
    strcat(text, named("%zu edges", edges));
    return text;
}

static CUgraph end(CUstream stream)
{
    CUgraph graph = NULL;

    cuStreamEndCapture(stream, &graph);
    return graph;
}

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec = NULL;

    cuGraphInstantiate(&exec, graph, 0);
    return exec;
}

static void add_one(void *data)
{
    ++*(int *)data;
}

static void captured(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = block_of(BYTES, 0), b = block_of(BYTES, 0);
    unsigned char *pin = pinned(BYTES);
    int calls = 0;

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    fact_result("capture.memset", cuMemsetD8Async(a, 5, BYTES, stream));
    fact_result("capture.copy", cuMemcpyDtoDAsync(b, a, BYTES, stream));
    fact_result("capture.copy_out", cuMemcpyDtoHAsync(pin, b, BYTES, stream));
    fact_result("capture.host_function", cuLaunchHostFunc(stream, add_one, &calls));
    CUgraph graph = end(stream);
    fact("capture.contents", "%s", contents(graph));
    fact("capture.nothing_ran", "%d %d %d", peek(a), pin[0], calls);
    CUgraphExec exec = instantiate(graph);
    fact_result("launch", cuGraphLaunch(exec, stream));
    cuStreamSynchronize(stream);
    fact("launch.results", "%d %d %d", peek(a), pin[BYTES - 1], calls);
    cuMemsetD8(b, 0, BYTES);
    cuCtxSynchronize();
    cuGraphLaunch(exec, stream);
    cuGraphLaunch(exec, NULL);
    cuCtxSynchronize();
    fact("launch.twice_more", "%d, %d calls", peek(b), calls);
    fact_result("graph.destroy", cuGraphDestroy(graph));
    fact_result("launch.after_graph_destroy", cuGraphLaunch(exec, stream));
    fact_result("exec.destroy", cuGraphExecDestroy(exec));
    cuStreamSynchronize(stream);
    fact("launch.destroyed_at_once", "%d calls", calls);
    cuMemFree(a);
    cuMemFree(b);
    cuMemFreeHost(pin);
    cuStreamDestroy(stream);
}

/* A launch has the position of one operation in the stream's order. */
static void ordered(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = block_of(256, 1), b = block_of(256, 0), c = block_of(256, 0);
    struct gate gate;

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuMemcpyDtoDAsync(b, a, 256, stream);
    CUgraph graph = end(stream);
    CUgraphExec exec = instantiate(graph);
    gate_close(&gate, stream);
    cuMemsetD8Async(a, 2, 256, stream);
    cuGraphLaunch(exec, stream);
    cuMemsetD8Async(a, 3, 256, stream);
    cuMemcpyDtoDAsync(c, b, 256, stream);
    fact("order.before", "%d %d %d", peek(a), peek(b), peek(c));
    fact_result("order.query", cuStreamQuery(stream));
    gate_open(&gate);
    fact("order.after", "%d %d %d", peek(a), peek(b), peek(c));
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuMemFree(a);
    cuMemFree(b);
    cuMemFree(c);
    cuStreamDestroy(stream);
}

/* Two streams in one capture: events between them order their work. */
static void forked(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream side = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent out = new_event(), back = new_event();
    CUdeviceptr a = block_of(256, 0), b = block_of(256, 0), c = block_of(256, 0);

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuMemsetD8Async(a, 5, 256, stream);
    cuEventRecord(out, stream);
    cuStreamWaitEvent(side, out, 0);
    cuMemcpyDtoDAsync(b, a, 256, side);
    cuMemsetD8Async(c, 1, 256, stream);
    cuEventRecord(back, side);
    cuStreamWaitEvent(stream, back, 0);
    cuMemcpyDtoDAsync(c, b, 256, stream);
    CUgraph graph = end(stream);
    fact("fork.contents", "%s", contents(graph));
    CUgraphExec exec = instantiate(graph);
    fact_result("fork.launch", cuGraphLaunch(exec, side));
    cuStreamSynchronize(side);
    fact("fork.results", "%d %d %d", peek(a), peek(b), peek(c));
    fact_result("fork.event_is_no_event", cuEventQuery(out));
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuEventDestroy(out);
    cuEventDestroy(back);
    cuStreamDestroy(stream);
    cuStreamDestroy(side);
}

/* Records and waits that are nodes, so that they run at every launch. */
static void external(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent record = new_event(), wait = new_event();
    CUdeviceptr a = block_of(256, 0);
    struct gate gate;

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    fact_result("external.wait", cuStreamWaitEvent(stream, wait, CU_EVENT_WAIT_EXTERNAL));
    cuMemsetD8Async(a, 5, 256, stream);
    fact_result("external.record",
                cuEventRecordWithFlags(record, stream, CU_EVENT_RECORD_EXTERNAL));
    CUgraph graph = end(stream);
    fact("external.contents", "%s", contents(graph));
    fact_result("external.query_before", cuEventQuery(record));
    CUgraphExec exec = instantiate(graph);
    gate_close(&gate, other);
    cuEventRecord(wait, other);
    fact_result("external.launch", cuGraphLaunch(exec, stream));
    fact("external.held", "%d", peek(a));
    fact_result("external.query_launched", cuEventQuery(record));
    gate_open(&gate);
    fact("external.passed", "%d", peek(a));
    fact_result("external.query_after", cuEventQuery(record));
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuEventDestroy(record);
    cuEventDestroy(wait);
    cuMemFree(a);
    cuStreamDestroy(stream);
    cuStreamDestroy(other);
}

/* Memory allocated and freed in the graph. */
static void memory_nodes(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = 0, keep = block_of(BYTES, 0), base = 0;
    size_t bytes = 0;

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    fact_result("memory.alloc", cuMemAllocAsync(&a, BYTES, stream));
    fact_bool("memory.address_given", a != 0);
    cuMemsetD8Async(a, 5, BYTES, stream);
    cuMemcpyDtoDAsync(keep, a, BYTES, stream);
    fact_result("memory.free", cuMemFreeAsync(a, stream));
    fact_result("memory.range_in_capture", cuMemGetAddressRange(&base, &bytes, a));
    CUgraph graph = end(stream);
    fact("memory.contents", "%s", contents(graph));
    CUgraphExec exec = instantiate(graph);
    fact_result("memory.launch", cuGraphLaunch(exec, stream));
    fact_result("memory.launch_again", cuGraphLaunch(exec, stream));
    cuStreamSynchronize(stream);
    fact_bool("memory.bytes", all_are(keep, BYTES, 5));
    fact_result("memory.free_outside", cuMemFreeAsync(a, stream));
    fact_result("memory.cuMemFree_outside", cuMemFree(a));
    fact_result("memory.second_exec", cuGraphInstantiate(&(CUgraphExec){0}, graph, 0));
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuMemFree(keep);
    cuStreamDestroy(stream);
}

/* Memory that outlives the graph's launch: it has to be freed before the next one. */
static void unfreed(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = 0;

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuMemAllocAsync(&a, BYTES, stream);
    cuMemsetD8Async(a, 5, BYTES, stream);
    CUgraph graph = end(stream);
    CUgraphExec exec = instantiate(graph);
    fact_result("unfreed.free_before_launch", cuMemFreeAsync(a, stream));
    fact_result("unfreed.launch", cuGraphLaunch(exec, stream));
    cuStreamSynchronize(stream);
    fact("unfreed.byte", "%d", peek(a));
    fact_result("unfreed.launch_again", cuGraphLaunch(exec, stream));
    fact_result("unfreed.free", cuMemFreeAsync(a, stream));
    fact_result("unfreed.free_twice", cuMemFreeAsync(a, stream));
    fact_result("unfreed.launch_after_free", cuGraphLaunch(exec, stream));
    cuStreamSynchronize(stream);
    fact_result("unfreed.cuMemFree", cuMemFree(a));
    fact_result("unfreed.graph_destroy", cuGraphDestroy(graph));
    fact_result("unfreed.exec_destroy", cuGraphExecDestroy(exec));
    cuStreamDestroy(stream);
}

static void auto_free(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = 0;
    CUgraphExec exec = NULL;

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuMemAllocAsync(&a, BYTES, stream);
    CUgraph graph = end(stream);
    fact_result("auto_free.instantiate", cuGraphInstantiate(&exec, graph, 1));
    fact_result("auto_free.launch", cuGraphLaunch(exec, stream));
    fact_result("auto_free.launch_again", cuGraphLaunch(exec, stream));
    fact_result("auto_free.synchronize", cuStreamSynchronize(stream));
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuStreamDestroy(stream);
}

/* Memory from before the capture is freed in it. */
static void freed_inside(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr pooled = 0, plain = block(BYTES);

    cuMemAllocAsync(&pooled, BYTES, stream);
    cuStreamSynchronize(stream);
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    fact_result("freed_inside.pooled", cuMemFreeAsync(pooled, stream));
    CUgraph graph = end(stream);
    fact("freed_inside.pooled.contents", "%s", contents(graph));
    if (graph)
        cuGraphDestroy(graph);
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    fact_result("freed_inside.plain", cuMemFreeAsync(plain, stream));
    graph = end(stream);
    fact("freed_inside.plain.contents", "%s", contents(graph));
    if (graph)
        cuGraphDestroy(graph);
    fact_result("freed_inside.pooled_still_there", cuMemFreeAsync(pooled, stream));
    cuStreamSynchronize(stream);
    fact_result("freed_inside.plain_still_there", cuMemFree(plain));
    cuStreamDestroy(stream);
}

/* Check whether a pageable source is read at the launch of the graph or at its capture.
 */
static void pageable(void)
{
    static unsigned char mine[256];
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = block_of(256, 0);

    memset(mine, 1, sizeof mine);
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    fact_result("pageable.capture", cuMemcpyHtoDAsync(a, mine, 256, stream));
    CUgraph graph = end(stream);
    CUgraphExec exec = instantiate(graph);
    memset(mine, 2, sizeof mine);
    fact_result("pageable.launch", cuGraphLaunch(exec, stream));
    cuStreamSynchronize(stream);
    fact("pageable.byte", "%d", peek(a));
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuMemFree(a);
    cuStreamDestroy(stream);
}

static void by_hand(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;
    CUgraphNode a = NULL, b = NULL, got[1];
    CUgraphExec exec = NULL;
    size_t count = 1;

    fact_result("hand.create", cuGraphCreate(&graph, 0));
    fact_result("hand.create_flags_1", cuGraphCreate(&(CUgraph){0}, 1));
    fact_result("hand.create_null", cuGraphCreate(NULL, 0));
    fact_result("hand.add", cuGraphAddEmptyNode(&a, graph, NULL, 0));
    fact_result("hand.add_after", cuGraphAddEmptyNode(&b, graph, &a, 1));
    fact("hand.contents", "%s", contents(graph));
    CUresult result = cuGraphGetRootNodes(graph, got, &count);
    fact("hand.roots", "%s, %zu, %s", result_name(result), count,
         got[0] == a ? "the first" : "another");
    fact_result("hand.instantiate", cuGraphInstantiate(&exec, graph, 0));
    fact_result("hand.instantiate_null", cuGraphInstantiate(NULL, graph, 0));
    fact_result("hand.instantiate_flags_0x100",
                cuGraphInstantiate(&(CUgraphExec){0}, graph, 0x100));
    fact_result("hand.upload", cuGraphUpload(exec, stream));
    fact_result("hand.launch", cuGraphLaunch(exec, stream));
    fact_result("hand.synchronize", cuStreamSynchronize(stream));
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuStreamDestroy(stream);
}

/* A launch of a graph is captured as a part of the next. */
static void nested(void)
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = block_of(256, 0);

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuMemsetD8Async(a, 5, 256, stream);
    CUgraph inner = end(stream);
    CUgraphExec exec = instantiate(inner);
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    fact_result("nested.launch", cuGraphLaunch(exec, stream));
    CUgraph outer = end(stream);
    fact("nested.contents", "%s", contents(outer));
    CUgraphExec both = instantiate(outer);
    cuGraphLaunch(both, stream);
    cuStreamSynchronize(stream);
    fact("nested.byte", "%d", peek(a));
    cuGraphExecDestroy(both);
    cuGraphExecDestroy(exec);
    cuGraphDestroy(inner);
    if (outer)
        cuGraphDestroy(outer);
    cuMemFree(a);
    cuStreamDestroy(stream);
}

/* Launched twice on two streams: the second waits for the first. */
static void same_exec_twice(void)
{
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream second = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = block_of(256, 0);
    struct gate gate;

    cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuMemsetD8Async(a, 5, 256, first);
    CUgraph graph = end(first);
    CUgraphExec exec = instantiate(graph);
    gate_close(&gate, first);
    cuGraphLaunch(exec, first);
    fact_result("same_exec.launch_on_another", cuGraphLaunch(exec, second));
    fact_result("same_exec.destroy_while_queued", cuGraphExecDestroy(exec));
    fact("same_exec.before", "%d", peek(a));
    fact_result("same_exec.second_is_held", cuStreamQuery(second));
    gate_open(&gate);
    fact("same_exec.after", "%d", peek(a));
    cuGraphDestroy(graph);
    cuMemFree(a);
    cuStreamDestroy(first);
    cuStreamDestroy(second);
}

static const struct part parts[] = {
    {"captured", captured, TOGETHER},
    {"ordered", ordered, TOGETHER},
    {"forked", forked, TOGETHER},
    {"external", external, TOGETHER},
    {"by_hand", by_hand, TOGETHER},
    {"nested", nested, TOGETHER},
    {"pageable", pageable, TOGETHER},
    {"memory_nodes", memory_nodes, RISKY},
    {"unfreed", unfreed, RISKY},
    {"auto_free", auto_free, RISKY},
    {"freed_inside", freed_inside, RISKY},
    {"same_exec_twice", same_exec_twice, RISKY},
    END_OF_PARTS,
};
const struct theme theme_graph = {"graph", parts, false};
