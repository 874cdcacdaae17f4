/* cuda_core.c -- facts that cuda.core's tests depend on. The lines `found.*` and those
 * that README.md names come from two H200s that other programs asked. */
#include "facts.h"

enum { BYTES = 4096 };

/* --- which functions exist --- */

static void names(void)
{
    static const char *const wanted[] = {"cuGraphConditionalHandleCreate",
                                         "cuGraphNodeSetParams",
                                         "cuGraphExecNodeSetParams",
                                         "cuGraphAddNode",
                                         "cuGraphKernelNodeCopyAttributes",
                                         "cuMemPrefetchBatchAsync",
                                         "cuMemDiscardBatchAsync",
                                         "cuMemDiscardAndPrefetchBatchAsync",
                                         "cuMemcpyBatchAsync",
                                         "cuMemcpy3DBatchAsync",
                                         "cuLibraryEnumerateKernels",
                                         "cuModuleEnumerateFunctions",
                                         "cuKernelGetParamInfo",
                                         "cuFuncGetParamInfo",
                                         "cuCheckpointProcessGetState",
                                         "cuGreenCtxCreate",
                                         "cuDeviceGetDevResource",
                                         "cuCtxFromGreenCtx",
                                         "cuStreamGetGreenCtx",
                                         "cuMulticastCreate",
                                         "cuDeviceRegisterAsyncNotification",
                                         "cuLogsRegisterCallback",
                                         "cuCoredumpGetAttribute",
                                         "cuMemPoolGetDefaultPool",
                                         "cuMemGetDefaultMemPool",
                                         "cuMemGetMemPool",
                                         "cuMemSetMemPool",
                                         "cuStreamGetDevice",
                                         "cuTensorMapEncodeIm2colWide",
                                         "cuDeviceGetHostAtomicCapabilities",
                                         "cuCtxRecordEvent"};

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *function = NULL;
        int status;
        cuGetProcAddress(wanted[i], &function, 13000, 0, &status);
        fact(named("found.%s", wanted[i]), "%s", function ? "yes" : "no");
    }
}

/* --- pointers without a context --- */

static void three_attributes(const char *name, CUdeviceptr pointer)
{
    unsigned int type = 99, managed = 99;
    int where = 99;
    int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &managed, &where};
    CUresult result = cuPointerGetAttributes(3, attributes, values, pointer);

    fact(name, "%s, %u %u %d", result_name(result), type, managed, where);
}

static void pointers(void)
{
    char host[64];
    unsigned int type = 99;
    CUdeviceptr memory = block(BYTES);

    cuCtxSetCurrent(NULL);
    three_attributes("pointer.no_context.host", (uintptr_t)host);
    three_attributes("pointer.no_context.device", memory);
    fact_result(
        "pointer.no_context.type_of_host",
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)host));
    fact_result("pointer.no_context.type_of_device",
                cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    cuCtxSetCurrent(context);
    cuMemFree(memory);
}

/* --- memory of graphs --- */

static void allocation(const char *name, int type, int location)
{
    CUDA_MEM_ALLOC_NODE_PARAMS wanted = {0}, got = {0};
    CUgraphNode node = NULL;
    CUgraph graph;

    cuGraphCreate(&graph, 0);
    wanted.poolProps.allocType = type;
    wanted.poolProps.location.type = location;
    wanted.bytesize = BYTES;
    CUresult result = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted);
    fact_result(named("graph.allocation.%s", name), result);
    if (result == CUDA_SUCCESS)
        fact_result(named("graph.allocation.%s.params", name),
                    cuGraphMemAllocNodeGetParams(node, &got));
    cuGraphDestroy(graph);
}

static void graph_memory(void)
{
    uint64_t value = 7, none = 0;

    allocation("device", 1, CU_MEM_LOCATION_TYPE_DEVICE);
    allocation("managed", 2, CU_MEM_LOCATION_TYPE_DEVICE);
    allocation("host", 1, CU_MEM_LOCATION_TYPE_HOST);
    for (int attribute = 0; attribute < 4; attribute++)
        fact_result(named("graph.memory.attribute_%d", attribute),
                    cuDeviceGetGraphMemAttribute(device, attribute, &value));
    fact_result("graph.memory.reset_used_high",
                cuDeviceSetGraphMemAttribute(device, 1, &none));
    fact_result("graph.memory.trim", cuDeviceGraphMemTrim(device));
    fact_result("graph.memory.attribute_4",
                cuDeviceGetGraphMemAttribute(device, 4, &value));
    fact_result("graph.memory.set_used_now",
                cuDeviceSetGraphMemAttribute(device, 0, &none));
    value = 1;
    fact_result("graph.memory.set_used_high_to_1",
                cuDeviceSetGraphMemAttribute(device, 1, &value));
    fact_result("graph.memory.bad_device", cuDeviceGraphMemTrim(99));
}

/* --- managed memory: where it prefers to be --- */

static int range_value(CUdeviceptr pointer, int which)
{
    int value = 77;

    cuMemRangeGetAttribute(&value, sizeof value, which, pointer, BYTES);
    return value;
}

static void preferred(const char *name, CUdeviceptr pointer)
{
    fact(named("managed.%s.preferred", name), "%d %d %d", range_value(pointer, 2),
         range_value(pointer, 5), range_value(pointer, 6));
}

static void prefetched(const char *name, CUdeviceptr pointer)
{
    fact(named("managed.%s.prefetched", name), "%d %d %d", range_value(pointer, 4),
         range_value(pointer, 7), range_value(pointer, 8));
}

static void managed(void)
{
    enum { SET_PREFERRED = 3, UNSET_PREFERRED = 4, SET_ACCESSED = 5, UNSET_ACCESSED = 6 };
    const CUmemLocation numa = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0},
                        host = {CU_MEM_LOCATION_TYPE_HOST, 0}, none = {0, 0},
                        here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUdeviceptr out = 0;
    int list[3] = {7, 7, 7};

    cuMemAllocManaged(&out, BYTES, CU_MEM_ATTACH_GLOBAL);
    cuMemAdvise_v2(out, BYTES, SET_PREFERRED, numa);
    prefetched("host_numa", out); /* where it prefers to be: not on all machines */
    fact_result("managed.unset_wrong_location",
                cuMemAdvise_v2(out, BYTES, UNSET_PREFERRED, none));
    cuMemAdvise_v2(out, BYTES, UNSET_PREFERRED, host);
    preferred("unset", out);
    cuMemAdvise_v2(out, BYTES, SET_PREFERRED, here);
    preferred("device", out);
    prefetched("device", out);
    cuMemAdvise_v2(out, BYTES, SET_ACCESSED, host);
    cuMemAdvise_v2(out, BYTES, SET_ACCESSED, here);
    cuMemRangeGetAttribute(list, sizeof list, 3, out, BYTES);
    fact("managed.accessed_by.two", "%d %d %d", list[0], list[1], list[2]);
    cuMemAdvise_v2(out, BYTES, UNSET_ACCESSED, here);
    cuMemRangeGetAttribute(list, sizeof list, 3, out, BYTES);
    fact("managed.accessed_by.one_unset", "%d %d %d", list[0], list[1], list[2]);
    cuMemFree(out);
}

static void prefetching(void)
{
    const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    size_t bytes = BYTES, first = 0, second = 1;
    CUmemLocation where = here;
    CUdeviceptr out = 0;

    cuMemAllocManaged(&out, BYTES, CU_MEM_ATTACH_GLOBAL);
    fact_result("prefetch_batch",
                cuMemPrefetchBatchAsync(&out, &bytes, 1, &where, &first, 1, 0, stream));
    fact_result("prefetch_batch.no_ranges",
                cuMemPrefetchBatchAsync(&out, &bytes, 0, &where, &first, 1, 0, stream));
    fact_result("prefetch_batch.first_range_1",
                cuMemPrefetchBatchAsync(&out, &bytes, 1, &where, &second, 1, 0, stream));
    fact_result("prefetch_batch.flags_1",
                cuMemPrefetchBatchAsync(&out, &bytes, 1, &where, &first, 1, 1, stream));
    fact_result("discard_batch", cuMemDiscardBatchAsync(&out, &bytes, 1, 0, stream));
    cuStreamSynchronize(stream);
    cuMemFree(out);
    cuStreamDestroy(stream);
}

/* --- conditional nodes --- */

static CUresult add_condition(CUgraph graph, CUgraphConditionalHandle handle, int type,
                              unsigned int size, CUgraph *body)
{
    CUgraphNodeParams params = {.type = 13};
    CUgraphNode node;

    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    params.conditional.ctx = context;
    CUresult result = cuGraphAddNode(&node, graph, NULL, NULL, 0, &params);
    if (result == CUDA_SUCCESS && body)
        *body = params.conditional.phGraph_out[0];
    return result;
}

static void conditions(void)
{
    CUgraphConditionalHandle handle = 0;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr memory = block_of(BYTES, 1);
    CUgraph graph, other, body = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node;

    cuGraphCreate(&graph, 0);
    cuGraphCreate(&other, 0);
    fact_result("condition.null",
                cuGraphConditionalHandleCreate(NULL, graph, context, 0, 0));
    fact_result("condition.flags_2",
                cuGraphConditionalHandleCreate(&handle, graph, context, 0, 2));
    fact_result("condition",
                cuGraphConditionalHandleCreate(&handle, graph, context, 1, 1));
    fact_result("condition.if_of_0_branches", add_condition(graph, handle, 0, 0, NULL));
    fact_result("condition.if_of_3_branches", add_condition(graph, handle, 0, 3, NULL));
    fact_result("condition.while_of_2_branches",
                add_condition(graph, handle, 1, 2, NULL));
    fact_result("condition.type_3", add_condition(graph, handle, 3, 1, NULL));
    fact_result("condition.of_another_graph", add_condition(other, handle, 0, 1, NULL));
    fact_result("condition.if", add_condition(graph, handle, 0, 1, &body));
    CUDA_MEMSET_NODE_PARAMS fill = {
        .dst = memory, .value = 9, .elementSize = 1, .width = BYTES, .height = 1};
    fact_result("condition.memset_in_branch",
                cuGraphAddMemsetNode(&node, body, NULL, 0, &fill, context));
    fact_result("condition.destroy_branch", cuGraphDestroy(body));
    fact_result("condition.instantiate", cuGraphInstantiate(&exec, graph, 0));
    fact_result("condition.launch", cuGraphLaunch(exec, stream));
    cuStreamSynchronize(stream);
    fact("condition.default_1.byte", "%d", peek(memory));
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuGraphDestroy(other);
    cuMemFree(memory);
    cuStreamDestroy(stream);
}

/* --- arrays --- */

static CUresult array_of(size_t width, size_t height, int format, unsigned int channels)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = width, .Height = height, .Format = format, .NumChannels = channels};
    CUarray array = NULL;
    CUresult result = cuArray3DCreate(&array, &shape);

    if (result == CUDA_SUCCESS)
        cuArrayDestroy(array);
    return result;
}

static void arrays(void)
{
    enum { UINT8 = 1, FLOAT = 0x20 };
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 64, .Height = 4, .Format = UINT8, .NumChannels = 1};
    CUDA_MEMCPY2D copy = {.srcMemoryType = 2,
                          .dstMemoryType = 3,
                          .srcPitch = 64,
                          .WidthInBytes = 64,
                          .Height = 4};
    CUdeviceptr from = block_of(BYTES, 5), to = block_of(BYTES, 1);
    CUarray array = NULL;

    fact_result("array.width_0", array_of(0, 4, UINT8, 1));
    fact_result("array.channels_3", array_of(64, 4, UINT8, 3));
    fact_result("array.format_7", array_of(64, 4, 7, 1));
    fact_result("array.row", array_of(64, 0, FLOAT, 4));
    fact_result("array", cuArray3DCreate(&array, &shape));
    copy.srcDevice = from;
    copy.dstArray = array;
    fact_result("array.copy_in", cuMemcpy2D(&copy));
    copy.dstY = 1;
    fact_result("array.copy_past_the_end", cuMemcpy2D(&copy));
    copy = (CUDA_MEMCPY2D){.srcMemoryType = 3,
                           .srcArray = array,
                           .dstMemoryType = 2,
                           .dstDevice = to,
                           .dstPitch = 64,
                           .WidthInBytes = 64,
                           .Height = 4};
    fact_result("array.copy_out", cuMemcpy2D(&copy));
    cuCtxSynchronize();
    fact_bool("array.copied", all_are(to, 256, 5));
    fact_result("array.destroy", cuArrayDestroy(array));
    cuMemFree(from);
    cuMemFree(to);
}

static const struct part parts[] = {
    {"names", names, TOGETHER},     {"graph_memory", graph_memory, TOGETHER},
    {"managed", managed, TOGETHER}, {"conditions", conditions, RISKY},
    {"arrays", arrays, RISKY},      {"prefetching", prefetching, RISKY},
    {"pointers", pointers, ALONE},  END_OF_PARTS,
};
const struct theme theme_cuda_core = {"cuda_core", parts, false};
