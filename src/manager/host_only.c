/* host_only.c -- the base of managers that provide device memory alone.
 *
 * NBEP 7 has a class to inherit from. Here its members are plain operations: a plugin
 * names them in its table, or calls them from its own. They have no data of the plugin,
 * so they find the device by the current context, which is current whenever an operation
 * is called. The ends run also where the context could not be made current. There Tarn
 * passes the device.
 */
#include "manager/host_only.h"
#include "driver/driver.h"
#include "pointer/deferred_frees.h"
#include "manager/host_memory.h"
#include "manager/legacy_ipc.h"
#include "manager/pending.h"

static _Thread_local int serving = -1;

int tarn__host_only_serve(int device)
{
    int before = serving;

    serving = device;
    return before;
}

static tarn_status find_device(int *out)
{
    if (serving < 0)
        return tarn_driver_current_device(out);
    *out = serving;
    return TARN_OK;
}

/* A fresh pointer joins the deferred frees when its last reference is dropped. */
static tarn_status finish_allocation(tarn_status status, tarn_pointer *pointer,
                                     tarn_pointer **out)
{
    if (status != TARN_OK)
        return status;
    tarn__pending_add(pointer);
    *out = pointer;
    return TARN_OK;
}

tarn_status tarn_host_only_initialize(void *self)
{
    int device;
    tarn_status status = find_device(&device);

    (void)self;
    return status == TARN_OK ? tarn__pending_begin(device) : status;
}

tarn_status tarn_host_only_reset(void *self)
{
    int device;
    tarn_status status = find_device(&device);

    (void)self;
    return status == TARN_OK ? tarn__deferred_frees_flush(device) : status;
}

tarn_status tarn_host_only_memhostalloc(void *self, size_t bytes, unsigned flags,
                                        tarn_pointer **out)
{
    tarn_pointer *pointer = NULL;
    int device;
    tarn_status status = find_device(&device);

    (void)self;
    if (status == TARN_OK)
        status = tarn__host_memory_allocate(device, bytes, flags, &pointer);
    return finish_allocation(status, pointer, out);
}

/* Not deferred: the caller that pinned memory needs it back. */
tarn_status tarn_host_only_mempin(void *self, void *host, size_t bytes, unsigned flags,
                                  void *owner, void (*owner_release)(void *),
                                  tarn_pointer **out)
{
    int device;
    tarn_status status = find_device(&device);

    (void)self;
    if (status != TARN_OK)
        return status;
    return tarn__host_memory_pin(device, host, bytes, flags, owner, owner_release, out);
}

tarn_status tarn_host_only_memallocmanaged(void *self, size_t bytes, bool attach_global,
                                           tarn_pointer **out)
{
    tarn_pointer *pointer = NULL;
    int device;
    tarn_status status = find_device(&device);

    (void)self;
    if (status == TARN_OK)
        status =
            tarn__host_memory_allocate_managed(device, bytes, attach_global, &pointer);
    return finish_allocation(status, pointer, out);
}

tarn_status tarn_host_only_get_ipc_handle(void *self, const tarn_pointer *pointer,
                                          tarn_ipc_handle *out)
{
    int device;
    tarn_status status = find_device(&device);

    (void)self;
    return status == TARN_OK ? tarn__legacy_ipc_handle(device, pointer, out) : status;
}

tarn_status tarn_host_only_get_memory_info(void *self, size_t *free_out,
                                           size_t *total_out)
{
    int device;
    tarn_status status = find_device(&device);

    (void)self;
    return status == TARN_OK ? tarn__pending_memory_info(device, free_out, total_out)
                             : status;
}

tarn_status tarn_host_only_defer_cleanup_begin(void *self)
{
    int device;
    tarn_status status = find_device(&device);

    (void)self;
    if (status == TARN_OK)
        tarn__deferred_frees_begin(device);
    return status;
}

tarn_status tarn_host_only_defer_cleanup_end(void *self)
{
    int device;
    tarn_status status = find_device(&device);

    (void)self;
    return status == TARN_OK ? tarn__deferred_frees_end(device) : status;
}
