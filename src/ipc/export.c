/* export.c -- from a pointer to a handle.
 *
 * A CUDA handle names a whole allocation, and a block may lie anywhere in it. So the
 * block's offset is part of the handle. For memory of cuMemAlloc, the driver knows where
 * the allocation begins and has its handle. For segments Tarn's own table knows; for
 * blocks of the driver's pools the driver knows. Their handles name this process's
 * server, which starts now.
 */
#include "ipc/export.h"
#include "base/cancellation.h"
#include "ipc/descriptor.h"
#include "ipc/mapping.h"
#include "ipc/connections.h"
#include "ipc/export_table.h"
#include "ipc/server.h"
#include "pointer/pointer.h"
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* --- uuids, queried once --- */

static struct {
    pthread_mutex_t lock;
    struct {
        bool is_known;
        unsigned char bytes[16];
    } of[TARN__DEVICES_MAX];
} uuids = {.lock = PTHREAD_MUTEX_INITIALIZER};

static tarn_status query_uuid(int device, unsigned char out[16])
{
    const struct tarn__calls *calls;
    CUdevice_ handle = 0;
    CUuuid_ uuid;
    tarn_status status = tarn__driver(&calls);

    if (status != TARN_OK)
        return status;
    CUresult_ result = calls->device_get(&handle, device);
    if (result == CUDA_SUCCESS_)
        result = calls->device_get_uuid(&uuid, handle);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuDeviceGetUuid", result, "device %d", device);
    memcpy(out, uuid.bytes, sizeof uuid.bytes);
    return TARN_OK;
}

/* `device` is one of the driver's. */
tarn_status tarn__export_device_uuid(int device, unsigned char out[16])
{
    tarn_status status = TARN_OK;

    pthread_mutex_lock(&uuids.lock);
    if (!uuids.of[device].is_known) {
        status = query_uuid(device, uuids.of[device].bytes);
        uuids.of[device].is_known = status == TARN_OK;
    }
    if (status == TARN_OK)
        memcpy(out, uuids.of[device].bytes, 16);
    pthread_mutex_unlock(&uuids.lock);
    return status;
}

/* --- the block's place in its allocation --- */

static tarn_status cannot_export(const tarn_pointer *pointer, CUresult_ result,
                                 const char *why)
{
    return tarn_error_set_native(
        TARN_NOT_SUPPORTED, result,
        "ipc: %zu bytes at 0x%llx cannot be exported: %s; exportable are the cuda and "
        "the exportable resource, async resources with that option, and pools over these",
        tarn_pointer_bytes(pointer), tarn_pointer_address(pointer), why);
}

/* Does the block lie within the `bytes` bytes from `base` on, and where? */
static tarn_status check_within(const tarn_pointer *pointer, tarn_device_ptr base,
                                size_t bytes)
{
    size_t offset = (size_t)(tarn_pointer_address(pointer) - base);

    if (tarn_pointer_bytes(pointer) <= bytes - offset)
        return TARN_OK;
    return cannot_export(pointer, CUDA_SUCCESS_, "they span several allocations");
}

/* In a scope: the allocation of cuMemAlloc around the block, and its handle. */
static tarn_status find_cuda(const struct tarn__calls *calls, const tarn_pointer *pointer,
                             struct tarn__export_memory *out, tarn_device_ptr *base_out)
{
    CUipcMemHandle_ handle;
    CUdeviceptr_ base = 0;
    size_t bytes = 0;

    if (!calls->ipc_get_mem_handle)
        return cannot_export(pointer, CUDA_ERROR_NOT_SUPPORTED_,
                             "the driver has no cuIpcGetMemHandle");
    CUresult_ result =
        calls->mem_get_address_range(&base, &bytes, tarn_pointer_address(pointer));
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuMemGetAddressRange", result,
                                   "%zu bytes at 0x%llx", tarn_pointer_bytes(pointer),
                                   tarn_pointer_address(pointer));
    tarn_status status = check_within(pointer, base, bytes);
    if (status != TARN_OK)
        return status;
    result = calls->ipc_get_mem_handle(&handle, base);
    if (result == CUDA_ERROR_INVALID_VALUE_ || result == CUDA_ERROR_NOT_SUPPORTED_)
        return cannot_export(pointer, result, "the driver has no handle for them");
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuIpcGetMemHandle", result,
                                   "allocation at 0x%llx", base);
    out->backing = TARN__BACKING_CUDA;
    memcpy(out->cuda_handle, handle.reserved, sizeof out->cuda_handle);
    *base_out = base;
    return TARN_OK;
}

/* In a relaxed scope: memory that the driver knows and Tarn does not. */
static tarn_status find_by_driver(const struct tarn__calls *calls,
                                  const tarn_pointer *pointer,
                                  struct tarn__export_memory *out,
                                  tarn_device_ptr *base_out)
{
    bool is_in_driver_pool = false;
    tarn_status status = tarn__driver_pool_find_block(
        calls, tarn_pointer_device(pointer), tarn_pointer_address(pointer),
        &out->driver_pool, &is_in_driver_pool);

    if (status == TARN_NOT_SUPPORTED)
        return cannot_export(pointer, tarn_error_last()->native,
                             "their memory pool is not exportable");
    if (status != TARN_OK)
        return status;
    if (!is_in_driver_pool)
        return find_cuda(calls, pointer, out, base_out);
    out->backing = TARN__BACKING_DRIVER_POOL;
    *base_out = out->driver_pool.base;
    return check_within(pointer, out->driver_pool.base, out->driver_pool.bytes);
}

static tarn_status find_memory(const tarn_pointer *pointer,
                               struct tarn__export_memory *out, tarn_device_ptr *base_out)
{
    struct tarn__scope scope;

    *out = (struct tarn__export_memory){.backing = TARN__BACKING_SEGMENT};
    if (tarn__segment_around(tarn_pointer_address(pointer), &out->segment)) {
        *base_out = out->segment.base;
        return check_within(pointer, out->segment.base, out->segment.bytes);
    }
    tarn_status status = tarn__scope_enter_relaxed(tarn_pointer_device(pointer), &scope);
    if (status != TARN_OK)
        return status;
    status = find_by_driver(scope.calls, pointer, out, base_out);
    tarn__scope_leave(&scope);
    return status;
}

/* --- the handle --- */

/* A handle that names our server, with the fields that `encoding` has already. */
static tarn_status encode_with_server(struct tarn__handle_encoding encoding,
                                      tarn_ipc_handle *out)
{
    tarn_status status = tarn__server_start(encoding.server);

    if (status != TARN_OK)
        return status;
    encoding.process = (int32_t)getpid();
    encoding.user = (uint32_t)geteuid();
    tarn__handle_encoding_seal(&encoding);
    memcpy(out->reserved, &encoding, sizeof encoding);
    return TARN_OK;
}

static tarn_status encode_served(uint32_t slot, uint64_t generation, tarn_ipc_handle *out)
{
    return encode_with_server((struct tarn__handle_encoding){.kind = TARN_IPC_SERVED,
                                                             .slot = slot,
                                                             .generation = generation},
                              out);
}

static tarn_status encode_plain(const struct tarn__export_memory *memory,
                                tarn_ipc_handle *out)
{
    struct tarn__handle_encoding encoding = {.kind = TARN_IPC_PLAIN};

    if (memory->backing == TARN__BACKING_CUDA) {
        memcpy(out->reserved, memory->cuda_handle, sizeof out->reserved);
        return TARN_OK;
    }
    if (memory->backing == TARN__BACKING_SEGMENT) {
        encoding.slot = memory->segment.slot;
        encoding.generation = memory->segment.generation;
    } else {
        encoding.slot = (uint32_t)memory->driver_pool.device;
        encoding.generation = memory->driver_pool.number;
        encoding.base = memory->driver_pool.base;
    }
    return encode_with_server(encoding, out);
}

static tarn_status begin(const tarn_pointer *pointer, struct tarn__export_memory *memory,
                         tarn_ipc_handle *handle)
{
    tarn_device_ptr base = 0;

    if (tarn_pointer_get_kind(pointer) != TARN_POINTER_DEVICE)
        return cannot_export(pointer, CUDA_SUCCESS_, "they are not plain device memory");
    if (tarn__driver_gone())
        return tarn_error_set(
            TARN_DRIVER_FAILURE,
            "ipc: export: this process is exiting or is a forked child");
    tarn_status status = tarn__device_check("ipc", tarn_pointer_device(pointer));
    if (status == TARN_OK)
        status = find_memory(pointer, memory, &base);
    if (status == TARN_OK)
        status = tarn__export_device_uuid(tarn_pointer_device(pointer), handle->uuid);
    if (status != TARN_OK)
        return status;
    handle->bytes = tarn_pointer_bytes(pointer);
    handle->offset = (size_t)(tarn_pointer_address(pointer) - base);
    handle->device = tarn_pointer_device(pointer);
    return TARN_OK;
}

tarn_status tarn__export_plain(const tarn_pointer *pointer, tarn_ipc_handle *out)
{
    tarn_ipc_handle handle = {.bytes = 0};
    struct tarn__export_memory memory;
    tarn_status status = begin(pointer, &memory, &handle);

    if (status == TARN_OK)
        status = encode_plain(&memory, &handle);
    if (status == TARN_OK)
        *out = handle;
    return status;
}

/* Start the server first: without it the entry would hold its pointer for nothing. */
static tarn_status export_served(tarn_pointer *pointer, tarn_ipc_handle *out)
{
    tarn_ipc_handle handle = {.bytes = 0};
    struct tarn__export_memory memory;
    uint64_t generation = 0;
    uint32_t slot = 0;

    tarn__export_table_sweep();
    tarn_status status = begin(pointer, &memory, &handle);
    if (status == TARN_OK)
        status = encode_served(0, 0, &handle);
    if (status == TARN_OK)
        status = tarn__export_table_find_or_add(pointer->base ? pointer->base : pointer,
                                                &memory, &slot, &generation);
    if (status == TARN_OK)
        status = encode_served(slot, generation, &handle);
    if (status == TARN_OK)
        *out = handle;
    return status;
}

tarn_status tarn_ipc_export(tarn_pointer *pointer, tarn_ipc_kind kind,
                            tarn_ipc_handle *out)
{
    TARN__NOT_CANCELLED;
    if (!pointer || !out || tarn_pointer_bytes(pointer) == 0)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "ipc: export: %s",
                              out ? "the pointer is NULL or empty" : "out is NULL");
    if (kind != TARN_IPC_PLAIN && kind != TARN_IPC_SERVED)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "ipc: export: unknown kind %d",
                              (int)kind);
    tarn_status status = tarn__pointer_check_alive("ipc", pointer);
    if (status != TARN_OK)
        return status;
    return kind == TARN_IPC_SERVED ? export_served(pointer, out)
                                   : tarn__export_plain(pointer, out);
}

/* Connections first: a lease ends before its connection is no longer counted. */
void tarn_ipc_get_counts(tarn_ipc_counts *out)
{
    tarn_ipc_counts counts;

    tarn__connections_counts(&counts.connections, &counts.requests, &counts.rejected);
    tarn_ipc_leases(NULL, 0, &counts.leases);
    counts.segments = tarn__segment_count();
    counts.served = tarn__export_table_count();
    counts.mapped = tarn__mapping_count();
    counts.descriptors = tarn__descriptor_count();
    *out = counts;
}
