/* Test the host-only base: a manager for device memory alone, and the members that it may
 * replace. */
#include "cu.h"
#include <stdlib.h>

struct plugin {
    int resets;
    bool no_parent; /* do not call the base's reset */
};

static tarn_status plugin_create(void *config, int device, void *context, void **self_out)
{
    (void)device;
    (void)context;
    *self_out = config;
    return TARN_OK;
}

static void plugin_destroy(void *self)
{
    (void)self;
}

static tarn_status plugin_reset(void *self)
{
    struct plugin *plugin = self;

    plugin->resets++;
    return plugin->no_parent ? TARN_OK : tarn_host_only_reset(self);
}

static tarn_status plugin_memalloc(void *self, size_t bytes, tarn_stream stream,
                                   tarn_pointer **out)
{
    tarn_resource *resource;
    tarn_status status = tarn_cuda_create(0, &resource);

    (void)self;
    if (status != TARN_OK)
        return status;
    status = tarn_pointer_allocate(resource, bytes, stream, out);
    tarn_resource_release(resource);
    return status;
}

static const tarn_manager_ops plugin_ops = {
    .size = sizeof plugin_ops,
    .name = "plugin",
    .interface_version = TARN_MANAGER_INTERFACE_VERSION,
    .create = plugin_create,
    .destroy = plugin_destroy,
    .initialize = tarn_host_only_initialize,
    .reset = plugin_reset,
    .memalloc = plugin_memalloc,
    .memhostalloc = tarn_host_only_memhostalloc,
    .mempin = tarn_host_only_mempin,
    .memallocmanaged = tarn_host_only_memallocmanaged,
    .get_ipc_handle = tarn_host_only_get_ipc_handle,
    .get_memory_info = tarn_host_only_get_memory_info,
    .defer_cleanup_begin = tarn_host_only_defer_cleanup_begin,
    .defer_cleanup_end = tarn_host_only_defer_cleanup_end,
};

static tarn_manager *make(struct plugin *plugin)
{
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(&plugin_ops, plugin, 0, &manager));
    return manager;
}

static size_t pending(void)
{
    size_t count, bytes;

    CHECK_OK(tarn_manager_pending_deallocs(0, &count, &bytes));
    return count;
}

TEST(base_serves_host_and_managed_memory_a60)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pinned, *mapped, *managed;

    CHECK_OK(tarn_manager_memhostalloc(manager, 4096, 0, &pinned));
    CHECK_OK(tarn_manager_memhostalloc(
        manager, 4096, TARN_HOST_MAPPED | TARN_HOST_WRITE_COMBINED, &mapped));
    CHECK_OK(tarn_manager_memallocmanaged(manager, 4096, true, &managed));
    CHECK_EQUAL(TARN_POINTER_PINNED, tarn_pointer_get_kind(pinned));
    CHECK_EQUAL(TARN_POINTER_MAPPED, tarn_pointer_get_kind(mapped));
    CHECK_EQUAL(TARN_POINTER_MANAGED, tarn_pointer_get_kind(managed));
    CHECK_EQUAL(0, tarn_pointer_device(mapped));
    CHECK_OK(
        tarn_memset_async(0, tarn_pointer_address(mapped), 9, 4096, TARN_STREAM_LEGACY));
    CHECK_OK(tarn_stream_synchronize(0, TARN_STREAM_LEGACY));
    CHECK_EQUAL(9, ((unsigned char *)tarn_pointer_host(mapped))[4095]);
    tarn_pointer_release(pinned);
    tarn_pointer_release(mapped);
    tarn_pointer_release(managed);
    CHECK_EQUAL(3, pending()); /* it has pending memory of its own */
    tarn_manager_release(manager);
    CHECK_OK(tarn_pointer_reclaim_deferred());
}

static void count_release(void *owner)
{
    ++*(int *)owner;
}

TEST(base_pins_and_unpins_at_once_a98)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    void *memory = aligned_alloc(4096, 4096);
    tarn_pointer *pointer;
    int released = 0;

    CHECK(memory != NULL);
    CHECK_OK(tarn_manager_mempin(manager, memory, 4096, TARN_HOST_MAPPED, &released,
                                 count_release, &pointer));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, released);
    CHECK_EQUAL(0, pending());
    free(memory);
    tarn_manager_release(manager);
}

TEST(reset_that_calls_its_parents_flushes_a65)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_reset(manager)); /* before initialize */
    CHECK_OK(tarn_manager_memhostalloc(manager, 64, 0, &pointer));
    tarn_pointer_release(pointer);
    plugin.no_parent = true;
    CHECK_OK(tarn_manager_reset(manager));
    CHECK_EQUAL(1, pending()); /* so the call is what matters */
    plugin.no_parent = false;
    CHECK_OK(tarn_manager_reset(manager));
    CHECK_EQUAL(0, pending());
    CHECK_EQUAL(3, plugin.resets);
    CHECK(current_context() == NULL);
    tarn_manager_release(manager);
}

TEST(base_defers_cleanup_a63)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(tarn_manager_memhostalloc(manager, 64, 0, &pointer));
        tarn_pointer_release(pointer);
    }
    CHECK_EQUAL(20, pending());
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(0, pending());
    tarn_manager_release(manager);
}

/* The finalizer also runs if the context cannot be made current: it gets the device. */
TEST(base_ends_deferred_cleanup_where_the_driver_fails)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;

    if (on_sim()) {
        CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
        sim_configure("fail=call:cuCtxGetCurrent");
        CHECK_OK(tarn_manager_defer_cleanup_end(manager));
        CHECK(sim_faults() > 0);
        sim_configure(NULL);
        for (int i = 0; i < 11; i++) {
            CHECK_OK(tarn_manager_memhostalloc(manager, 64, 0, &pointer));
            tarn_pointer_release(pointer);
        }
        CHECK_EQUAL(0, pending()); /* nothing is deferred any more */
    }
    tarn_manager_release(manager);
    CHECK_OK(tarn_pointer_reclaim_deferred());
}

TEST(base_has_the_devices_numbers_and_handles)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer, *view;
    tarn_ipc_handle handle;
    size_t free_bytes = 0, total = 0;

    CHECK_OK(tarn_manager_get_memory_info(manager, &free_bytes, &total));
    CHECK(free_bytes > 0 && free_bytes <= total);
    CHECK_OK(tarn_manager_memalloc(manager, 1024, TARN_STREAM_NONE, &pointer));
    CHECK_OK(tarn_pointer_view(pointer, 100, 100, &view));
    CHECK_OK(tarn_manager_get_ipc_handle(manager, view, &handle));
    CHECK_EQUAL(100, handle.offset);
    CHECK_EQUAL(100, handle.bytes);
    tarn_pointer_release(view);
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}
