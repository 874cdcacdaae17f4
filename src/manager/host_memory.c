/* host_memory.c -- page-locked, pinned and managed memory, straight from the driver.
 *
 * This memory does not come from the current device resource. That resource serves device
 * memory, and each request here has flags of its own. The driver itself waits for the
 * device before it frees any of it, so no stream is needed. The calls are made in relaxed
 * mode, so that they invalidate no capture. Unpinning is immediate, even while cleanup is
 * deferred: the owner needs its memory back.
 */
#include "manager/host_memory.h"
#include "base/error.h"
#include "driver/driver.h"
#include "pointer/deferred_frees.h"
#include "pointer/pointer.h"

typedef CUresult_ undo_fn(const struct tarn__calls *calls, const tarn_pointer *pointer);

/* Release memory by one driver call, in the context of its device. After exit has begun
 * there is no driver to release it to. After a reset the driver has freed the memory
 * already, or another owner has it. */
static tarn_status return_memory(const tarn_pointer *pointer, undo_fn *undo,
                                 const char *symbol)
{
    struct tarn__scope scope;

    if (tarn__driver_gone() || !tarn__context_generation_is_current(
                                   pointer->device, pointer->context_generation))
        return TARN_OK;
    tarn_status status = tarn__scope_enter_relaxed(pointer->device, &scope);
    if (status != TARN_OK)
        return status;
    CUresult_ result = undo(scope.calls, pointer);
    if (result != CUDA_SUCCESS_)
        status = tarn__driver_failed("manager", symbol, result, "%zu bytes at %p",
                                     pointer->bytes, pointer->host);
    tarn__scope_leave(&scope);
    return status;
}

static CUresult_ undo_host(const struct tarn__calls *calls, const tarn_pointer *pointer)
{
    return calls->mem_free_host(pointer->host);
}

static CUresult_ undo_pin(const struct tarn__calls *calls, const tarn_pointer *pointer)
{
    return calls->mem_host_unregister(pointer->host);
}

static CUresult_ undo_managed(const struct tarn__calls *calls,
                              const tarn_pointer *pointer)
{
    return calls->mem_free(pointer->address);
}

static tarn_status free_host(tarn_pointer *pointer)
{
    return return_memory(pointer, undo_host, "cuMemFreeHost");
}

static tarn_status unpin(tarn_pointer *pointer)
{
    return return_memory(pointer, undo_pin, "cuMemHostUnregister");
}

static tarn_status free_managed(tarn_pointer *pointer)
{
    return return_memory(pointer, undo_managed, "cuMemFree");
}

/* A mapped block has a second address, which the device uses. */
static tarn_status find_device_address(const struct tarn__scope *scope,
                                       tarn_pointer *pointer)
{
    CUdeviceptr_ address = 0;

    if (pointer->kind != TARN_POINTER_MAPPED)
        return TARN_OK;
    CUresult_ result =
        scope->calls->mem_host_get_device_pointer(&address, pointer->host, 0);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("manager", "cuMemHostGetDevicePointer", result,
                                   "%zu bytes at %p of device %d", pointer->bytes,
                                   pointer->host, pointer->device);
    tarn__pointer_place(pointer, address, pointer->host, pointer->return_memory);
    return TARN_OK;
}

static tarn_status obtain_host(const struct tarn__scope *scope, tarn_pointer *pointer,
                               unsigned flags)
{
    unsigned wanted =
        (flags & TARN_HOST_MAPPED ? CU_MEMHOSTALLOC_DEVICEMAP_ : 0u) |
        (flags & TARN_HOST_PORTABLE ? CU_MEMHOSTALLOC_PORTABLE_ : 0u) |
        (flags & TARN_HOST_WRITE_COMBINED ? CU_MEMHOSTALLOC_WRITECOMBINED_ : 0u);
    void *host = NULL;
    CUresult_ result = scope->calls->mem_host_alloc(&host, pointer->bytes, wanted);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("manager", "cuMemHostAlloc", result,
                                   "%zu bytes, flags 0x%x, device %d", pointer->bytes,
                                   wanted, pointer->device);
    tarn__pointer_place(pointer, 0, host, free_host);
    return find_device_address(scope, pointer);
}

static tarn_status obtain_pin(const struct tarn__scope *scope, tarn_pointer *pointer,
                              unsigned flags)
{
    unsigned wanted = (flags & TARN_HOST_MAPPED ? CU_MEMHOSTREGISTER_DEVICEMAP_ : 0u) |
                      (flags & TARN_HOST_PORTABLE ? CU_MEMHOSTREGISTER_PORTABLE_ : 0u);
    CUresult_ result =
        scope->calls->mem_host_register(pointer->host, pointer->bytes, wanted);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("manager", "cuMemHostRegister", result,
                                   "%zu bytes at %p, flags 0x%x, device %d",
                                   pointer->bytes, pointer->host, wanted,
                                   pointer->device);
    tarn__pointer_place(pointer, 0, pointer->host, unpin);
    return find_device_address(scope, pointer);
}

static tarn_status obtain_managed(const struct tarn__scope *scope, tarn_pointer *pointer,
                                  unsigned flags)
{
    CUdeviceptr_ address = 0;
    CUresult_ result = scope->calls->mem_alloc_managed(&address, pointer->bytes, flags);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("manager", "cuMemAllocManaged", result,
                                   "%zu bytes, flags 0x%x, device %d", pointer->bytes,
                                   flags, pointer->device);
    tarn__pointer_place(pointer, address, (void *)(uintptr_t)address, free_managed);
    return TARN_OK;
}

typedef tarn_status obtain_fn(const struct tarn__scope *scope, tarn_pointer *pointer,
                              unsigned flags);

/* Put memory behind a blank pointer in the context of its device. Reclaim deferred
 * frees and try once more if memory runs out. A success leaves the last error unchanged. */
static tarn_status fill(tarn_pointer *pointer, obtain_fn *obtain, unsigned flags)
{
    struct tarn__scope scope;
    tarn_status status = tarn__scope_enter_relaxed(pointer->device, &scope);

    if (status != TARN_OK)
        return status;
    struct tarn__kept_error before = tarn__error_keep();
    status = obtain(&scope, pointer, flags);
    if (!pointer->return_memory && tarn__deferred_frees_reclaimed(status))
        status = obtain(&scope, pointer, flags);
    if (status == TARN_OK)
        tarn__error_restore(&before);
    tarn__scope_leave(&scope);
    return status;
}

/* Make a pointer of `kind`. The call that frees its memory waits for the device. */
static tarn_status allocate(tarn_pointer_kind kind, int device, size_t bytes,
                            obtain_fn *obtain, unsigned flags, tarn_pointer **out)
{
    tarn_pointer *pointer;

    tarn__deferred_frees_retry();
    tarn_status status = tarn__pointer_blank(kind, device, bytes, &pointer);
    if (status != TARN_OK)
        return status;
    pointer->deferrable = true;
    status = fill(pointer, obtain, flags);
    if (status != TARN_OK)
        tarn__pointer_drop(pointer);
    else
        *out = pointer;
    return status;
}

tarn_status tarn__host_memory_allocate(int device, size_t bytes, unsigned flags,
                                       tarn_pointer **out)
{
    return allocate(tarn__host_memory_kind(flags), device, bytes, obtain_host, flags,
                    out);
}

tarn_status tarn__host_memory_allocate_managed(int device, size_t bytes,
                                               bool attach_global, tarn_pointer **out)
{
    return allocate(TARN_POINTER_MANAGED, device, bytes, obtain_managed,
                    attach_global ? CU_MEM_ATTACH_GLOBAL_ : CU_MEM_ATTACH_HOST_, out);
}

/* The pointer takes over the owner only when nothing can fail any more. */
tarn_status tarn__host_memory_pin(int device, void *host, size_t bytes, unsigned flags,
                                  void *owner, void (*owner_release)(void *),
                                  tarn_pointer **out)
{
    tarn_pointer *pointer;

    tarn__deferred_frees_retry();
    tarn_status status =
        tarn__pointer_blank(tarn__host_memory_kind(flags), device, bytes, &pointer);
    if (status != TARN_OK)
        return status;
    pointer->host = host;
    status = fill(pointer, obtain_pin, flags);
    if (status != TARN_OK) {
        tarn__pointer_drop(pointer);
        return status;
    }
    pointer->owner = owner;
    pointer->owner_release = owner_release;
    *out = pointer;
    return TARN_OK;
}
