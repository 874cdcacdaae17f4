/* resource_manager.c -- the manager over Tarn's resources.
 *
 * Device memory comes from the current device resource at the time of the call. Each
 * block returns to the resource that it came from. So the resource can be swapped under a
 * running program, which NBEP 7 forbids for the manager itself.
 *
 * An instance holds only a pool of pinned memory: blocks belong to their pointers. So
 * initialize() has nothing to prepare, and an instance can end before its pointers do.
 * Pointers stay valid over a reset() and may be released at any time after it. A reset
 * releases what no pointer holds: deferred frees, and memory that the resource or the
 * pool caches.
 *
 * While cleanup is deferred, blocks whose return would wait for the device are deferred
 * too. Blocks that return without a wait are returned at once.
 */
#include "manager/pinned_pool.h"
#include "pointer/deferred_frees.h"
#include "pointer/allocate.h"
#include "manager/host_memory.h"
#include "manager/legacy_ipc.h"
#include "manager/pending.h"
#include <tarn/device.h>
#include <stdlib.h>

struct resource_manager {
    int device; /* the device whose current resource serves; never changes */
    struct tarn__pinned_pool pinned;
};

static tarn_status resource_manager_create(void *config, int device, void *context,
                                           void **self_out)
{
    struct resource_manager *manager = malloc(sizeof *manager);

    (void)config;
    (void)context;
    if (!manager)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "manager: no host memory for an instance of device %d",
                              device);
    manager->device = device;
    tarn__pinned_pool_begin(&manager->pinned, device);
    *self_out = manager;
    return TARN_OK;
}

static void resource_manager_destroy(void *self)
{
    struct resource_manager *manager = self;

    tarn__pinned_pool_end(&manager->pinned);
    free(self);
}

static tarn_status resource_manager_initialize(void *self)
{
    (void)self;
    return TARN_OK;
}

static tarn_status trim_resource(int device)
{
    tarn_resource *resource;
    size_t released;
    tarn_status status = tarn_device_resource(device, &resource);

    if (status != TARN_OK)
        return status;
    status = tarn_resource_trim(resource, 0, &released);
    tarn_resource_release(resource);
    return status;
}

static tarn_status resource_manager_reset(void *self)
{
    struct resource_manager *manager = self;
    tarn_status status = tarn_pointer_reclaim_deferred();

    if (status == TARN_OK)
        status = trim_resource(manager->device);
    if (status == TARN_OK)
        status = tarn__pinned_pool_trim(&manager->pinned);
    return status;
}

static void resource_manager_context_gone(void *self)
{
    struct resource_manager *manager = self;

    tarn__pinned_pool_forget(&manager->pinned);
}

/* The pointer has its own reference to the resource. So ours is not the last one, unless
 * another thread has just made another resource current and nothing was allocated. */
static tarn_status resource_manager_memalloc(void *self, size_t bytes, tarn_stream stream,
                                             tarn_pointer **out)
{
    const struct resource_manager *manager = self;
    tarn_resource *resource;
    tarn_status status = tarn_device_resource(manager->device, &resource);

    if (status != TARN_OK)
        return status;
    status = tarn__allocate_pointer(resource, bytes, stream, true, out);
    tarn_resource_release(resource);
    return status;
}

/* Memory with a device address of its own, and write-combined memory, come from the
 * driver at each request. Plain pinned memory is cached. */
static tarn_status resource_manager_memhostalloc(void *self, size_t bytes, unsigned flags,
                                                 tarn_pointer **out)
{
    struct resource_manager *manager = self;

    if ((flags & ~TARN_HOST_PORTABLE) == 0)
        return tarn__pinned_pool_allocate(&manager->pinned, bytes, out);
    return tarn__host_memory_allocate(manager->device, bytes, flags, out);
}

static tarn_status resource_manager_mempin(void *self, void *host, size_t bytes,
                                           unsigned flags, void *owner,
                                           void (*owner_release)(void *),
                                           tarn_pointer **out)
{
    const struct resource_manager *manager = self;

    return tarn__host_memory_pin(manager->device, host, bytes, flags, owner,
                                 owner_release, out);
}

static tarn_status resource_manager_memallocmanaged(void *self, size_t bytes,
                                                    bool attach_global,
                                                    tarn_pointer **out)
{
    const struct resource_manager *manager = self;

    return tarn__host_memory_allocate_managed(manager->device, bytes, attach_global, out);
}

static tarn_status resource_manager_get_ipc_handle(void *self,
                                                   const tarn_pointer *pointer,
                                                   tarn_ipc_handle *out)
{
    const struct resource_manager *manager = self;

    return tarn__legacy_ipc_handle(manager->device, pointer, out);
}

static tarn_status resource_manager_get_memory_info(void *self, size_t *free_out,
                                                    size_t *total_out)
{
    const struct resource_manager *manager = self;
    tarn_resource *resource;
    tarn_status status = tarn_device_resource(manager->device, &resource);

    if (status != TARN_OK)
        return status;
    status = tarn_resource_memory_info(resource, TARN_STREAM_NONE, free_out, total_out);
    if (status == TARN_NOT_SUPPORTED) /* the resource, or its upstream, has no numbers */
        status = tarn__pending_memory_info(manager->device, free_out, total_out);
    tarn_resource_release(resource);
    return status;
}

static tarn_status resource_manager_defer_cleanup_begin(void *self)
{
    const struct resource_manager *manager = self;

    tarn__deferred_frees_begin(manager->device);
    return TARN_OK;
}

static tarn_status resource_manager_defer_cleanup_end(void *self)
{
    const struct resource_manager *manager = self;

    return tarn__deferred_frees_end(manager->device);
}

const tarn_manager_ops *tarn_resource_manager_ops(void)
{
    static const tarn_manager_ops ops = {
        .size = sizeof ops,
        .name = "resource",
        .interface_version = TARN_MANAGER_INTERFACE_VERSION,
        .create = resource_manager_create,
        .destroy = resource_manager_destroy,
        .initialize = resource_manager_initialize,
        .reset = resource_manager_reset,
        .memalloc = resource_manager_memalloc,
        .memhostalloc = resource_manager_memhostalloc,
        .mempin = resource_manager_mempin,
        .memallocmanaged = resource_manager_memallocmanaged,
        .get_ipc_handle = resource_manager_get_ipc_handle,
        .get_memory_info = resource_manager_get_memory_info,
        .defer_cleanup_begin = resource_manager_defer_cleanup_begin,
        .defer_cleanup_end = resource_manager_defer_cleanup_end,
        .context_lost = resource_manager_context_gone,
    };

    return &ops;
}
