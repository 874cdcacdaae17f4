/* native.c -- the manager that does as Numba's own: cuMemAlloc, and deferred frees.
 *
 * It is the host-only base with device memory, and shares the base's deferred frees. A
 * cuMemFree waits for all work of the context. Of ten that run together the first waits
 * for work, and nine find none left. That wait also makes no-stream frees safe.
 */
#include "pointer/allocate.h"
#include "pointer/pointer.h"
#include "manager/pending.h"
#include <stdlib.h>

struct native {
    tarn_resource *cuda; /* retained; cuMemAlloc of the device */
};

static tarn_status native_create(void *config, int device, void *context, void **self_out)
{
    struct native *native = malloc(sizeof *native);

    (void)config;
    (void)context;
    if (!native)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "native: no host memory for an instance of device %d",
                              device);
    tarn_status status = tarn_cuda_create(device, &native->cuda);
    if (status != TARN_OK) {
        free(native);
        return status;
    }
    *self_out = native;
    return TARN_OK;
}

/* Live and deferred pointers have references of their own. */
static void native_destroy(void *self)
{
    struct native *native = self;

    tarn_resource_release(native->cuda);
    free(native);
}

static tarn_status native_memalloc(void *self, size_t bytes, tarn_stream stream,
                                   tarn_pointer **out)
{
    const struct native *native = self;
    tarn_pointer *pointer;
    tarn_status status =
        tarn__allocate_pointer(native->cuda, bytes, stream, true, &pointer);

    if (status != TARN_OK)
        return status;
    /* The block is freed later, when a raw stream may be gone; cuMemFree needs none. */
    atomic_store(&pointer->stream, TARN_STREAM_NONE);
    tarn__pending_add(pointer);
    *out = pointer;
    return TARN_OK;
}

const tarn_manager_ops *tarn_native_manager_ops(void)
{
    static const tarn_manager_ops ops = {
        .size = sizeof ops,
        .name = "native",
        .interface_version = TARN_MANAGER_INTERFACE_VERSION,
        .create = native_create,
        .destroy = native_destroy,
        .initialize = tarn_host_only_initialize,
        .reset = tarn_host_only_reset,
        .memalloc = native_memalloc,
        .memhostalloc = tarn_host_only_memhostalloc,
        .mempin = tarn_host_only_mempin,
        .memallocmanaged = tarn_host_only_memallocmanaged,
        .get_ipc_handle = tarn_host_only_get_ipc_handle,
        .get_memory_info = tarn_host_only_get_memory_info,
        .defer_cleanup_begin = tarn_host_only_defer_cleanup_begin,
        .defer_cleanup_end = tarn_host_only_defer_cleanup_end,
    };

    return &ops;
}
