/* driver_pool.c -- driver-pool export: blocks of the driver's own pools, named in
 * handles.
 *
 * A pool that was created for export is exported as a descriptor. A block in it is
 * exported as 64 bytes that are meaningful together with the pool. A handle has space for
 * neither. So it names the block by its address and by the driver's number for it, which
 * no other allocation of the process ever gets. The server queries the driver for the
 * rest when an importer opens the handle. The number of a freed block no longer exists.
 * So there is no table, and handles that no process opens cost nothing.
 *
 * CUDA requires the importer to release before the owner frees. A lease ensures that. For
 * plain handles the two processes have to.
 */
#include "ipc/driver_pool.h"
#include "ipc/descriptor.h"
#include "resource/shared_pool.h"
#include <string.h>

static bool has_calls(const struct tarn__calls *calls)
{
    return calls->pointer_get_attribute && calls->mem_pool_export &&
           calls->mem_pool_export_pointer;
}

/* Find the pool around `address`; NULL: it lies in none. */
static CUresult_ pool_around(const struct tarn__calls *calls, tarn_device_ptr address,
                             CUmemoryPool_ *out)
{
    CUresult_ result =
        calls->pointer_get_attribute(out, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE_, address);

    if (result == CUDA_SUCCESS_)
        return result;
    *out = NULL;
    return result == CUDA_ERROR_INVALID_VALUE_ ? CUDA_SUCCESS_ : result;
}

/* The driver's number for the block; 0: there is none at that address. */
static CUresult_ number_of(const struct tarn__calls *calls, tarn_device_ptr base,
                           uint64_t *out)
{
    unsigned long long number = 0;
    CUresult_ result =
        calls->pointer_get_attribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID_, base);

    *out = result == CUDA_SUCCESS_ ? number : 0;
    return result == CUDA_ERROR_INVALID_VALUE_ ? CUDA_SUCCESS_ : result;
}

static tarn_status query_failed(const char *call, CUresult_ result,
                                tarn_device_ptr address)
{
    return tarn__driver_failed("ipc", call, result, "memory at 0x%llx", address);
}

static CUresult_ export_file(const struct tarn__calls *calls, CUmemoryPool_ pool,
                             int *out)
{
    int file = -1;

    tarn__descriptor_lock();
    CUresult_ result =
        calls->mem_pool_export(&file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_, 0);
    return tarn__descriptor_record_exported(result, file, out);
}

/* --- for the owner's handle --- */

/* Can other processes open the block at `base`? On an H200 the driver rejected a block
 * whose pool had never been exported itself. */
static CUresult_ try_export(const struct tarn__calls *calls, CUmemoryPool_ pool,
                            tarn_device_ptr base)
{
    CUmemPoolPtrExportData_ pointer;
    CUresult_ result = calls->mem_pool_export_pointer(&pointer, base);
    int file = -1;

    if (result != CUDA_ERROR_INVALID_VALUE_)
        return result;
    result = export_file(calls, pool, &file);
    if (result == CUDA_SUCCESS_)
        result = calls->mem_pool_export_pointer(&pointer, base);
    tarn__descriptor_close(file);
    return result;
}

static tarn_status name_block(const struct tarn__calls *calls, CUmemoryPool_ pool,
                              tarn_device_ptr address,
                              struct tarn__driver_pool_block *out)
{
    CUresult_ result = calls->mem_get_address_range(&out->base, &out->bytes, address);

    if (result != CUDA_SUCCESS_)
        return query_failed("cuMemGetAddressRange", result, address);
    result = number_of(calls, out->base, &out->number);
    if (result != CUDA_SUCCESS_)
        return query_failed("cuPointerGetAttribute", result, address);
    result = try_export(calls, pool, out->base);
    if (result == CUDA_ERROR_INVALID_VALUE_ || out->number == 0)
        return tarn_error_set_native(TARN_NOT_SUPPORTED, result,
                                     "ipc: the driver cannot export the block at 0x%llx",
                                     out->base);
    if (result != CUDA_SUCCESS_)
        return query_failed("cuMemPoolExportPointer", result, address);
    return TARN_OK;
}

tarn_status tarn__driver_pool_find_block(const struct tarn__calls *calls, int device,
                                         tarn_device_ptr address,
                                         struct tarn__driver_pool_block *out,
                                         bool *is_in_driver_pool_out)
{
    struct tarn__driver_pool_block name = {.device = device};
    CUmemoryPool_ pool = NULL;

    if (has_calls(calls)) {
        CUresult_ result = pool_around(calls, address, &pool);
        if (result != CUDA_SUCCESS_)
            return query_failed("cuPointerGetAttribute", result, address);
    }
    *is_in_driver_pool_out = pool != NULL;
    if (!pool)
        return TARN_OK;
    tarn_status status = name_block(calls, pool, address, &name);
    if (status == TARN_OK)
        *out = name;
    return status;
}

/* --- for an importer --- */

/* NULL in `*pool_out`: the block is gone. */
static CUresult_ find_pool(const struct tarn__calls *calls,
                           const struct tarn__driver_pool_block *name,
                           CUmemoryPool_ *pool_out)
{
    uint64_t number = 0;
    CUresult_ result = number_of(calls, name->base, &number);

    *pool_out = NULL;
    if (result != CUDA_SUCCESS_ || number != name->number)
        return result;
    return pool_around(calls, name->base, pool_out);
}

/* With the lock of pools. */
static CUresult_ export_block(const struct tarn__calls *calls,
                              const struct tarn__driver_pool_block *name,
                              CUmemoryPool_ pool, struct tarn__driver_pool_offer *offer,
                              int *file_out)
{
    CUmemPoolPtrExportData_ pointer;
    CUresult_ result = export_file(calls, pool, file_out);

    if (result == CUDA_SUCCESS_)
        result = calls->mem_pool_export_pointer(&pointer, name->base);
    if (result != CUDA_SUCCESS_)
        return result;
    offer->pool = tarn__shared_pool_number(pool);
    memcpy(offer->pointer, pointer.reserved, sizeof offer->pointer);
    return CUDA_SUCCESS_;
}

/* With the lock of pools: a block that exists before and after existed in between. */
static tarn_status open_in_scope(const struct tarn__calls *calls,
                                 const struct tarn__driver_pool_block *name,
                                 struct tarn__driver_pool_offer *offer, int *file_out)
{
    CUmemoryPool_ before = NULL, after = NULL;
    CUresult_ exported = CUDA_SUCCESS_, result = find_pool(calls, name, &before);
    int file = -1;

    if (before) {
        exported = export_block(calls, name, before, offer, &file);
        result = find_pool(calls, name, &after);
    }
    if (result == CUDA_SUCCESS_ && after)
        result = exported;
    if (result == CUDA_SUCCESS_ && after) {
        *file_out = file;
        return TARN_OK;
    }
    tarn__descriptor_close(file);
    return result == CUDA_SUCCESS_
               ? tarn_error_set(TARN_NOT_FOUND,
                                "ipc: the block at 0x%llx of a memory pool was freed",
                                name->base)
               : query_failed("cuMemPoolExportPointer", result, name->base);
}

tarn_status tarn__driver_pool_open(const struct tarn__driver_pool_block *name,
                                   struct tarn__driver_pool_offer *offer, int *file_out)
{
    struct tarn__scope scope;
    tarn_status status = tarn__device_check("ipc", name->device);

    if (status == TARN_OK)
        status = tarn__scope_enter_relaxed(name->device, &scope);
    if (status != TARN_OK)
        return status;
    if (has_calls(scope.calls)) {
        tarn__shared_pools_lock();
        status = open_in_scope(scope.calls, name, offer, file_out);
        tarn__shared_pools_unlock();
    } else
        status = tarn_error_set(TARN_NOT_SUPPORTED,
                                "ipc: the driver cannot export memory pools");
    tarn__scope_leave(&scope);
    return status;
}
