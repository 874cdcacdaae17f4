/* open.c -- from a handle to a pointer: directly where the device reaches the memory, by
 * a copy elsewhere.
 *
 * A handle is data from outside. Its offset and size are checked against the driver's
 * mapping, by differences, so that nothing can wrap. Nothing else in it decides about
 * memory.
 *
 * A copy needs the handle no longer than the copying takes. Its memory belongs to the
 * copy: it comes from the device's resource and returns there like any other block.
 */
#include "ipc/open.h"
#include "ipc/copy.h"
#include "base/cancellation.h"
#include "ipc/export.h"
#include "ipc/lease.h"
#include "ipc/server.h"
#include "pointer/pointer.h"
#include "base/error.h"
#include "base/options.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/device.h>

enum { DEFAULT_TIMEOUT_MS = 10000 };

/* The data of an opened pointer; its `owner` in pointer.h. */
struct opened {
    struct tarn__mapping *mapping; /* with a reference */
    struct tarn__lease *lease;     /* with a reference; NULL: the handle was plain */
};

/* --- closing --- */

/* Release the mapping first: until it is gone the owner's memory is in use. */
static tarn_status release_import(tarn_pointer *pointer)
{
    struct opened *opened = pointer->owner;

    if (tarn__driver_gone())
        return TARN_OK;
    tarn_status status = tarn__mapping_release(opened->mapping);
    if (status == TARN_OK)
        tarn__lease_release(opened->lease);
    return status;
}

static tarn_status undo(struct tarn__mapping *mapping, struct tarn__lease *lease,
                        tarn_status status)
{
    struct tarn__kept_error why = tarn__error_keep();

    if (tarn__mapping_release(mapping) != TARN_OK)
        tarn__mapping_release(mapping); /* nothing is left that could retry later */
    tarn__lease_release(lease);
    tarn__error_restore(&why);
    return status;
}

/* --- opening on one device --- */

static tarn_status check_bounds(const tarn_ipc_handle *handle,
                                const struct tarn__mapping *mapping)
{
    if (handle->offset <= mapping->bytes &&
        handle->bytes <= mapping->bytes - handle->offset)
        return TARN_OK;
    return tarn_error_set(
        TARN_INVALID_ARGUMENT,
        "ipc: %zu bytes at offset %zu exceed the allocation of %zu bytes", handle->bytes,
        handle->offset, mapping->bytes);
}

/* Make a pointer over the mapping. It owns both references, except on failure. */
static tarn_status make_pointer(const tarn_ipc_handle *handle, int device,
                                struct tarn__mapping *mapping, struct tarn__lease *lease,
                                tarn_pointer **out)
{
    struct opened *opened = malloc(sizeof *opened);
    tarn_pointer *pointer;
    tarn_status status =
        opened ? tarn__pointer_blank(TARN_POINTER_DEVICE, device, handle->bytes, &pointer)
               : tarn_error_set(TARN_OUT_OF_MEMORY, "ipc: no host memory for a pointer");

    if (status != TARN_OK) {
        free(opened);
        return status;
    }
    *opened = (struct opened){mapping, lease};
    pointer->owner = opened;
    pointer->owner_release = free;
    tarn__pointer_place(pointer, mapping->base + handle->offset, NULL, release_import);
    *out = pointer;
    return TARN_OK;
}

/* The memory that a plain handle names. */
static struct tarn__origin origin_of(const struct tarn__handle_encoding *encoding)
{
    struct tarn__origin origin = {.backing = tarn__wire_backing_of(encoding)};

    memcpy(origin.bytes, encoding, sizeof *encoding);
    return origin;
}

/* The memory under a served block, as its owner reports it. */
static struct tarn__origin origin_under(const struct tarn__handle_encoding *encoding,
                                        const struct tarn__wire_reply *reply)
{
    struct tarn__origin origin = {.backing = TARN__BACKING_CUDA};
    struct tarn__handle_encoding plain = *encoding;

    if (reply->backing == TARN__BACKING_CUDA) {
        memcpy(origin.bytes, reply->pointer, sizeof origin.bytes);
        return origin;
    }
    plain.kind = TARN_IPC_PLAIN;
    plain.slot = reply->slot;
    plain.generation = reply->generation;
    plain.base = reply->backing == TARN__BACKING_DRIVER_POOL ? reply->base : 0;
    tarn__handle_encoding_seal(&plain);
    return origin_of(&plain);
}

/* Map the memory that an owner gave. */
static tarn_status map_answer(const struct tarn__handle_encoding *encoding,
                              const struct tarn__client_answer *answer, int device,
                              struct tarn__mapping **out)
{
    const struct tarn__wire_reply *reply = &answer->reply;
    struct tarn__origin origin = origin_under(encoding, reply);
    struct tarn__source source = {answer->memory, (size_t)reply->bytes, reply->pool, {0}};

    memcpy(source.pointer, reply->pointer, sizeof source.pointer);
    return tarn__mapping_make(&origin, device, &source, out);
}

/* Query the owner, map, and record the lease where there is one. */
static tarn_status query_and_map(const struct tarn__handle_encoding *encoding, int device,
                                 unsigned timeout_ms, struct tarn__mapping **mapping_out,
                                 struct tarn__lease **lease_out)
{
    struct tarn__client_answer answer;
    tarn_status status = tarn__client_query_owner(encoding, timeout_ms, &answer);

    if (status != TARN_OK)
        return status;
    status = map_answer(encoding, &answer, device, mapping_out);
    tarn__descriptor_close(answer.memory);
    if (status != TARN_OK) {
        tarn__descriptor_close(answer.connection);
        return status;
    }
    if (encoding->kind == TARN_IPC_PLAIN)
        return TARN_OK;
    status = tarn__lease_make(encoding, device, answer.connection,
                              &(*mapping_out)->origin, lease_out);
    return status == TARN_OK ? TARN_OK : undo(*mapping_out, NULL, status);
}

static tarn_status check_encoding(const tarn_ipc_handle *handle,
                                  struct tarn__handle_encoding *out)
{
    tarn_status status = tarn__handle_encoding_decode(handle->reserved, out);

    if (status == TARN_OK && tarn__server_is_ours(out->server))
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "ipc: the handle was exported by this process; use the pointer");
    return status;
}

static tarn_status obtain_by_encoding(const tarn_ipc_handle *handle, int device,
                                      unsigned timeout_ms,
                                      struct tarn__mapping **mapping_out,
                                      struct tarn__lease **lease_out)
{
    struct tarn__handle_encoding encoding;
    tarn_status status = check_encoding(handle, &encoding);

    if (status != TARN_OK)
        return status;
    if (encoding.kind == TARN_IPC_SERVED)
        status = tarn__lease_find(&encoding, device, mapping_out, lease_out);
    else {
        struct tarn__origin origin = origin_of(&encoding);
        *mapping_out = tarn__mapping_find(&origin, device);
    }
    if (status != TARN_OK || *mapping_out)
        return status;
    return query_and_map(&encoding, device, timeout_ms, mapping_out, lease_out);
}

/* Retain the mapping, and the lease behind it. */
static tarn_status obtain(const tarn_ipc_handle *handle, int device, unsigned timeout_ms,
                          struct tarn__mapping **mapping_out,
                          struct tarn__lease **lease_out)
{
    struct tarn__origin origin = {.backing = TARN__BACKING_CUDA};
    struct tarn__source none = {.memory = -1};

    if (tarn__handle_encoding_has_magic(handle->reserved))
        return obtain_by_encoding(handle, device, timeout_ms, mapping_out, lease_out);
    memcpy(origin.bytes, handle->reserved, sizeof origin.bytes);
    *mapping_out = tarn__mapping_find(&origin, device);
    return *mapping_out ? TARN_OK
                        : tarn__mapping_make(&origin, device, &none, mapping_out);
}

static tarn_status open_on(const tarn_ipc_handle *handle, int device, unsigned timeout_ms,
                           tarn_pointer **out)
{
    struct tarn__mapping *mapping = NULL;
    struct tarn__lease *lease = NULL;
    tarn_status status = obtain(handle, device, timeout_ms, &mapping, &lease);

    if (status != TARN_OK)
        return status;
    status = check_bounds(handle, mapping);
    if (status == TARN_OK)
        status = make_pointer(handle, device, mapping, lease, out);
    return status == TARN_OK ? TARN_OK : undo(mapping, lease, status);
}

tarn_status tarn__open_fabric(const struct tarn__fabric_encoding *encoding, int device,
                              tarn_pointer **out)
{
    const tarn_ipc_handle handle = {.bytes = (size_t)encoding->bytes,
                                    .offset = (size_t)encoding->offset};
    const struct tarn__source source = {.memory = -1,
                                        .bytes = (size_t)encoding->segment_bytes};
    struct tarn__origin origin = {.backing = TARN__BACKING_FABRIC};

    memcpy(origin.bytes, encoding->fabric, sizeof origin.bytes);
    struct tarn__mapping *mapping = tarn__mapping_find(&origin, device);
    tarn_status status =
        mapping ? TARN_OK : tarn__mapping_make(&origin, device, &source, &mapping);
    if (status != TARN_OK)
        return status;
    status = check_bounds(&handle, mapping);
    if (status == TARN_OK)
        status = make_pointer(&handle, device, mapping, NULL, out);
    return status == TARN_OK ? TARN_OK : undo(mapping, NULL, status);
}

/* --- opening by a copy --- */

static tarn_status allocate_copy(const tarn_pointer *from, int device, tarn_pointer **out)
{
    tarn_resource *resource;
    tarn_pointer *copy;
    tarn_status status = tarn_device_resource(device, &resource);

    if (status != TARN_OK)
        return status;
    status = tarn_pointer_allocate(resource, tarn_pointer_bytes(from), TARN_STREAM_NONE,
                                   &copy);
    tarn_resource_release(resource);
    if (status != TARN_OK)
        return status;
    status = tarn__copy_between(from, copy);
    if (status == TARN_OK)
        *out = copy;
    else
        tarn__pointer_drop(copy);
    return status;
}

static tarn_status open_copy(const tarn_ipc_handle *handle, int source, int device,
                             unsigned timeout_ms, tarn_pointer **out)
{
    tarn_pointer *opened;
    tarn_status status = open_on(handle, source, timeout_ms, &opened);

    if (status != TARN_OK)
        return status;
    status = allocate_copy(opened, device, out);
    if (status == TARN_OK)
        tarn_pointer_release(opened);
    else
        tarn__pointer_drop(opened);
    return status;
}

/* --- which device --- */

static tarn_status no_device(const tarn_ipc_handle *handle)
{
    return tarn_error_set_native(
        TARN_NOT_FOUND, ENODEV,
        "ipc: this process does not have the device of the memory "
        "(device %d of its owner)",
        handle->device);
}

/* Find the device of this process with that uuid. It may have another number here. */
static tarn_status find_device(const tarn_ipc_handle *handle, int *out)
{
    const struct tarn__calls *calls;
    tarn_status status = tarn__device_check("ipc", 0);

    if (status == TARN_OK)
        status = tarn__driver(&calls);
    if (status != TARN_OK)
        return status;
    int count = tarn__driver_device_count();
    for (int i = 0; i < count; i++) {
        int device = (handle->device >= 0 && handle->device < count)
                         ? (handle->device + i) % count
                         : i; /* try the owner's number first: it is mostly the same */
        unsigned char uuid[16];
        status = tarn__export_device_uuid(device, uuid);
        if (status != TARN_OK)
            return status;
        if (memcmp(uuid, handle->uuid, sizeof uuid) == 0) {
            *out = device;
            return TARN_OK;
        }
    }
    return no_device(handle);
}

/* Can `device` use memory that lies on `source`? */
static tarn_status reaches(int device, int source, bool *out)
{
    const struct tarn__calls *calls;
    CUdevice_ one = 0, other = 0;
    int can = 0;
    tarn_status status = tarn__driver(&calls);

    if (status != TARN_OK)
        return status;
    *out = device == source;
    if (device == source || !calls->device_can_access_peer)
        return TARN_OK;
    CUresult_ result = calls->device_get(&one, device);
    if (result == CUDA_SUCCESS_)
        result = calls->device_get(&other, source);
    if (result == CUDA_SUCCESS_)
        result = calls->device_can_access_peer(&can, one, other);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("ipc", "cuDeviceCanAccessPeer", result,
                                   "devices %d and %d", device, source);
    *out = can != 0;
    return TARN_OK;
}

/* --- the call --- */

static tarn_status check_arguments(const tarn_ipc_handle *handle,
                                   const tarn_ipc_open_options *options,
                                   tarn_pointer *const *out)
{
    if (!handle || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "ipc: open: %s is NULL",
                              handle ? "out" : "handle");
    tarn_status status =
        options ? tarn__options_check("ipc", options, sizeof *options, sizeof *options)
                : TARN_OK;
    if (status != TARN_OK)
        return status;
    if (handle->bytes == 0)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "ipc: open: the handle has 0 bytes");
    if (tarn__driver_gone())
        return tarn_error_set(TARN_DRIVER_FAILURE,
                              "ipc: open: this process is exiting or is a forked child");
    return TARN_OK;
}

tarn_status tarn_ipc_open(const tarn_ipc_handle *handle,
                          const tarn_ipc_open_options *options, tarn_pointer **out)
{
    TARN__NOT_CANCELLED;
    tarn_ipc_open_options requested = {.size = sizeof requested};
    int source = 0;
    bool is_reached = true;
    tarn_status status = check_arguments(handle, options, out);

    if (status != TARN_OK)
        return status;
    if (options)
        requested = *options;
    if (requested.timeout_ms == 0)
        requested.timeout_ms = DEFAULT_TIMEOUT_MS;
    status = find_device(handle, &source);
    if (status != TARN_OK)
        return status;
    int device = requested.device_plus_1 ? requested.device_plus_1 - 1 : source;
    status = tarn__device_check("ipc", device);
    if (status == TARN_OK)
        status = reaches(device, source, &is_reached);
    if (status != TARN_OK)
        return status;
    if (!is_reached || requested.always_copy)
        return open_copy(handle, source, device, requested.timeout_ms, out);
    return open_on(handle, device, requested.timeout_ms, out);
}
