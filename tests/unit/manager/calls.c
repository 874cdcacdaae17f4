/* What every manager gets from the checked calls, whatever its plugin does. */
#define _GNU_SOURCE
#include "cu.h"
#include <stdlib.h>

/* Before the driver is opened: the manager is on the last device, which is not the one
 * whose context anybody else would make current. */
__attribute__((constructor)) static void ask_for_two_devices(void)
{
    setenv("TARN_SIM", "devices=2", 1);
}

static int last_device(void)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    return info.device_count - 1;
}

struct plugin {
    int initialized;
    int resets;
    int allocations;
    int outside; /* calls that came with another context than its own */
    void *context;
    bool no_pointer; /* say TARN_OK and hand out nothing */
    bool refuse_initialize;
    unsigned flags;
    tarn_stream stream;
};

static void note_context(struct plugin *plugin)
{
    plugin->outside += current_context() != plugin->context;
}

static tarn_status plugin_create(void *config, int device, void *context, void **self_out)
{
    (void)device;
    ((struct plugin *)config)->context = context;
    *self_out = config;
    return TARN_OK;
}

static void plugin_destroy(void *self)
{
    note_context(self);
}

static tarn_status plugin_initialize(void *self)
{
    struct plugin *plugin = self;

    note_context(plugin);
    if (plugin->refuse_initialize)
        return tarn_error_set(TARN_PLUGIN_FAILURE, "plugin: not ready");
    plugin->initialized++;
    return TARN_OK;
}

static tarn_status plugin_reset(void *self)
{
    struct plugin *plugin = self;

    note_context(plugin);
    plugin->resets++;
    return TARN_OK;
}

static tarn_status hand_out(struct plugin *plugin, tarn_pointer_kind kind, size_t bytes,
                            tarn_pointer **out)
{
    tarn_pointer_options options = {
        .size = sizeof options, .kind = kind, .address = 0x1000, .bytes = bytes};

    note_context(plugin);
    CHECK(plugin->initialized > 0);
    CHECK(bytes > 0);
    plugin->allocations++;
    return plugin->no_pointer ? TARN_OK : tarn_pointer_create(&options, out);
}

static tarn_status plugin_memalloc(void *self, size_t bytes, tarn_stream stream,
                                   tarn_pointer **out)
{
    ((struct plugin *)self)->stream = stream;
    return hand_out(self, TARN_POINTER_DEVICE, bytes, out);
}

static tarn_status plugin_memhostalloc(void *self, size_t bytes, unsigned flags,
                                       tarn_pointer **out)
{
    ((struct plugin *)self)->flags = flags;
    return hand_out(self, TARN_POINTER_PINNED, bytes, out);
}

static tarn_status plugin_mempin(void *self, void *host, size_t bytes, unsigned flags,
                                 void *owner, void (*owner_release)(void *),
                                 tarn_pointer **out)
{
    (void)host;
    (void)owner;
    (void)owner_release;
    return plugin_memhostalloc(self, bytes, flags, out);
}

static tarn_status plugin_memallocmanaged(void *self, size_t bytes, bool attach_global,
                                          tarn_pointer **out)
{
    (void)attach_global;
    return hand_out(self, TARN_POINTER_MANAGED, bytes, out);
}

static tarn_manager *make(struct plugin *plugin)
{
    static const tarn_manager_ops ops = {
        .size = sizeof ops,
        .name = "plugin",
        .interface_version = TARN_MANAGER_INTERFACE_VERSION,
        .create = plugin_create,
        .destroy = plugin_destroy,
        .initialize = plugin_initialize,
        .reset = plugin_reset,
        .memalloc = plugin_memalloc,
        .memhostalloc = plugin_memhostalloc,
        .mempin = plugin_mempin,
        .memallocmanaged = plugin_memallocmanaged,
    };
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(&ops, plugin, last_device(), &manager));
    return manager;
}

TEST(calls_come_in_the_context_of_the_manager_and_leave_none)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_reset(manager));
    CHECK_OK(tarn_manager_initialize(manager));
    CHECK_OK(tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointer));
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
    CHECK_EQUAL(0, plugin.outside);
    CHECK(current_context() == NULL);
}

TEST(allocation_initializes_first_and_again_after_a_reset)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;

    CHECK_EQUAL(0, plugin.initialized);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointer));
        tarn_pointer_release(pointer);
    }
    CHECK_EQUAL(1, plugin.initialized);
    CHECK_OK(tarn_manager_reset(manager));
    CHECK_OK(tarn_manager_memhostalloc(manager, 8, 0, &pointer));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(2, plugin.initialized);
    for (int i = 0; i < 1000; i++)
        CHECK_OK(tarn_manager_initialize(manager));
    CHECK_EQUAL(2, plugin.initialized); /* for nothing, so it is not told */
    CHECK_OK(tarn_manager_reset(manager));
    CHECK_OK(tarn_manager_reset(manager));
    CHECK_EQUAL(3, plugin.resets);
    CHECK_OK(tarn_manager_initialize(manager));
    CHECK_EQUAL(3, plugin.initialized);
    tarn_manager_release(manager);
}

TEST(allocation_fails_where_initialize_does)
{
    struct plugin plugin = {.refuse_initialize = true};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer = NULL;

    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointer));
    CHECK_SAYS("plugin: not ready");
    CHECK_EQUAL(0, plugin.allocations);
    CHECK(current_context() == NULL);
    tarn_manager_release(manager);
}

static void count_release(void *owner)
{
    ++*(int *)owner;
}

TEST(zero_bytes_are_an_empty_pointer_and_never_reach_the_plugin)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointers[4];
    int released = 0;

    CHECK_OK(tarn_manager_memalloc(manager, 0, TARN_STREAM_NONE, &pointers[0]));
    CHECK_OK(tarn_manager_memhostalloc(manager, 0, TARN_HOST_MAPPED, &pointers[1]));
    CHECK_OK(
        tarn_manager_mempin(manager, NULL, 0, 0, &released, count_release, &pointers[2]));
    CHECK_OK(tarn_manager_memallocmanaged(manager, 0, true, &pointers[3]));
    CHECK_EQUAL(TARN_POINTER_DEVICE, tarn_pointer_get_kind(pointers[0]));
    CHECK_EQUAL(TARN_POINTER_MAPPED, tarn_pointer_get_kind(pointers[1]));
    CHECK_EQUAL(TARN_POINTER_PINNED, tarn_pointer_get_kind(pointers[2]));
    CHECK_EQUAL(TARN_POINTER_MANAGED, tarn_pointer_get_kind(pointers[3]));
    CHECK_EQUAL(0, released);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(0, tarn_pointer_bytes(pointers[i]));
        tarn_pointer_release(pointers[i]);
    }
    CHECK_EQUAL(1, released);
    CHECK_EQUAL(0, plugin.allocations);
    tarn_manager_release(manager);
}

TEST(flags_that_nobody_knows_are_refused)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;
    char memory[8];

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_memhostalloc(manager, 8, 8, &pointer));
    CHECK_SAYS("memhostalloc knows no flags 0x8");
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_mempin(manager, memory, 8, TARN_HOST_WRITE_COMBINED, NULL,
                                     NULL, &pointer));
    CHECK_SAYS("mempin knows no flags 0x4");
    CHECK_OK(tarn_manager_memhostalloc(manager, 8, 7, &pointer));
    CHECK_EQUAL(7, plugin.flags);
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}

TEST(arguments_that_are_missing_are_refused)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;
    size_t bytes;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_initialize(NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_reset(NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_memalloc(NULL, 0, TARN_STREAM_NONE, &pointer));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_mempin(manager, NULL, 8, 0, NULL, NULL, &pointer));
    CHECK_SAYS("8 bytes at NULL");
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_memallocmanaged(NULL, 8, true, &pointer));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_get_memory_info(manager, NULL, &bytes));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_defer_cleanup_begin(NULL));
    tarn_manager_release(manager);
}

TEST(plugin_that_succeeds_without_a_pointer_has_failed)
{
    struct plugin plugin = {.no_pointer = true};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer = NULL;

    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointer));
    CHECK_SAYS("memalloc of plugin says TARN_OK and has no pointer");
    CHECK(pointer == NULL);
    tarn_manager_release(manager);
}

TEST(stream_reaches_the_plugin_as_it_came)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_memalloc(manager, 8, TARN_STREAM_PER_THREAD, &pointer));
    CHECK(plugin.stream == TARN_STREAM_PER_THREAD);
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointer));
    CHECK(plugin.stream == TARN_STREAM_NONE);
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}
