/* legacy_ipc.c -- a block's handle for another process, as cuIpcGetMemHandle makes it.
 *
 * A handle names a whole allocation of cuMemAlloc, and a block may lie anywhere in one,
 * so its offset goes along. Only the driver knows where the allocation begins: the
 * resource may have cut it up (A71, B12). Memory of the driver's pools, of cuMemCreate
 * and managed memory has no such handle.
 */
#include "manager/manager.h"
#include "driver/driver.h"
#include <string.h>

static tarn_status cannot_export(const tarn_pointer *pointer, CUresult_ result,
                                 const char *why)
{
    return tarn_error_set_native(TARN_NOT_SUPPORTED, result,
                                 "manager: %zu bytes at 0x%llx cannot be exported, %s; "
                                 "memory of the cuda resource "
                                 "can",
                                 tarn_pointer_bytes(pointer),
                                 tarn_pointer_address(pointer), why);
}

/* Where the allocation around a block begins. */
static tarn_status find_base(const struct tarn__calls *calls, const tarn_pointer *pointer,
                             CUdeviceptr_ *out)
{
    tarn_device_ptr address = tarn_pointer_address(pointer);
    CUdeviceptr_ base = 0;
    size_t bytes = 0;
    CUresult_ result = calls->mem_get_address_range(&base, &bytes, address);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("manager", "cuMemGetAddressRange", result,
                                   "%zu bytes at 0x%llx", tarn_pointer_bytes(pointer),
                                   address);
    if (tarn_pointer_bytes(pointer) > bytes - (address - base))
        return cannot_export(pointer, CUDA_SUCCESS_, "they are several allocations");
    *out = base;
    return TARN_OK;
}

static tarn_status export_block(const struct tarn__calls *calls,
                                const tarn_pointer *pointer, tarn_ipc_handle *out)
{
    CUipcMemHandle_ handle;
    CUdeviceptr_ base = 0;
    tarn_status status = find_base(calls, pointer, &base);

    if (status != TARN_OK)
        return status;
    CUresult_ result = calls->ipc_get_mem_handle(&handle, base);
    if (result == CUDA_ERROR_INVALID_VALUE_ || result == CUDA_ERROR_NOT_SUPPORTED_)
        return cannot_export(pointer, result, "the driver has no handle for them");
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("manager", "cuIpcGetMemHandle", result,
                                   "allocation at 0x%llx", base);
    memcpy(out->reserved, handle.reserved, sizeof out->reserved);
    out->bytes = tarn_pointer_bytes(pointer);
    out->offset = (size_t)(tarn_pointer_address(pointer) - base);
    out->device = tarn_pointer_device(pointer);
    return TARN_OK;
}

tarn_status tarn__legacy_ipc_handle(int device, const tarn_pointer *pointer,
                                    tarn_ipc_handle *out)
{
    struct tarn__scope scope;

    if (tarn_pointer_get_kind(pointer) != TARN_POINTER_DEVICE)
        return cannot_export(pointer, CUDA_SUCCESS_, "they are no plain device memory");
    tarn_status status = tarn__scope_enter(device, &scope);
    if (status != TARN_OK)
        return status;
    if (scope.calls->ipc_get_mem_handle)
        status = export_block(scope.calls, pointer, out);
    else
        status = cannot_export(pointer, CUDA_ERROR_NOT_SUPPORTED_,
                               "the driver has no cuIpcGetMemHandle");
    tarn__scope_leave(&scope);
    return status;
}
