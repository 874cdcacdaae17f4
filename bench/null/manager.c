/* manager.c -- a memory manager that always returns one block.
 *
 * The cost of an array under it is the cost of the path to a manager: Numba's part,
 * tarn.numba and the calls of tarn/manager.h. For bench/micro/numba_memory.py, by
 * TARN_MEMORY_MANAGER.
 */
#include <tarn/device.h>
#include <tarn/manager.h>

enum { BYTES = 1 << 20 };

static struct {
    tarn_resource *cuda;
    tarn_device_ptr block; /* BYTES, shared by all pointers */
} only;

static tarn_status create(void *config, int device, void *context, void **self_out)
{
    (void)config;
    (void)context;
    *self_out = &only;
    return tarn_cuda_create(device, &only.cuda);
}

static void destroy(void *self)
{
    (void)self;
    tarn_resource_release(only.cuda);
}

static tarn_status initialize(void *self)
{
    tarn_status status = tarn_host_only_initialize(self);

    if (status != TARN_OK || only.block)
        return status;
    return tarn_resource_allocate(only.cuda, BYTES, 0, TARN_STREAM_NONE, &only.block);
}

static tarn_status memalloc(void *self, size_t bytes, tarn_stream stream,
                            tarn_pointer **out)
{
    tarn_pointer_options options = {.size = sizeof options,
                                    .kind = TARN_POINTER_DEVICE,
                                    .address = only.block,
                                    .bytes = bytes};

    (void)self;
    (void)stream;
    if (bytes > BYTES)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "null: %zu bytes of %d", bytes, BYTES);
    return tarn_pointer_create(&options, out);
}

TARN_API const tarn_manager_ops *tarn_manager_plugin(void);

const tarn_manager_ops *tarn_manager_plugin(void)
{
    static const tarn_manager_ops ops = {
        .size = sizeof ops,
        .name = "null",
        .interface_version = TARN_MANAGER_INTERFACE_VERSION,
        .create = create,
        .destroy = destroy,
        .initialize = initialize,
        .reset = tarn_host_only_reset,
        .memalloc = memalloc,
        .memhostalloc = tarn_host_only_memhostalloc,
        .mempin = tarn_host_only_mempin,
    };

    return &ops;
}
