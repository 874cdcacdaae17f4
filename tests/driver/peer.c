/* peer.c -- facts about two devices: peer access, copies between them, foreign streams.
 *
 * With one device only the first part prints facts.
 */
#include "facts.h"

static CUcontext peer; /* the primary context of device 1 */

static void itself(void)
{
    int can = 77, value = 77;

    CUresult result = cuDeviceCanAccessPeer(&can, 0, 0);
    fact("itself.can_access", "%s, %d", result_name(result), can);
    can = 77;
    fact_output("itself.bad_device", cuDeviceCanAccessPeer(&can, 0, 99), can == 77);
    fact_result("itself.null", cuDeviceCanAccessPeer(NULL, 0, 0));
    fact_result("itself.enable", cuCtxEnablePeerAccess(context, 0));
    fact_result("itself.enable_null", cuCtxEnablePeerAccess(NULL, 0));
    fact_result("itself.disable", cuCtxDisablePeerAccess(context));
    fact_result("itself.disable_null", cuCtxDisablePeerAccess(NULL));
    fact_output("itself.p2p_attribute", cuDeviceGetP2PAttribute(&value, 2, 0, 0),
                value == 77);
    CUdeviceptr a = block_of(256, 1), b = block_of(256, 2);
    fact_result("itself.copy_peer", cuMemcpyPeer(a, context, b, context, 256));
    cuCtxSynchronize();
    fact("itself.copied", "%d", peek(a));
    fact_result("itself.copy_peer_null_context", cuMemcpyPeer(a, NULL, b, context, 256));
    cuMemFree(a);
    cuMemFree(b);
}

static bool second_device(void)
{
    return devices() >= 2 && cuDevicePrimaryCtxRetain(&peer, 1) == CUDA_SUCCESS;
}

static CUdeviceptr block_there(unsigned char value)
{
    cuCtxSetCurrent(peer);
    CUdeviceptr pointer = block_of(2 * MIB, value);
    cuCtxSetCurrent(context);
    return pointer;
}

static unsigned char peek_there(CUdeviceptr pointer)
{
    unsigned char byte = 0xee;

    cuCtxSetCurrent(peer);
    cuMemcpyDtoH(&byte, pointer, 1);
    cuCtxSetCurrent(context);
    return byte;
}

static void asking(void)
{
    int there = 77, back = 77, value = 77;

    if (!second_device())
        return;
    CUresult result = cuDeviceCanAccessPeer(&there, 0, 1);
    fact("can_access", "%s, %d", result_name(result), there);
    result = cuDeviceCanAccessPeer(&back, 1, 0);
    fact("can_access_back", "%s, %d", result_name(result), back);
    for (int i = 1; i <= 4; i++) {
        result = cuDeviceGetP2PAttribute(&value, i, 0, 1);
        fact(named("p2p_attribute_%d", i), "%s, %d", result_name(result),
             i == 1 ? value >= 0 : value);
    }
    fact_result("p2p_attribute_99", cuDeviceGetP2PAttribute(&value, 99, 0, 1));
}

static void copies_without_access(void)
{
    if (!second_device())
        return;
    CUdeviceptr here = block_of(2 * MIB, 1), there = block_there(2);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);

    fact_result("without.copy_peer", cuMemcpyPeer(here, context, there, peer, 4096));
    cuCtxSynchronize();
    fact("without.copy_peer.byte", "%d", peek(here));
    fact_result("without.dtod", cuMemcpyDtoD(there + 4096, here + 4096, 4096));
    cuCtxSynchronize();
    fact("without.dtod.byte", "%d", peek_there(there + 4096));
    fact_result("without.dtod_async", cuMemcpyDtoDAsync(here, there, 4096, stream));
    fact_result("without.any", cuMemcpyAsync(here, there, 4096, stream));
    fact_result("without.htod", cuMemcpyHtoD(there, &(char[8]){3, 3}, 8));
    fact_result("without.synchronize", cuStreamSynchronize(stream));
    cuCtxSynchronize();
    fact("without.htod.byte", "%d", peek_there(there));
    fact_result("without.free_of_the_other_device", cuMemFree(there));
}

static void memset_without_access(void)
{
    if (!second_device())
        return;
    CUdeviceptr there = block_there(2);

    fact_result("without.memset", cuMemsetD8(there, 5, 256));
    fact_result("without.memset.then", cuCtxSynchronize());
    fact("without.memset.byte", "%d", peek_there(there));
}

static void enabling(void)
{
    if (!second_device())
        return;
    CUdeviceptr there = block_there(2);

    fact_result("enable.flags_1", cuCtxEnablePeerAccess(peer, 1));
    fact_result("disable.before", cuCtxDisablePeerAccess(peer));
    fact_result("enable", cuCtxEnablePeerAccess(peer, 0));
    fact_result("enable.twice", cuCtxEnablePeerAccess(peer, 0));
    fact_result("enabled.memset", cuMemsetD8(there, 5, 256));
    cuCtxSynchronize();
    fact("enabled.memset.byte", "%d", peek_there(there));
    cuCtxSetCurrent(peer);
    fact_result("enable.other_way", cuCtxEnablePeerAccess(context, 0));
    cuCtxSetCurrent(context);
    fact_result("disable", cuCtxDisablePeerAccess(peer));
    fact_result("disable.twice", cuCtxDisablePeerAccess(peer));
    fact_result("enable.again", cuCtxEnablePeerAccess(peer, 0));
    cuMemFree(there);
}

static void attributes(void)
{
    if (!second_device())
        return;
    CUdeviceptr there = block_there(2), accessible = 7;
    CUcontext owner = NULL;
    int ordinal = -7;

    cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there);
    cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, there);
    fact("pointer.ordinal", "%d", ordinal);
    fact_bool("pointer.context_is_its_own", owner == peer);
    CUresult result =
        cuPointerGetAttribute(&accessible, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, there);
    fact("pointer.device_pointer_without_access", "%s, %s", result_name(result),
         accessible == there ? "itself"
         : accessible == 7   ? "kept"
                             : "elsewhere");
    cuCtxEnablePeerAccess(peer, 0);
    result =
        cuPointerGetAttribute(&accessible, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, there);
    fact("pointer.device_pointer_with_access", "%s, %s", result_name(result),
         accessible == there ? "itself" : "elsewhere");
    cuMemFree(there);
}

static void nothing(void *data)
{
    (void)data;
}

/* Streams and events of the other device while this one is current. */
static void foreign(void)
{
    if (!second_device())
        return;
    cuCtxSetCurrent(peer);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    CUdeviceptr there = block_of(256, 2);
    cuCtxSetCurrent(context);
    CUstream mine = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent my_event = new_event();
    CUdevice where = -7;
    struct gate gate;

    CUresult result = cuStreamGetDevice(stream, &where);
    fact("foreign.stream_device", "%s, %d", result_name(result), where);
    fact_result("foreign.memset_on_its_stream", cuMemsetD8Async(there, 5, 256, stream));
    fact_result("foreign.synchronize", cuStreamSynchronize(stream));
    fact_result("foreign.query", cuStreamQuery(stream));
    fact_result("foreign.record_my_event_there", cuEventRecord(my_event, stream));
    fact_result("foreign.record_its_event_there", cuEventRecord(event, stream));
    fact_result("foreign.record_its_event_here", cuEventRecord(event, mine));
    fact_result("foreign.host_function", cuLaunchHostFunc(stream, nothing, NULL));
    cuStreamSynchronize(stream);
    gate_close(&gate, mine);
    cuEventRecord(my_event, mine);
    fact_result("foreign.its_stream_waits_for_my_event",
                cuStreamWaitEvent(stream, my_event, 0));
    fact_result("foreign.held", cuStreamQuery(stream));
    gate_open(&gate);
    cuStreamSynchronize(stream);
    fact_result("foreign.passed", cuStreamQuery(stream));
    CUdeviceptr pooled = 0;
    fact_result("foreign.alloc_async_there", cuMemAllocAsync(&pooled, 4096, stream));
    cuPointerGetAttribute(&where, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pooled);
    fact("foreign.alloc_async_device", "%d", where);
    cuMemFreeAsync(pooled, stream);
    cuStreamSynchronize(stream);
}

static void pools_and_maps(void)
{
    if (!second_device())
        return;
    CUmemoryPool pool = NULL;
    CUmemLocation there = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    CUmemAccessDesc access = {there, 3};
    CUdeviceptr pooled = 0;
    int flags = 77;

    cuDeviceGetDefaultMemPool(&pool, 0);
    CUresult result = cuMemPoolGetAccess(&flags, pool, &there);
    fact("pool.access_from_there", "%s, %d", result_name(result), flags);
    fact_result("pool.set_access", cuMemPoolSetAccess(pool, &access, 1));
    cuMemPoolGetAccess(&flags, pool, &there);
    fact("pool.access_then", "%d", flags);
    cuMemAllocAsync(&pooled, 4096, NULL);
    cuStreamSynchronize(NULL);
    cuCtxSetCurrent(peer);
    fact_result("pool.memset_from_there", cuMemsetD8(pooled, 5, 4096));
    fact_result("pool.memset_from_there.then", cuCtxSynchronize());
    cuCtxSetCurrent(context);
    fact("pool.memset_from_there.byte", "%d", peek(pooled));
    access.flags = 0;
    fact_result("pool.unset_access", cuMemPoolSetAccess(pool, &access, 1));
    struct range range = vmm_range(2 * MIB);
    unsigned long long rights = 77;
    cuMemGetAccess(&rights, &there, range.pointer);
    fact("vmm.access_from_there", "%llu", rights);
    access.flags = 3;
    fact_result("vmm.set_access", cuMemSetAccess(range.pointer, 2 * MIB, &access, 1));
    cuMemGetAccess(&rights, &there, range.pointer);
    fact("vmm.access_then", "%llu", rights);
    cuCtxSetCurrent(peer);
    fact_result("vmm.memset_from_there", cuMemsetD8(range.pointer, 6, 256));
    fact_result("vmm.memset_from_there.then", cuCtxSynchronize());
    cuCtxSetCurrent(context);
    fact("vmm.memset_from_there.byte", "%d", peek(range.pointer));
    vmm_end(&range);
}

/* Memory of a pool of the second device, to which this device has no access. */
static void foreign_pool(void)
{
    CUmemPoolProps props = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    CUdeviceptr there = 0, here = block(4096);
    CUmemoryPool pool = NULL;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    char host[64] = "";

    if (!second_device())
        return;
    cuMemPoolCreate(&pool, &props);
    cuCtxSetCurrent(peer);
    cuMemAllocFromPoolAsync(&there, 4096, pool, NULL);
    cuMemsetD8(there, 7, 4096);
    cuCtxSynchronize();
    cuCtxSetCurrent(context);
    fact_result("pool_copy.any_from_there", cuMemcpyAsync(here, there, 1024, stream));
    fact_result("pool_copy.any_to_there", cuMemcpyAsync(there, here, 1024, stream));
    fact_result("pool_copy.dtod_async", cuMemcpyDtoDAsync(here, there, 1024, stream));
    fact_result("pool_copy.dtod", cuMemcpyDtoD(here, there, 1024));
    fact_result("pool_copy.dtoh", cuMemcpyDtoH(host, there, sizeof host));
    fact_result("pool_copy.htod", cuMemcpyHtoD(there, host, sizeof host));
    fact_result("pool_copy.peer_async",
                cuMemcpyPeerAsync(here, context, there, peer, 1024, stream));
    fact_result("pool_copy.memset", cuMemsetD8Async(there, 1, 64, stream));
    cuCtxSynchronize();
    cuMemFree(here);
    cuStreamDestroy(stream);
}

/* Memory that is mapped at two addresses: check peer access to the second mapping, while
 * the first exists and after it is unmapped. Memory with RDMA support loses it. */
static void moved(bool rdma)
{
    const char *kind = rdma ? "rdma" : "plain";
    CUmemAllocationProp prop = vmm_prop();
    CUmemAccessDesc own = vmm_access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemAccessDesc there = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, 3};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr first = 0, second;

    prop.allocFlags.gpuDirectRDMACapable = rdma;
    cuMemAddressReserve(&first, 4 * MIB, 0, 0, 0);
    second = first + 2 * MIB;
    fact_result(named("moved.%s.create", kind), cuMemCreate(&handle, 2 * MIB, &prop, 0));
    cuMemMap(first, 2 * MIB, 0, handle, 0);
    cuMemMap(second, 2 * MIB, 0, handle, 0);
    cuMemRelease(handle);
    cuMemSetAccess(first, 2 * MIB, &own, 1);
    cuMemSetAccess(second, 2 * MIB, &own, 1);
    fact_result(named("moved.%s.access_at_the_second", kind),
                cuMemSetAccess(second, 2 * MIB, &there, 1));
    there.flags = 0;
    fact_result(named("moved.%s.none_there", kind),
                cuMemSetAccess(second, 2 * MIB, &there, 1));
    cuMemUnmap(first, 2 * MIB);
    there.flags = 3;
    fact_result(named("moved.%s.access_once_the_first_is_gone", kind),
                cuMemSetAccess(second, 2 * MIB, &there, 1));
    cuMemUnmap(second, 2 * MIB);
    cuMemAddressFree(first, 4 * MIB);
}

static void moving(void)
{
    if (!second_device())
        return;
    moved(false);
    moved(true);
}

static const struct part parts[] = {
    {"itself", itself, TOGETHER},
    {"asking", asking, RISKY},
    {"copies_without_access", copies_without_access, RISKY},
    {"memset_without_access", memset_without_access, RISKY},
    {"attributes", attributes, RISKY},
    {"foreign", foreign, RISKY},
    {"pools_and_maps", pools_and_maps, RISKY},
    {"foreign_pool", foreign_pool, RISKY},
    {"moving", moving, RISKY},
    {"enabling", enabling, ALONE},
    END_OF_PARTS,
};
const struct theme theme_peer = {"peer", parts, false};
