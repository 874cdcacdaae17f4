/* calls.c -- the operations of a manager, as runtimes call them.
 *
 * A runtime calls these functions and never uses a table directly. They give every
 * manager the same guarantees:
 *
 *   - Arguments are checked.
 *   - A request of zero bytes never reaches the manager.
 *   - Nor does a mapped one where the device cannot map host memory.
 *   - The context of the manager's device is current.
 *   - initialize() has run before the first allocation, and again after a reset.
 *   - Every result is compared with the request.
 *   - An operation that the manager lacks is answered.
 *
 * Tarn's own managers pass the same checks.
 */
#include "base/error.h"
#include "base/blocking_hook.h"
#include "driver/driver.h"
#include "pointer/pointer.h"
#include "resource/backed.h"
#include "manager/host_only.h"
#include "manager/host_memory.h"
#include "manager/manager.h"
#include <string.h>

/* The request of an allocating operation. */
struct request {
    const char *operation; /* its name, for messages */
    tarn_pointer_kind kind;
    size_t bytes;
    const void *host; /* of mempin: the memory to pin; else NULL */
    void *owner;      /* of mempin: the caller's until the operation succeeds */
    void (*owner_release)(void *);
};

static tarn_status no_pointer(const tarn_manager *manager, const struct request *request)
{
    return tarn_error_set(TARN_PLUGIN_FAILURE,
                          "manager: %s of %s returned TARN_OK without a pointer",
                          request->operation, manager->ops.name);
}

static bool is_on_device(const tarn_manager *manager, const tarn_pointer *pointer)
{
    if (pointer->kind == TARN_POINTER_PINNED && pointer->device == TARN_DEVICE_NONE)
        return true; /* plain host memory */
    return pointer->device == manager->device;
}

/* Does it have the addresses of its kind, and is pinned memory at the requested address?
 */
static bool is_placed(const tarn_pointer *pointer, const struct request *request)
{
    bool for_device = request->kind != TARN_POINTER_PINNED;
    bool for_host =
        request->kind == TARN_POINTER_PINNED || request->kind == TARN_POINTER_MAPPED;

    if ((for_device && !pointer->address) || (for_host && !pointer->host))
        return false;
    return !request->host || pointer->host == request->host;
}

/* Is this what was requested: the kind, the device, an address and the length? */
static bool keeps_promise(const tarn_manager *manager, const tarn_pointer *pointer,
                          const struct request *request)
{
    return pointer->kind == request->kind && pointer->bytes >= request->bytes &&
           is_on_device(manager, pointer) && is_placed(pointer, request);
}

/* Release a pointer that does not match its request. The caller keeps the owner of memory
 * that was to be pinned, as after any failure. */
static tarn_status reject_pointer(const tarn_manager *manager, tarn_pointer *pointer,
                                  const struct request *request)
{
    static const char *const kinds[] = {"device", "mapped", "pinned", "managed"};

    tarn_error_set(TARN_PLUGIN_FAILURE,
                   "manager: %s of %s returned %zu bytes of %s memory, device %d, at "
                   "0x%llx (host %p); requested were %zu bytes of %s memory, device %d "
                   "(host %p)",
                   request->operation, manager->ops.name, pointer->bytes,
                   kinds[pointer->kind], pointer->device, pointer->address, pointer->host,
                   request->bytes, kinds[request->kind], manager->device, request->host);
    if (request->owner_release && pointer->owner == request->owner &&
        pointer->owner_release == request->owner_release)
        pointer->owner_release = NULL;
    tarn__pointer_drop(pointer);
    return TARN_PLUGIN_FAILURE;
}

/* Return the result of an operation if it matches the request. The output of a failing
 * operation is ignored: it may be dangling. */
static tarn_status deliver(const tarn_manager *manager, const struct request *request,
                           unsigned before, tarn_status status, tarn_pointer *pointer,
                           tarn_pointer **out)
{
    if (status != TARN_OK)
        return tarn__manager_relay(manager, request->operation, before, status);
    if (!pointer)
        return no_pointer(manager, request);
    if (!keeps_promise(manager, pointer, request))
        return reject_pointer(manager, pointer, request);
    *out = pointer;
    return TARN_OK;
}

static tarn_status no_place(const char *operation)
{
    return tarn_error_set(TARN_INVALID_ARGUMENT, "manager: %s: out is NULL", operation);
}

/* Zero bytes: a pointer of the requested kind, with no memory behind it but with its
 * owner. */
static tarn_status make_empty(const tarn_manager *manager, tarn_pointer_kind kind,
                              void *owner, void (*owner_release)(void *),
                              tarn_pointer **out)
{
    tarn_pointer_options options = {.size = sizeof options,
                                    .kind = kind,
                                    .device = manager->device,
                                    .owner = owner,
                                    .owner_release = owner_release};

    return tarn_pointer_create(&options, out);
}

static tarn_status check_flags(const char *operation, unsigned flags, unsigned known)
{
    if (flags & ~known)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "manager: %s: unknown flags 0x%x, the known ones are 0x%x",
                              operation, flags & ~known, known);
    return TARN_OK;
}

/* The check that a Context of Numba makes before mempin(). Allocating mapped memory needs
 * the same of the device. */
static tarn_status check_mapping(const tarn_manager *manager, const char *operation,
                                 unsigned flags)
{
    bool can_map = false;

    if (!(flags & TARN_HOST_MAPPED))
        return TARN_OK;
    tarn_status status = tarn__device_has(
        "manager", manager->device, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY_, &can_map);
    if (status == TARN_OK && !can_map)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "manager: %s: device %d cannot map host memory", operation,
                              manager->device);
    return status;
}

/* Does its memalloc() call tarn__blocking_hook_call() itself, where that is needed? */
static bool calls_blocking_hook(const tarn_manager *manager)
{
    return manager && manager->ops.memalloc == tarn_resource_manager_ops()->memalloc;
}

tarn_status tarn_manager_memalloc(tarn_manager *manager, size_t bytes, tarn_stream stream,
                                  tarn_pointer **out)
{
    struct request request = {
        .operation = "memalloc", .kind = TARN_POINTER_DEVICE, .bytes = bytes};
    struct tarn__scope scope;
    tarn_pointer *pointer = NULL;

    if (!out)
        return no_place("memalloc");
    if (manager && bytes == 0)
        return make_empty(manager, TARN_POINTER_DEVICE, NULL, NULL, out);
    if (!calls_blocking_hook(manager))
        tarn__blocking_hook_call();
    tarn_status status = tarn__manager_enter_ready(manager, "memalloc", &scope);
    if (status != TARN_OK)
        return status;
    unsigned before = tarn__error_count;
    status = manager->ops.memalloc(manager->self, bytes, stream, &pointer);
    status = deliver(manager, &request, before, status, pointer, out);
    tarn__scope_leave(&scope);
    return status;
}

tarn_status tarn_manager_memhostalloc(tarn_manager *manager, size_t bytes, unsigned flags,
                                      tarn_pointer **out)
{
    struct request request = {.operation = "memhostalloc",
                              .kind = tarn__host_memory_kind(flags),
                              .bytes = bytes};
    struct tarn__scope scope;
    tarn_pointer *pointer = NULL;

    if (!out)
        return no_place("memhostalloc");
    tarn_status status =
        check_flags("memhostalloc", flags,
                    TARN_HOST_MAPPED | TARN_HOST_PORTABLE | TARN_HOST_WRITE_COMBINED);
    if (status != TARN_OK)
        return status;
    if (manager && bytes == 0)
        return make_empty(manager, tarn__host_memory_kind(flags), NULL, NULL, out);
    status = tarn__manager_enter_ready(manager, "memhostalloc", &scope);
    if (status != TARN_OK)
        return status;
    status = check_mapping(manager, "memhostalloc", flags);
    if (status == TARN_OK) {
        unsigned before = tarn__error_count;
        status = manager->ops.memhostalloc(manager->self, bytes, flags, &pointer);
        status = deliver(manager, &request, before, status, pointer, out);
    }
    tarn__scope_leave(&scope);
    return status;
}

/* Memory that exists already has its caching, so write-combined makes no sense. */
static tarn_status check_pin(const void *host, size_t bytes, unsigned flags)
{
    tarn_status status =
        check_flags("mempin", flags, TARN_HOST_MAPPED | TARN_HOST_PORTABLE);

    if (status == TARN_OK && bytes && !host)
        status = tarn_error_set(TARN_INVALID_ARGUMENT,
                                "manager: mempin: %zu bytes, but host is NULL", bytes);
    return status;
}

tarn_status tarn_manager_mempin(tarn_manager *manager, void *host, size_t bytes,
                                unsigned flags, void *owner,
                                void (*owner_release)(void *), tarn_pointer **out)
{
    struct request request = {.operation = "mempin",
                              .kind = tarn__host_memory_kind(flags),
                              .bytes = bytes,
                              .host = host,
                              .owner = owner,
                              .owner_release = owner_release};
    struct tarn__scope scope;
    tarn_pointer *pointer = NULL;

    if (!out)
        return no_place("mempin");
    tarn_status status = check_pin(host, bytes, flags);
    if (status != TARN_OK)
        return status;
    if (manager && bytes == 0)
        return make_empty(manager, tarn__host_memory_kind(flags), owner, owner_release,
                          out);
    status = tarn__manager_enter_ready(manager, "mempin", &scope);
    if (status != TARN_OK)
        return status;
    status = check_mapping(manager, "mempin", flags);
    if (status == TARN_OK) {
        unsigned before = tarn__error_count;
        status = manager->ops.mempin(manager->self, host, bytes, flags, owner,
                                     owner_release, &pointer);
        status = deliver(manager, &request, before, status, pointer, out);
    }
    tarn__scope_leave(&scope);
    return status;
}

static tarn_status no_operation(const tarn_manager *manager, const char *operation)
{
    if (!manager)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "manager: %s: manager is NULL",
                              operation);
    return tarn_error_set(TARN_NOT_SUPPORTED, "manager: %s does not support %s",
                          manager->ops.name, operation);
}

tarn_status tarn_manager_memallocmanaged(tarn_manager *manager, size_t bytes,
                                         bool attach_global, tarn_pointer **out)
{
    struct request request = {
        .operation = "memallocmanaged", .kind = TARN_POINTER_MANAGED, .bytes = bytes};
    struct tarn__scope scope;
    tarn_pointer *pointer = NULL;

    if (!out)
        return no_place("memallocmanaged");
    if (!manager || !manager->ops.memallocmanaged)
        return no_operation(manager, "memallocmanaged");
    if (bytes == 0)
        return make_empty(manager, TARN_POINTER_MANAGED, NULL, NULL, out);
    tarn_status status = tarn__manager_enter_ready(manager, "memallocmanaged", &scope);
    if (status != TARN_OK)
        return status;
    unsigned before = tarn__error_count;
    status = manager->ops.memallocmanaged(manager->self, bytes, attach_global, &pointer);
    status = deliver(manager, &request, before, status, pointer, out);
    tarn__scope_leave(&scope);
    return status;
}

/* Only device memory of this device can have a handle, and only if there is some. */
static tarn_status check_export(const tarn_manager *manager, const tarn_pointer *pointer)
{
    if (!pointer || tarn_pointer_bytes(pointer) == 0)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "manager: get_ipc_handle: an empty pointer has no IPC handle");
    if (tarn_pointer_device(pointer) != manager->device)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "manager: get_ipc_handle: the pointer is of device %d, the "
                              "manager of device %d",
                              tarn_pointer_device(pointer), manager->device);
    return TARN_OK;
}

/* Is this a handle of this very block? Only the importer can tell what its 64 bytes name.
 * This function detects zeros and impossible numbers. */
static tarn_status check_handle(const tarn_manager *manager, const tarn_pointer *pointer,
                                const tarn_ipc_handle *handle)
{
    static const unsigned char nothing[sizeof handle->reserved];
    bool names_something = memcmp(handle->reserved, nothing, sizeof nothing) != 0;

    if (names_something && handle->bytes == tarn_pointer_bytes(pointer) &&
        handle->offset <= tarn_pointer_address(pointer) &&
        handle->device == manager->device)
        return TARN_OK;
    return tarn_error_set(
        TARN_PLUGIN_FAILURE,
        "manager: get_ipc_handle of %s returned a handle of %s: %zu bytes, offset %zu, "
        "device %d; requested was the handle of %zu bytes at 0x%llx, device %d",
        manager->ops.name, names_something ? "another block" : "nothing", handle->bytes,
        handle->offset, handle->device, tarn_pointer_bytes(pointer),
        tarn_pointer_address(pointer), manager->device);
}

tarn_status tarn_manager_get_ipc_handle(tarn_manager *manager,
                                        const tarn_pointer *pointer, tarn_ipc_handle *out)
{
    struct tarn__scope scope;
    tarn_ipc_handle handle = {.bytes = 0};

    if (!out)
        return no_place("get_ipc_handle");
    if (!manager || !manager->ops.get_ipc_handle)
        return no_operation(manager, "get_ipc_handle");
    tarn_status status = check_export(manager, pointer);
    if (status == TARN_OK)
        status = tarn__manager_enter_ready(manager, "get_ipc_handle", &scope);
    if (status != TARN_OK)
        return status;
    unsigned before = tarn__error_count;
    status =
        tarn__manager_relay(manager, "get_ipc_handle", before,
                            manager->ops.get_ipc_handle(manager->self, pointer, &handle));
    tarn__scope_leave(&scope);
    if (status == TARN_OK)
        status = check_handle(manager, pointer, &handle);
    if (status == TARN_OK)
        *out = handle;
    return status;
}

tarn_status tarn_manager_get_memory_info(tarn_manager *manager, size_t *free_out,
                                         size_t *total_out)
{
    struct tarn__scope scope;
    size_t free_bytes = 0, total_bytes = 0;

    if (!free_out || !total_out)
        return no_place("get_memory_info");
    if (!manager || !manager->ops.get_memory_info)
        return no_operation(manager, "get_memory_info");
    tarn_status status = tarn__manager_enter_ready(manager, "get_memory_info", &scope);
    if (status != TARN_OK)
        return status;
    unsigned before = tarn__error_count;
    status = tarn__manager_relay(
        manager, "get_memory_info", before,
        manager->ops.get_memory_info(manager->self, &free_bytes, &total_bytes));
    tarn__scope_leave(&scope);
    if (status != TARN_OK)
        return status;
    if (free_bytes > total_bytes)
        return tarn_error_set(TARN_PLUGIN_FAILURE,
                              "manager: get_memory_info of %s returned %zu bytes free of "
                              "%zu in total, device %d",
                              manager->ops.name, free_bytes, total_bytes,
                              manager->device);
    *free_out = free_bytes;
    *total_out = total_bytes;
    return TARN_OK;
}

tarn_status tarn_manager_defer_cleanup_begin(tarn_manager *manager)
{
    struct tarn__scope scope;

    if (!manager || !manager->ops.defer_cleanup_begin || !manager->ops.defer_cleanup_end)
        return no_operation(manager, "defer_cleanup");
    tarn_status status =
        tarn__manager_enter_ready(manager, "defer_cleanup_begin", &scope);
    if (status != TARN_OK)
        return status;
    unsigned before = tarn__error_count;
    status = tarn__manager_relay(manager, "defer_cleanup_begin", before,
                                 manager->ops.defer_cleanup_begin(manager->self));
    if (status == TARN_OK)
        atomic_fetch_add(&manager->deferred, 1);
    tarn__scope_leave(&scope);
    return status;
}

/* Take one begin off the count, or return false. */
static bool take_begin(tarn_manager *manager)
{
    size_t deferred = atomic_load(&manager->deferred);

    do {
        if (deferred == 0)
            return false;
    } while (!atomic_compare_exchange_weak(&manager->deferred, &deferred, deferred - 1));
    return true;
}

/* An end does not fail for want of a context: the caller will not call it again. */
tarn_status tarn_manager_defer_cleanup_end(tarn_manager *manager)
{
    struct tarn__scope scope;

    if (!manager || !manager->ops.defer_cleanup_end)
        return no_operation(manager, "defer_cleanup");
    if (!take_begin(manager))
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "manager: defer_cleanup_end of %s without a matching defer_cleanup_begin",
            manager->ops.name);
    if (tarn__driver_gone())
        return TARN_OK;
    bool is_current =
        tarn__manager_enter(manager, "defer_cleanup_end", &scope) == TARN_OK;
    int served = tarn__host_only_serve(manager->device);
    unsigned before = tarn__error_count;
    tarn_status status =
        tarn__manager_relay(manager, "defer_cleanup_end", before,
                            manager->ops.defer_cleanup_end(manager->self));
    tarn__host_only_serve(served);
    if (is_current)
        tarn__scope_leave(&scope);
    return status;
}
