/* calls.h -- each CUDA driver call that Tarn uses: one list makes the table and the
 * loader.
 *
 * X(field, symbol, version, need, arguments): `symbol` is the name without a version
 * suffix. `version` is the CUDA version that introduced the variant with these arguments,
 * as cuGetProcAddress expects. NEEDED calls are in every driver since 12.0. An OPTIONAL
 * call that is missing is a null pointer, and functions that need it return
 * TARN_NOT_SUPPORTED.
 */
#ifndef TARN_DRIVER_CALLS_H
#define TARN_DRIVER_CALLS_H

#include "driver/cuda_abi.h"

#define TARN__CUDA_CALLS(X)                                                              \
    X(init, "cuInit", 2000, NEEDED, (unsigned flags))                                    \
    X(driver_get_version, "cuDriverGetVersion", 2020, NEEDED, (int *out))                \
    X(get_error_name, "cuGetErrorName", 6000, NEEDED, (CUresult_ e, const char **out))   \
    X(get_error_string, "cuGetErrorString", 6000, NEEDED,                                \
      (CUresult_ e, const char **out))                                                   \
    X(device_get_count, "cuDeviceGetCount", 2000, NEEDED, (int *out))                    \
    X(device_get, "cuDeviceGet", 2000, NEEDED, (CUdevice_ * out, int ordinal))           \
    X(device_get_name, "cuDeviceGetName", 2000, NEEDED,                                  \
      (char *out, int size, CUdevice_))                                                  \
    X(device_get_uuid, "cuDeviceGetUuid", 11040, NEEDED, (CUuuid_ * out, CUdevice_))     \
    X(device_total_mem, "cuDeviceTotalMem", 3020, NEEDED, (size_t *out, CUdevice_))      \
    X(device_get_attribute, "cuDeviceGetAttribute", 2000, NEEDED,                        \
      (int *out, int attribute, CUdevice_))                                              \
    X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", 7000, NEEDED,                      \
      (CUcontext_ * out, CUdevice_))                                                     \
    X(primary_ctx_release, "cuDevicePrimaryCtxRelease", 11000, NEEDED, (CUdevice_))      \
    X(ctx_get_current, "cuCtxGetCurrent", 4000, NEEDED, (CUcontext_ * out))              \
    X(ctx_push_current, "cuCtxPushCurrent", 4000, NEEDED, (CUcontext_))                  \
    X(ctx_pop_current, "cuCtxPopCurrent", 4000, NEEDED, (CUcontext_ * out))              \
    X(ctx_get_id, "cuCtxGetId", 12000, NEEDED, (CUcontext_, unsigned long long *out))    \
    X(ctx_get_device, "cuCtxGetDevice", 2000, NEEDED, (CUdevice_ * out))                 \
    X(ctx_synchronize, "cuCtxSynchronize", 2000, NEEDED, (void))                         \
    X(mem_get_info, "cuMemGetInfo", 3020, NEEDED, (size_t *free_out, size_t *total_out)) \
    X(mem_alloc, "cuMemAlloc", 3020, NEEDED, (CUdeviceptr_ * out, size_t bytes))         \
    X(mem_free, "cuMemFree", 3020, NEEDED, (CUdeviceptr_))                               \
    X(mem_alloc_managed, "cuMemAllocManaged", 6000, NEEDED,                              \
      (CUdeviceptr_ * out, size_t bytes, unsigned flags))                                \
    X(mem_advise, "cuMemAdvise", 8000, OPTIONAL,                                         \
      (CUdeviceptr_, size_t bytes, int advice, CUdevice_))                               \
    X(mem_prefetch_async, "cuMemPrefetchAsync", 8000, OPTIONAL,                          \
      (CUdeviceptr_, size_t bytes, CUdevice_ to, CUstream_))                             \
    X(mem_get_address_range, "cuMemGetAddressRange", 3020, NEEDED,                       \
      (CUdeviceptr_ * base_out, size_t *bytes_out, CUdeviceptr_))                        \
    X(mem_host_alloc, "cuMemHostAlloc", 2020, NEEDED,                                    \
      (void **out, size_t bytes, unsigned flags))                                        \
    X(mem_free_host, "cuMemFreeHost", 2000, NEEDED, (void *))                            \
    X(mem_host_register, "cuMemHostRegister", 6050, NEEDED,                              \
      (void *, size_t bytes, unsigned flags))                                            \
    X(mem_host_unregister, "cuMemHostUnregister", 4000, NEEDED, (void *))                \
    X(mem_host_get_device_pointer, "cuMemHostGetDevicePointer", 3020, NEEDED,            \
      (CUdeviceptr_ * out, void *, unsigned flags))                                      \
    X(memcpy, "cuMemcpy", 4000, NEEDED,                                                  \
      (CUdeviceptr_ to, CUdeviceptr_ from, size_t bytes))                                \
    X(memcpy_async, "cuMemcpyAsync", 4000, NEEDED,                                       \
      (CUdeviceptr_ to, CUdeviceptr_ from, size_t bytes, CUstream_))                     \
    X(memcpy_dtoh_async, "cuMemcpyDtoHAsync", 3020, NEEDED,                              \
      (void *to, CUdeviceptr_ from, size_t bytes, CUstream_))                            \
    X(memset_d8_async, "cuMemsetD8Async", 3020, NEEDED,                                  \
      (CUdeviceptr_ to, unsigned char value, size_t bytes, CUstream_))                   \
    X(stream_create, "cuStreamCreate", 2000, NEEDED, (CUstream_ * out, unsigned flags))  \
    X(stream_destroy, "cuStreamDestroy", 4000, NEEDED, (CUstream_))                      \
    X(stream_synchronize, "cuStreamSynchronize", 2000, NEEDED, (CUstream_))              \
    X(stream_get_ctx, "cuStreamGetCtx", 9020, NEEDED, (CUstream_, CUcontext_ * out))     \
    X(stream_get_id, "cuStreamGetId", 12000, NEEDED,                                     \
      (CUstream_, unsigned long long *out))                                              \
    X(stream_get_flags, "cuStreamGetFlags", 5050, NEEDED, (CUstream_, unsigned *out))    \
    X(stream_query, "cuStreamQuery", 2000, NEEDED, (CUstream_))                          \
    X(stream_is_capturing, "cuStreamIsCapturing", 10000, NEEDED,                         \
      (CUstream_, CUstreamCaptureStatus_ * out))                                         \
    X(stream_wait_event, "cuStreamWaitEvent", 3020, NEEDED,                              \
      (CUstream_, CUevent_, unsigned flags))                                             \
    X(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", 10010, NEEDED,  \
      (CUstreamCaptureMode_ * mode))                                                     \
    X(event_create, "cuEventCreate", 2000, NEEDED, (CUevent_ * out, unsigned flags))     \
    X(event_destroy, "cuEventDestroy", 4000, NEEDED, (CUevent_))                         \
    X(event_record, "cuEventRecord", 2000, NEEDED, (CUevent_, CUstream_))                \
    X(event_query, "cuEventQuery", 2000, NEEDED, (CUevent_))                             \
    X(event_synchronize, "cuEventSynchronize", 2000, OPTIONAL, (CUevent_))               \
    X(ctx_record_event, "cuCtxRecordEvent", 12050, OPTIONAL, (CUcontext_, CUevent_))     \
    X(stream_get_capture_info, "cuStreamGetCaptureInfo", 11030, OPTIONAL,                \
      (CUstream_, CUstreamCaptureStatus_ * status_out, uint64_t *id_out,                 \
       CUgraph_ *graph_out, const CUgraphNode_ **dependencies_out, size_t *count_out))   \
    X(user_object_create, "cuUserObjectCreate", 11030, OPTIONAL,                         \
      (CUuserObject_ * out, void *data, CUhostFn_ destroy, unsigned references,          \
       unsigned flags))                                                                  \
    X(user_object_release, "cuUserObjectRelease", 11030, OPTIONAL,                       \
      (CUuserObject_, unsigned count))                                                   \
    X(graph_retain_user_object, "cuGraphRetainUserObject", 11030, OPTIONAL,              \
      (CUgraph_, CUuserObject_, unsigned count, unsigned flags))                         \
    X(device_can_access_peer, "cuDeviceCanAccessPeer", 4000, OPTIONAL,                   \
      (int *out, CUdevice_, CUdevice_ peer))                                             \
    X(mem_get_allocation_granularity, "cuMemGetAllocationGranularity", 10020, OPTIONAL,  \
      (size_t *out, const CUmemAllocationProp_ *, CUmemAllocationGranularity_))          \
    X(mem_address_reserve, "cuMemAddressReserve", 10020, OPTIONAL,                       \
      (CUdeviceptr_ * out, size_t bytes, size_t alignment, CUdeviceptr_ wish,            \
       unsigned long long flags))                                                        \
    X(mem_address_free, "cuMemAddressFree", 10020, OPTIONAL,                             \
      (CUdeviceptr_, size_t bytes))                                                      \
    X(mem_create, "cuMemCreate", 10020, OPTIONAL,                                        \
      (CUmemHandle_ * out, size_t bytes, const CUmemAllocationProp_ *,                   \
       unsigned long long flags))                                                        \
    X(mem_release, "cuMemRelease", 10020, OPTIONAL, (CUmemHandle_))                      \
    X(mem_map, "cuMemMap", 10020, OPTIONAL,                                              \
      (CUdeviceptr_, size_t bytes, size_t offset, CUmemHandle_,                          \
       unsigned long long flags))                                                        \
    X(mem_unmap, "cuMemUnmap", 10020, OPTIONAL, (CUdeviceptr_, size_t bytes))            \
    X(mem_set_access, "cuMemSetAccess", 10020, OPTIONAL,                                 \
      (CUdeviceptr_, size_t bytes, const CUmemAccessDesc_ *, size_t count))              \
    X(mem_retain, "cuMemRetainAllocationHandle", 11000, OPTIONAL,                        \
      (CUmemHandle_ * out, void *address))                                               \
    X(mem_export, "cuMemExportToShareableHandle", 10020, OPTIONAL,                       \
      (void *out, CUmemHandle_, CUmemHandleType_, unsigned long long flags))             \
    X(mem_import, "cuMemImportFromShareableHandle", 10020, OPTIONAL,                     \
      (CUmemHandle_ * out, void *shared, CUmemHandleType_))                              \
    X(mem_get_range_handle, "cuMemGetHandleForAddressRange", 11070, OPTIONAL,            \
      (void *out, CUdeviceptr_, size_t bytes, CUmemRangeHandleType_,                     \
       unsigned long long flags))                                                        \
    X(ipc_get_mem_handle, "cuIpcGetMemHandle", 4010, OPTIONAL,                           \
      (CUipcMemHandle_ * out, CUdeviceptr_))                                             \
    X(ipc_open_mem_handle, "cuIpcOpenMemHandle", 11000, OPTIONAL,                        \
      (CUdeviceptr_ * out, CUipcMemHandle_, unsigned flags))                             \
    X(ipc_close_mem_handle, "cuIpcCloseMemHandle", 4010, OPTIONAL, (CUdeviceptr_))       \
    X(device_get_default_mem_pool, "cuDeviceGetDefaultMemPool", 11020, OPTIONAL,         \
      (CUmemoryPool_ * out, CUdevice_))                                                  \
    X(mem_pool_create, "cuMemPoolCreate", 11020, OPTIONAL,                               \
      (CUmemoryPool_ * out, const CUmemPoolProps_ *))                                    \
    X(mem_pool_destroy, "cuMemPoolDestroy", 11020, OPTIONAL, (CUmemoryPool_))            \
    X(mem_pool_set_attribute, "cuMemPoolSetAttribute", 11020, OPTIONAL,                  \
      (CUmemoryPool_, int attribute, void *value))                                       \
    X(mem_pool_get_attribute, "cuMemPoolGetAttribute", 11020, OPTIONAL,                  \
      (CUmemoryPool_, int attribute, void *out))                                         \
    X(mem_pool_trim_to, "cuMemPoolTrimTo", 11020, OPTIONAL,                              \
      (CUmemoryPool_, size_t keep_bytes))                                                \
    X(mem_alloc_from_pool_async, "cuMemAllocFromPoolAsync", 11020, OPTIONAL,             \
      (CUdeviceptr_ * out, size_t bytes, CUmemoryPool_, CUstream_))                      \
    X(mem_free_async, "cuMemFreeAsync", 11020, OPTIONAL, (CUdeviceptr_, CUstream_))      \
    X(pointer_get_attribute, "cuPointerGetAttribute", 4000, OPTIONAL,                    \
      (void *out, CUpointerAttribute_, CUdeviceptr_))                                    \
    X(mem_pool_get_access, "cuMemPoolGetAccess", 11020, OPTIONAL,                        \
      (CUmemAccess_ * out, CUmemoryPool_, CUmemLocation_ *))                             \
    X(mem_pool_set_access, "cuMemPoolSetAccess", 11020, OPTIONAL,                        \
      (CUmemoryPool_, const CUmemAccessDesc_ *, size_t count))                           \
    X(mem_pool_export, "cuMemPoolExportToShareableHandle", 11020, OPTIONAL,              \
      (void *out, CUmemoryPool_, CUmemHandleType_, unsigned long long flags))            \
    X(mem_pool_import, "cuMemPoolImportFromShareableHandle", 11020, OPTIONAL,            \
      (CUmemoryPool_ * out, void *shared, CUmemHandleType_, unsigned long long flags))   \
    X(mem_pool_export_pointer, "cuMemPoolExportPointer", 11020, OPTIONAL,                \
      (CUmemPoolPtrExportData_ * out, CUdeviceptr_))                                     \
    X(mem_pool_import_pointer, "cuMemPoolImportPointer", 11020, OPTIONAL,                \
      (CUdeviceptr_ * out, CUmemoryPool_, CUmemPoolPtrExportData_ *))

/* The table: one pointer for each call. */
struct tarn__calls {
#define X(field, symbol, version, need, arguments) CUresult_(*field) arguments;
    TARN__CUDA_CALLS(X)
#undef X
};

#endif
