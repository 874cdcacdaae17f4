/* Compare the signature of each driver call in src/driver/calls.h with cudaTypedefs.h.
 *
 * The list is included with the types of cuda.h under Tarn's names. So each entry of the
 * table must have the type that cudaTypedefs.h gives the symbol at that version. The
 * lists are compared by name and version at run time: the test reports an added call that
 * is not compared here.
 */
#include "test.h"
#include <cuda.h>
#include <cudaTypedefs.h>

#define TARN_DRIVER_CUDA_ABI_H /* its types come from cuda.h here */
typedef CUresult CUresult_;
typedef CUdevice CUdevice_;
typedef CUdeviceptr CUdeviceptr_;
typedef CUcontext CUcontext_;
typedef CUstream CUstream_;
typedef CUevent CUevent_;
typedef CUmemoryPool CUmemoryPool_;
typedef CUuuid CUuuid_;
typedef CUipcMemHandle CUipcMemHandle_;
typedef CUmemLocation CUmemLocation_;
typedef CUmemPoolProps CUmemPoolProps_;
typedef CUgraph CUgraph_;
typedef CUgraphNode CUgraphNode_;
typedef CUuserObject CUuserObject_;
typedef CUmemGenericAllocationHandle CUmemHandle_;
typedef CUhostFn CUhostFn_;
typedef CUstreamCaptureStatus CUstreamCaptureStatus_;
typedef CUstreamCaptureMode CUstreamCaptureMode_;
typedef CUmemAllocationGranularity_flags CUmemAllocationGranularity_;
typedef CUmemAllocationHandleType CUmemHandleType_;
typedef CUmemRangeHandleType CUmemRangeHandleType_;
typedef CUpointer_attribute CUpointerAttribute_;
typedef CUmemAccess_flags CUmemAccess_;
typedef CUmemPoolPtrExportData CUmemPoolPtrExportData_;
typedef CUmemAllocationProp CUmemAllocationProp_;
typedef CUmemAccessDesc CUmemAccessDesc_;
#include "driver/calls.h"

/* Calls whose signatures are the same type for type. */
#define SAME(X)                                                               \
    X(init, cuInit, 2000)                                                     \
    X(driver_get_version, cuDriverGetVersion, 2020)                           \
    X(get_error_name, cuGetErrorName, 6000)                                   \
    X(get_error_string, cuGetErrorString, 6000)                               \
    X(device_get_count, cuDeviceGetCount, 2000)                               \
    X(device_get, cuDeviceGet, 2000)                                          \
    X(device_get_name, cuDeviceGetName, 2000)                                 \
    X(device_get_uuid, cuDeviceGetUuid, 11040)                                \
    X(device_total_mem, cuDeviceTotalMem, 3020)                               \
    X(primary_ctx_retain, cuDevicePrimaryCtxRetain, 7000)                     \
    X(primary_ctx_release, cuDevicePrimaryCtxRelease, 11000)                  \
    X(ctx_get_current, cuCtxGetCurrent, 4000)                                 \
    X(ctx_push_current, cuCtxPushCurrent, 4000)                               \
    X(ctx_pop_current, cuCtxPopCurrent, 4000)                                 \
    X(ctx_get_device, cuCtxGetDevice, 2000)                                   \
    X(ctx_get_id, cuCtxGetId, 12000)                                          \
    X(ctx_synchronize, cuCtxSynchronize, 2000)                                \
    X(mem_get_info, cuMemGetInfo, 3020)                                       \
    X(mem_alloc, cuMemAlloc, 3020)                                            \
    X(mem_free, cuMemFree, 3020)                                              \
    X(mem_alloc_managed, cuMemAllocManaged, 6000)                             \
    X(mem_prefetch_async, cuMemPrefetchAsync, 8000)                           \
    X(mem_get_address_range, cuMemGetAddressRange, 3020)                      \
    X(mem_host_alloc, cuMemHostAlloc, 2020)                                   \
    X(mem_free_host, cuMemFreeHost, 2000)                                     \
    X(mem_host_register, cuMemHostRegister, 6050)                             \
    X(mem_host_unregister, cuMemHostUnregister, 4000)                         \
    X(mem_host_get_device_pointer, cuMemHostGetDevicePointer, 3020)           \
    X(memcpy, cuMemcpy, 4000)                                                 \
    X(memcpy_async, cuMemcpyAsync, 4000)                                      \
    X(memcpy_dtoh_async, cuMemcpyDtoHAsync, 3020)                             \
    X(memset_d8_async, cuMemsetD8Async, 3020)                                 \
    X(stream_create, cuStreamCreate, 2000)                                    \
    X(stream_destroy, cuStreamDestroy, 4000)                                  \
    X(stream_synchronize, cuStreamSynchronize, 2000)                          \
    X(stream_get_ctx, cuStreamGetCtx, 9020)                                   \
    X(stream_get_id, cuStreamGetId, 12000)                                    \
    X(stream_get_flags, cuStreamGetFlags, 5050)                               \
    X(stream_query, cuStreamQuery, 2000)                                      \
    X(stream_is_capturing, cuStreamIsCapturing, 10000)                        \
    X(stream_wait_event, cuStreamWaitEvent, 3020)                             \
    X(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode, 10010) \
    X(event_create, cuEventCreate, 2000)                                      \
    X(event_destroy, cuEventDestroy, 4000)                                    \
    X(event_record, cuEventRecord, 2000)                                      \
    X(event_query, cuEventQuery, 2000)                                        \
    X(event_synchronize, cuEventSynchronize, 2000)                            \
    X(ctx_record_event, cuCtxRecordEvent, 12050)                              \
    X(stream_get_capture_info, cuStreamGetCaptureInfo, 11030)                 \
    X(user_object_create, cuUserObjectCreate, 11030)                          \
    X(user_object_release, cuUserObjectRelease, 11030)                        \
    X(graph_retain_user_object, cuGraphRetainUserObject, 11030)               \
    X(device_can_access_peer, cuDeviceCanAccessPeer, 4000)                    \
    X(mem_get_allocation_granularity, cuMemGetAllocationGranularity, 10020)   \
    X(mem_address_reserve, cuMemAddressReserve, 10020)                        \
    X(mem_address_free, cuMemAddressFree, 10020)                              \
    X(mem_create, cuMemCreate, 10020)                                         \
    X(mem_release, cuMemRelease, 10020)                                       \
    X(mem_map, cuMemMap, 10020)                                               \
    X(mem_unmap, cuMemUnmap, 10020)                                           \
    X(mem_set_access, cuMemSetAccess, 10020)                                  \
    X(mem_retain, cuMemRetainAllocationHandle, 11000)                         \
    X(mem_export, cuMemExportToShareableHandle, 10020)                        \
    X(mem_import, cuMemImportFromShareableHandle, 10020)                      \
    X(mem_get_range_handle, cuMemGetHandleForAddressRange, 11070)             \
    X(ipc_get_mem_handle, cuIpcGetMemHandle, 4010)                            \
    X(ipc_open_mem_handle, cuIpcOpenMemHandle, 11000)                         \
    X(ipc_close_mem_handle, cuIpcCloseMemHandle, 4010)                        \
    X(device_get_default_mem_pool, cuDeviceGetDefaultMemPool, 11020)          \
    X(mem_pool_create, cuMemPoolCreate, 11020)                                \
    X(mem_pool_destroy, cuMemPoolDestroy, 11020)                              \
    X(mem_pool_trim_to, cuMemPoolTrimTo, 11020)                               \
    X(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync, 11020)              \
    X(mem_free_async, cuMemFreeAsync, 11020)                                  \
    X(pointer_get_attribute, cuPointerGetAttribute, 4000)                     \
    X(mem_pool_get_access, cuMemPoolGetAccess, 11020)                         \
    X(mem_pool_set_access, cuMemPoolSetAccess, 11020)                         \
    X(mem_pool_export, cuMemPoolExportToShareableHandle, 11020)               \
    X(mem_pool_import, cuMemPoolImportFromShareableHandle, 11020)             \
    X(mem_pool_export_pointer, cuMemPoolExportPointer, 11020)                 \
    X(mem_pool_import_pointer, cuMemPoolImportPointer, 11020)

/* Calls that take an enum there and an int here, so that numbers without a name in Tarn
 * can be passed. The arguments are written once, with ATTRIBUTE for that type. */
#define WITH_ENUM(X)                                                             \
    X(device_get_attribute, cuDeviceGetAttribute, 2000, CUdevice_attribute,      \
      (int *, ATTRIBUTE, CUdevice))                                              \
    X(mem_advise, cuMemAdvise, 8000, CUmem_advise,                               \
      (CUdeviceptr, size_t, ATTRIBUTE, CUdevice))                                \
    X(mem_pool_set_attribute, cuMemPoolSetAttribute, 11020, CUmemPool_attribute, \
      (CUmemoryPool, ATTRIBUTE, void *))                                         \
    X(mem_pool_get_attribute, cuMemPoolGetAttribute, 11020, CUmemPool_attribute, \
      (CUmemoryPool, ATTRIBUTE, void *))

#define OURS(field) __typeof__(((struct tarn__calls *)0)->field)
#define IS(one, other) __builtin_types_compatible_p(one, other)

#define X(field, symbol, version) \
    _Static_assert(IS(OURS(field), PFN_##symbol##_v##version), #symbol);
SAME(X)
#undef X

#define ATTRIBUTE int
#define X(field, symbol, version, type, arguments)                   \
    _Static_assert(IS(OURS(field), CUresult(*) arguments), #symbol); \
    _Static_assert(sizeof(type) == sizeof(int), #type);
WITH_ENUM(X)
#undef X
#undef ATTRIBUTE

#define X(field, symbol, version, type, arguments)                                     \
    static void field##_is_theirs(void)                                                \
    {                                                                                  \
        typedef type ATTRIBUTE;                                                        \
        _Static_assert(IS(PFN_##symbol##_v##version, CUresult(*) arguments), #symbol); \
    }
WITH_ENUM(X)
#undef X

struct call {
    const char *symbol;
    int version;
};

static const struct call compared[] = {
#define X(field, symbol, version, ...) {#symbol, version},
    SAME(X) WITH_ENUM(X)
#undef X
};
enum { COMPARED = sizeof compared / sizeof *compared };

static bool is_compared(const char *symbol, int version)
{
    for (int i = 0; i < COMPARED; i++)
        if (strcmp(compared[i].symbol, symbol) == 0)
            return compared[i].version == version;
    return false;
}

TEST(calls_of_the_list_have_the_signatures_of_cuda_h)
{
    int count = 0;

#define X(field, symbol, version, type, arguments) field##_is_theirs();
    WITH_ENUM(X)
#undef X
#define X(field, symbol, version, need, arguments)                              \
    if (!is_compared(symbol, version))                                          \
        fail_msg("%s of version %d is compared with nothing", symbol, version); \
    count++;
    TARN__CUDA_CALLS(X)
#undef X
    CHECK_EQUAL(COMPARED, count);
}
