/* resource_manager.c -- the manager over Tarn's resources.
 *
 * Device memory comes from whatever resource is in charge of the device at the time of
 * the call, and each block goes back to the one that it came from. So the resource can be
 * swapped under a running program, which NBEP 7 forbids for the manager itself.
 *
 * An instance holds nothing but a pool of pinned memory: blocks belong to their pointers.
 * So initialize() has nothing to prepare, pointers stay good over a reset() and may be
 * released at any time after it, and an instance can go before its pointers do. What a
 * reset gives back is what no pointer holds: blocks that are unreturned and memory that
 * the resource, or the pool, keeps cached.
 *
 * Blocks whose return would wait for the device are kept back while cleanup is deferred;
 * those that go back without a wait go at once.
 */
#include "manager/manager.h"
#include "manager/pinned_pool.h"
#include "pointer/pointer.h"
#include <tarn/device.h>
#include <stdlib.h>

struct resource_manager {
    int device; /* whose current resource serves; never changes */
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

/* The pointer has a reference to the resource of its own, so ours is not the last one
 * unless somebody has just put another resource in charge and nothing was allocated. */
static tarn_status resource_manager_memalloc(void *self, size_t bytes, tarn_stream stream,
                                             tarn_pointer **out)
{
    const struct resource_manager *manager = self;
    tarn_resource *resource;
    tarn_status status = tarn_device_resource(manager->device, &resource);

    if (status != TARN_OK)
        return status;
    status = tarn__pointer_allocate(resource, bytes, stream, true, out);
    tarn_resource_release(resource);
    return status;
}

/* What the device sees at an address of its own, and write-combined memory, come from the
 * driver as they are asked for; plain pinned memory is kept. */
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

    return tarn__managed_memory_allocate(manager->device, bytes, attach_global, out);
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
    if (status == TARN_NOT_SUPPORTED) /* it, or what is beneath it, has no numbers */
        status = tarn__device_memory_info(manager->device, free_out, total_out);
    tarn_resource_release(resource);
    return status;
}

static tarn_status resource_manager_defer_cleanup_begin(void *self)
{
    const struct resource_manager *manager = self;

    tarn__pointer_defer_begin(manager->device);
    return TARN_OK;
}

static tarn_status resource_manager_defer_cleanup_end(void *self)
{
    const struct resource_manager *manager = self;

    return tarn__pointer_defer_end(manager->device);
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
