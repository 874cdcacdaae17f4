/* dma_buf.c -- a block as a dma-buf descriptor, for the driver of another device.
 *
 * The kernel pins whole pages of the host, so the range is that of the pages around the
 * block. The driver rejects memory that it has no descriptor for. Tarn does not check it
 * beforehand. An H200 accepts a range over several handles of cuMemCreate, such as a block
 * of a pool. It rejects 8 KiB of cuMemAlloc, and mappings over PCIe as not supported.
 */
#define _GNU_SOURCE
#include "driver/driver.h"
#include "pointer/pointer.h"
#include <fcntl.h>
#include <tarn/ipc.h>
#include <unistd.h>

/* Return the pages around the block. */
static tarn_ipc_dma_buf range_of(const tarn_pointer *pointer)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t offset = (size_t)(tarn_pointer_address(pointer) % page);
    size_t bytes = offset + tarn_pointer_bytes(pointer);

    return (tarn_ipc_dma_buf){
        .file = -1, .offset = offset, .bytes = (bytes + page - 1) / page * page};
}

static tarn_status not_supported(const tarn_pointer *pointer, CUresult_ result,
                                 const char *why)
{
    return tarn_error_set_native(
        TARN_NOT_SUPPORTED, result,
        "ipc: %zu bytes at 0x%llx on device %d have no dma-buf: %s",
        tarn_pointer_bytes(pointer), tarn_pointer_address(pointer),
        tarn_pointer_device(pointer), why);
}

/* In a scope: request the descriptor. */
static tarn_status request(const struct tarn__calls *calls, const tarn_pointer *pointer,
                           bool over_pcie, tarn_ipc_dma_buf *out)
{
    CUresult_ result = calls->mem_get_range_handle(
        &out->file, tarn_pointer_address(pointer) - out->offset, out->bytes,
        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD_,
        over_pcie ? CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE_ : 0);

    if (result == CUDA_ERROR_NOT_SUPPORTED_)
        return not_supported(pointer, result,
                             over_pcie ? "the driver does not support it over PCIe"
                                       : "the driver does not support it");
    if (result == CUDA_ERROR_INVALID_VALUE_)
        return not_supported(
            pointer, result,
            over_pcie ? "the driver rejects the range, or mappings over PCIe"
                      : "the driver rejects the range; it accepts memory of "
                        "cuMemCreate, as that of the exportable resource and of pools");
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuMemGetHandleForAddressRange", result,
                                   "%zu bytes around 0x%llx", out->bytes,
                                   tarn_pointer_address(pointer));
    fcntl(out->file, F_SETFD, FD_CLOEXEC); /* not all drivers set it */
    return TARN_OK;
}

static tarn_status check(const tarn_pointer *pointer, const tarn_ipc_dma_buf *out)
{
    if (!pointer || !out || tarn_pointer_bytes(pointer) == 0)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "ipc: dma-buf: %s",
                              out ? "the pointer is NULL or empty" : "out is NULL");
    tarn_status status = tarn__pointer_check_alive("ipc", pointer);
    if (status != TARN_OK)
        return status;
    if (tarn_pointer_get_kind(pointer) != TARN_POINTER_DEVICE)
        return not_supported(pointer, CUDA_SUCCESS_, "they are not plain device memory");
    return tarn__driver_gone() ? tarn__device_gone("ipc", tarn_pointer_device(pointer))
                               : TARN_OK;
}

tarn_status tarn_ipc_export_dma_buf(const tarn_pointer *pointer, bool over_pcie,
                                    tarn_ipc_dma_buf *out)
{
    struct tarn__scope scope;
    tarn_status status = check(pointer, out);

    if (status == TARN_OK)
        status = tarn__scope_enter_relaxed(tarn_pointer_device(pointer), &scope);
    if (status != TARN_OK)
        return status;
    tarn_ipc_dma_buf made = range_of(pointer);
    status = scope.calls->mem_get_range_handle
                 ? request(scope.calls, pointer, over_pcie, &made)
                 : not_supported(pointer, CUDA_SUCCESS_,
                                 "the driver has no cuMemGetHandleForAddressRange");
    tarn__scope_leave(&scope);
    if (status == TARN_OK)
        *out = made;
    return status;
}
