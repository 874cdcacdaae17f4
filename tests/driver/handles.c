/* handles.c -- facts about a process after an error: sticky errors, wrong contexts.
 *
 * Wrong streams and events are in the themes of their own. This file has the other
 * handles, and the effect of one bad access on the calls after it.
 */
#include "facts.h"

static CUcontext wrong_context(void)
{
    return (CUcontext)(uintptr_t)0x1234560;
}

static void context_id(void)
{
    fact_result("context.cuCtxGetId",
                cuCtxGetId(wrong_context(), &(unsigned long long){0}));
}

static void context_version(void)
{
    fact_result("context.cuCtxGetApiVersion",
                cuCtxGetApiVersion(wrong_context(), &(unsigned int){0}));
}

static void context_push(void)
{
    fact_result("context.cuCtxPushCurrent", cuCtxPushCurrent(wrong_context()));
}

static void context_destroy(void)
{
    fact_result("context.cuCtxDestroy", cuCtxDestroy(wrong_context()));
}

static void graph_destroy(void)
{
    fact_result("graph.cuGraphDestroy", cuGraphDestroy((CUgraph)(uintptr_t)0x1234560));
}

static void graph_launch(void)
{
    fact_result("graph.cuGraphLaunch",
                cuGraphLaunch((CUgraphExec)(uintptr_t)0x1234560, NULL));
}

static void graph_destroy_twice(void)
{
    CUgraph graph = NULL;

    cuGraphCreate(&graph, 0);
    fact_result("graph.destroy", cuGraphDestroy(graph));
    fact_result("graph.destroy_twice", cuGraphDestroy(graph));
}

static void pool_destroy(void)
{
    fact_result("pool.cuMemPoolDestroy",
                cuMemPoolDestroy((CUmemoryPool)(uintptr_t)0x1234560));
}

/* NULL in the place of a handle. */
static void nulls(void)
{
    CUdeviceptr out = 7;

    fact_result("null.cuCtxGetId", cuCtxGetId(NULL, &(unsigned long long){0}));
    fact_result("null.cuCtxGetApiVersion", cuCtxGetApiVersion(NULL, &(unsigned int){0}));
    fact_result("null.cuGraphDestroy", cuGraphDestroy(NULL));
    fact_result("null.cuGraphExecDestroy", cuGraphExecDestroy(NULL));
    fact_result("null.cuGraphLaunch", cuGraphLaunch(NULL, NULL));
    fact_result("null.cuMemPoolGetAttribute",
                cuMemPoolGetAttribute(NULL, 4, &(uint64_t){0}));
    fact_output("null.cuMemAllocFromPoolAsync",
                cuMemAllocFromPoolAsync(&out, 256, NULL, NULL), out == 7);
    fact_result("null.cuMemRelease", cuMemRelease(0));
    fact_result("null.cuEventElapsedTime", cuEventElapsedTime(&(float){0}, NULL, NULL));
    fact_result("null.cuThreadExchangeStreamCaptureMode",
                cuThreadExchangeStreamCaptureMode(NULL));
}

/* An error of one call does not affect another: no error here may be sticky. */
static void not_sticking(void)
{
    CUdeviceptr out = 0;

    cuMemAlloc(&out, (size_t)1 << 50);
    fact_result("after.out_of_memory", cuCtxSynchronize());
    cuMemFree(0x1234500);
    fact_result("after.bad_free", cuCtxSynchronize());
    cuMemsetD8(0x1234500, 1, 1);
    fact_result("after.bad_memset", cuCtxSynchronize());
    cuEventQuery(NULL);
    fact_result("after.bad_query", cuCtxSynchronize());
    fact_result("after.all_that", cuMemAlloc(&out, 256));
    cuMemFree(out);
}

/* The device accesses memory without the right: the result of each call after that. */
static void sticking(void)
{
    CUdeviceptr before = block(256);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    struct range r = vmm_range(2 * MIB);
    struct gate gate;
    void *host = NULL;
    size_t bytes;

    gate_close(&gate, stream);
    cuMemsetD8Async(r.pointer, 1, 2 * MIB, stream);
    cuMemUnmap(r.pointer, 2 * MIB);
    atomic_store(&gate.open, true);
    fact_result("sticks.cuStreamSynchronize", cuStreamSynchronize(stream));
    fact_result("sticks.cuCtxSynchronize", cuCtxSynchronize());
    fact_result("sticks.cuMemAlloc", cuMemAlloc(&(CUdeviceptr){0}, 256));
    fact_result("sticks.cuMemFree", cuMemFree(before));
    fact_result("sticks.cuMemGetInfo", cuMemGetInfo(&bytes, &bytes));
    fact_result("sticks.cuMemHostAlloc", cuMemHostAlloc(&host, 256, 0));
    fact_result("sticks.cuMemGetAddressRange",
                cuMemGetAddressRange(&(CUdeviceptr){0}, &bytes, before));
    fact_result("sticks.cuStreamCreate", cuStreamCreate(&(CUstream){0}, 0));
    fact_result("sticks.cuStreamQuery", cuStreamQuery(stream));
    fact_result("sticks.cuStreamGetId", cuStreamGetId(stream, &(unsigned long long){0}));
    fact_result("sticks.cuStreamIsCapturing", cuStreamIsCapturing(stream, &(int){0}));
    fact_result("sticks.cuStreamGetFlags", cuStreamGetFlags(stream, &(unsigned int){0}));
    fact_result("sticks.cuEventCreate", cuEventCreate(&(CUevent){0}, 2));
    fact_result("sticks.cuEventQuery", cuEventQuery(event));
    fact_result("sticks.cuEventRecord", cuEventRecord(event, stream));
    fact_result("sticks.cuMemcpyDtoH", cuMemcpyDtoH(&(char){0}, before, 1));
    fact_result("sticks.cuMemAllocAsync",
                cuMemAllocAsync(&(CUdeviceptr){0}, 256, stream));
    fact_result("sticks.cuEventDestroy", cuEventDestroy(event));
    fact_result("sticks.cuStreamDestroy", cuStreamDestroy(stream));
    fact_result("sticks.cuCtxGetCurrent", cuCtxGetCurrent(&(CUcontext){0}));
    fact_result("sticks.cuDeviceGetCount", cuDeviceGetCount(&(int){0}));
    fact_result("sticks.cuDevicePrimaryCtxRetain",
                cuDevicePrimaryCtxRetain(&(CUcontext){0}, device));
    fact_result("sticks.cuMemCreate",
                cuMemCreate(&r.handle, 2 * MIB,
                            &(CUmemAllocationProp){1, 0, {1, 0}, 0, {0, 0, 0, {0}}}, 0));
    fact_result("sticks.cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset(device));
    fact_result("sticks.cuMemAlloc_after_reset", cuMemAlloc(&(CUdeviceptr){0}, 256));
}

static const struct part parts[] = {
    {"nulls", nulls, TOGETHER},
    {"not_sticking", not_sticking, TOGETHER},
    {"context.cuCtxGetId", context_id, RISKY},
    {"context.cuCtxGetApiVersion", context_version, RISKY},
    {"context.cuCtxPushCurrent", context_push, RISKY},
    {"context.cuCtxDestroy", context_destroy, RISKY},
    {"graph.cuGraphDestroy", graph_destroy, RISKY},
    {"graph.cuGraphLaunch", graph_launch, RISKY},
    {"graph.destroy_twice", graph_destroy_twice, RISKY},
    {"pool.cuMemPoolDestroy", pool_destroy, RISKY},
    {"sticking", sticking, RISKY},
    END_OF_PARTS,
};
const struct theme theme_handles = {"handles", parts, false};
