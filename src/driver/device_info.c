/* device_info.c -- properties of a device, and plain work on it: wait, copy, fill. */
#include "driver/stream.h"
#include <stdio.h>
#include <string.h>

/* Query an attribute; 0 where the driver does not know it. */
static int attribute(const struct tarn__calls *calls, int which, CUdevice_ device)
{
    int value = 0;

    return calls->device_get_attribute(&value, which, device) == CUDA_SUCCESS_ ? value
                                                                               : 0;
}

/* Four letters, 32 digits and four dashes: 40, and the terminator. */
static void write_uuid(const CUuuid_ *uuid, char out[48])
{
    const unsigned char *b = (const unsigned char *)uuid->bytes;
    int at = snprintf(out, 48, "GPU-");

    for (int i = 0; i < 16; i++)
        at += snprintf(out + at, (size_t)(48 - at),
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", b[i]);
}

bool tarn__device_info_uuid(int device, char out[48])
{
    const struct tarn__calls *calls;
    CUdevice_ handle;
    CUuuid_ uuid = {{0}};

    if (device < 0 || device >= tarn__driver_device_count() || tarn__driver_gone() ||
        tarn__driver(&calls) != TARN_OK ||
        calls->device_get(&handle, device) != CUDA_SUCCESS_ ||
        calls->device_get_uuid(&uuid, handle) != CUDA_SUCCESS_)
        return false;
    write_uuid(&uuid, out);
    return true;
}

/* Fill in the part that needs no context. */
static tarn_status describe(const struct tarn__calls *calls, int device,
                            tarn_device_info *out)
{
    CUdevice_ handle;
    CUuuid_ uuid = {{0}};
    CUresult_ result = calls->device_get(&handle, device);

    if (result == CUDA_SUCCESS_)
        result = calls->device_get_name(out->name, sizeof out->name, handle);
    if (result == CUDA_SUCCESS_)
        result = calls->device_get_uuid(&uuid, handle);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("driver", "cuDeviceGetName", result, "device %d",
                                   device);
    write_uuid(&uuid, out->uuid);
    out->compute_major =
        attribute(calls, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR_, handle);
    out->compute_minor =
        attribute(calls, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR_, handle);
    out->has_memory_pools =
        attribute(calls, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED_, handle) &&
        calls->mem_alloc_from_pool_async && calls->mem_free_async &&
        calls->mem_pool_create;
    out->has_vmm = attribute(
        calls, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED_, handle);
    out->has_managed = attribute(calls, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY_, handle);
    out->has_host_mapping =
        attribute(calls, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY_, handle);
    /* The query that the driver manual specifies, for memory as for events. */
    out->has_legacy_ipc =
        calls->ipc_get_mem_handle != NULL &&
        attribute(calls, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED_, handle);
    out->has_concurrent_managed =
        attribute(calls, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS_, handle);
    out->has_rdma = attribute(
        calls, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED_, handle);
    out->has_dma_buf = calls->mem_get_range_handle &&
                       attribute(calls, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED_, handle);
    out->has_fabric =
        attribute(calls, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED_, handle);
    return TARN_OK;
}

tarn_status tarn_driver_device_info(int device, tarn_device_info *out)
{
    tarn_device_info info;
    struct tarn__scope scope;

    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "driver: device_info: out is NULL");
    tarn_status status = tarn__device_check("driver", device);

    memset(&info, 0, sizeof info);
    if (status == TARN_OK)
        status = tarn__scope_enter(device, &scope);
    if (status != TARN_OK)
        return status;
    status = describe(scope.calls, device, &info);
    if (status == TARN_OK) {
        CUresult_ result = scope.calls->mem_get_info(&info.free_bytes, &info.total_bytes);
        if (result != CUDA_SUCCESS_)
            status = tarn__driver_failed("driver", "cuMemGetInfo", result, "device %d",
                                         device);
    }
    tarn__scope_leave(&scope);
    if (status == TARN_OK)
        *out = info;
    return status;
}

tarn_status tarn_driver_current_device(int *out)
{
    const struct tarn__calls *calls;
    CUcontext_ context = NULL;
    CUdevice_ device = 0;

    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "driver: current_device: out is NULL");
    tarn_status status = tarn__driver(&calls);
    if (status == TARN_OK)
        status = tarn__driver_check();
    if (status != TARN_OK)
        return status;
    CUresult_ result = calls->ctx_get_current(&context);
    if (result == CUDA_SUCCESS_ && context && !tarn__context_device(context, &device))
        result = calls->ctx_get_device(&device);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("driver", "cuCtxGetDevice", result,
                                   "no device returned");
    *out = device;
    return TARN_OK;
}

tarn_status tarn_driver_synchronize(int device)
{
    struct tarn__scope scope;
    tarn_status status = tarn__scope_enter(device, &scope);

    if (status != TARN_OK)
        return status;
    CUresult_ result = scope.calls->ctx_synchronize();
    if (result != CUDA_SUCCESS_)
        status = tarn__driver_failed("driver", "cuCtxSynchronize", result, "device %d",
                                     device);
    tarn__scope_leave(&scope);
    return status;
}

tarn_status tarn_stream_synchronize(int device, tarn_stream stream)
{
    struct tarn__scope scope;
    tarn_status status = tarn__scope_enter_relaxed(device, &scope);

    if (status != TARN_OK)
        return status;
    status = tarn__stream_check("driver", &scope, stream, device);
    if (status == TARN_OK) {
        CUresult_ result = scope.calls->stream_synchronize(tarn_stream_handle(stream));
        if (result != CUDA_SUCCESS_)
            status =
                tarn__driver_failed("driver", "cuStreamSynchronize", result,
                                    "stream %p of device %d", (void *)stream, device);
    }
    tarn__scope_leave(&scope);
    return status;
}

/* In a scope: queue a wait of `stream` for the queued work of `other`. */
static CUresult_ queue_wait(const struct tarn__calls *calls, CUstream_ stream,
                            CUstream_ other)
{
    CUevent_ event;
    CUresult_ result = calls->event_create(&event, CU_EVENT_DISABLE_TIMING_);

    if (result != CUDA_SUCCESS_)
        return result;
    result = calls->event_record(event, other);
    if (result == CUDA_SUCCESS_)
        result = calls->stream_wait_event(stream, event, 0);
    calls->event_destroy(event); /* the queued wait keeps it */
    return result;
}

tarn_status tarn_stream_wait(int device, tarn_stream stream, tarn_stream other)
{
    struct tarn__scope scope;
    tarn_status status = tarn__scope_enter(device, &scope);

    if (status != TARN_OK)
        return status;
    status = tarn__stream_check("driver", &scope, stream, device);
    if (status == TARN_OK)
        status = tarn__stream_check("driver", &scope, other, device);
    if (status == TARN_OK && tarn_stream_handle(stream) != tarn_stream_handle(other)) {
        CUresult_ result = queue_wait(scope.calls, tarn_stream_handle(stream),
                                      tarn_stream_handle(other));
        if (result != CUDA_SUCCESS_)
            status = tarn__driver_failed("driver", "cuStreamWaitEvent", result,
                                         "stream %p waits for stream %p of device %d",
                                         (void *)stream, (void *)other, device);
    }
    tarn__scope_leave(&scope);
    return status;
}

tarn_status tarn_memcpy_async(int device, tarn_device_ptr to, tarn_device_ptr from,
                              size_t bytes, tarn_stream stream)
{
    struct tarn__scope scope;
    CUresult_ result;

    if (bytes == 0)
        return TARN_OK;
    tarn_status status = tarn__scope_enter(device, &scope);
    if (status != TARN_OK)
        return status;
    status = tarn__stream_check("copy", &scope, stream, device);
    if (status == TARN_OK) {
        if (stream == TARN_STREAM_NONE)
            result = scope.calls->memcpy(to, from, bytes);
        else
            result =
                scope.calls->memcpy_async(to, from, bytes, tarn_stream_handle(stream));
        if (result != CUDA_SUCCESS_)
            status =
                tarn__driver_failed("copy", "cuMemcpyAsync", result,
                                    "%zu bytes from 0x%llx to 0x%llx", bytes, from, to);
    }
    tarn__scope_leave(&scope);
    return status;
}

/* A destination that does not exist was rejected before. So these results mean that the
 * memory is not managed, or that the device cannot prefetch. */
static bool cannot_migrate(CUresult_ result)
{
    return result == CUDA_ERROR_INVALID_VALUE_ || result == CUDA_ERROR_INVALID_DEVICE_ ||
           result == CUDA_ERROR_NOT_SUPPORTED_;
}

/* In a scope: queue a prefetch to device `to`, or to the host. */
static tarn_status queue_prefetch(const struct tarn__scope *scope,
                                  tarn_device_ptr address, size_t bytes, int to,
                                  tarn_stream stream)
{
    CUdevice_ where = CU_DEVICE_CPU_;
    CUresult_ result = CUDA_SUCCESS_;

    if (!scope->calls->mem_prefetch_async)
        return TARN_OK;
    if (to >= 0)
        result = scope->calls->device_get(&where, to);
    if (result == CUDA_SUCCESS_)
        result = scope->calls->mem_prefetch_async(address, bytes, where,
                                                  tarn_stream_handle(stream));
    if (result == CUDA_SUCCESS_ || cannot_migrate(result))
        return TARN_OK;
    return tarn__driver_failed("prefetch", "cuMemPrefetchAsync", result,
                               "%zu bytes at 0x%llx", bytes, address);
}

tarn_status tarn_prefetch_async(int device, tarn_device_ptr address, size_t bytes, int to,
                                tarn_stream stream)
{
    struct tarn__scope scope;

    if (bytes == 0)
        return TARN_OK;
    tarn_status status = to == -1 ? TARN_OK : tarn__device_check("prefetch", to);
    if (status == TARN_OK)
        status = tarn__scope_enter(device, &scope);
    if (status != TARN_OK)
        return status;
    status = tarn__stream_check("prefetch", &scope, stream, device);
    if (status == TARN_OK)
        status = queue_prefetch(&scope, address, bytes, to, stream);
    tarn__scope_leave(&scope);
    return status;
}

tarn_status tarn_memset_async(int device, tarn_device_ptr to, unsigned char value,
                              size_t bytes, tarn_stream stream)
{
    struct tarn__scope scope;

    if (bytes == 0)
        return TARN_OK;
    tarn_status status = tarn__scope_enter(device, &scope);
    if (status != TARN_OK)
        return status;
    status = tarn__stream_check("fill", &scope, stream, device);
    if (status == TARN_OK) {
        CUresult_ result =
            scope.calls->memset_d8_async(to, value, bytes, tarn_stream_handle(stream));
        if (result != CUDA_SUCCESS_)
            status = tarn__driver_failed("fill", "cuMemsetD8Async", result,
                                         "%zu bytes at 0x%llx", bytes, to);
    }
    tarn__scope_leave(&scope);
    return status;
}
