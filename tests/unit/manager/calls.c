/* Test the guarantees of the checked calls, for any plugin. */
#define _GNU_SOURCE
#include "cu.h"
#include <stdlib.h>

/* Before the driver is opened: the manager is on the last device, whose context no other
 * code makes current. */
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
    bool no_pointer; /* return TARN_OK and no result */
    bool fail_initialize;
    unsigned flags;
    tarn_stream stream;
    void (*falsify)(tarn_pointer_options *options); /* makes results wrong; NULL: right */
    int finalized;                                  /* pointers that ended */
    tarn_ipc_handle handle;
    size_t free_bytes, total_bytes;
};

static void count_finalizer(void *data, tarn_device_ptr address, size_t bytes)
{
    (void)address;
    (void)bytes;
    ((struct plugin *)data)->finalized++;
}

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
    if (plugin->fail_initialize)
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

/* A pointer as the operations have to return it, unless the test requests a wrong one. */
static tarn_status return_pointer(struct plugin *plugin, tarn_pointer_options options,
                                  tarn_pointer **out)
{
    options.size = sizeof options;
    options.device = last_device();
    options.finalizer = count_finalizer;
    options.finalizer_data = plugin;
    note_context(plugin);
    CHECK(plugin->initialized > 0);
    CHECK(options.bytes > 0);
    plugin->allocations++;
    if (plugin->falsify)
        plugin->falsify(&options);
    return plugin->no_pointer ? TARN_OK : tarn_pointer_create(&options, out);
}

static tarn_status plugin_memalloc(void *self, size_t bytes, tarn_stream stream,
                                   tarn_pointer **out)
{
    tarn_pointer_options options = {.address = 0x1000, .bytes = bytes};

    ((struct plugin *)self)->stream = stream;
    return return_pointer(self, options, out);
}

static char host_memory[64];

static tarn_status plugin_memhostalloc(void *self, size_t bytes, unsigned flags,
                                       tarn_pointer **out)
{
    bool mapped = flags & TARN_HOST_MAPPED;
    tarn_pointer_options options = {.kind = mapped ? TARN_POINTER_MAPPED
                                                   : TARN_POINTER_PINNED,
                                    .address = mapped ? 0x1000 : 0,
                                    .host = host_memory,
                                    .bytes = bytes};

    ((struct plugin *)self)->flags = flags;
    return return_pointer(self, options, out);
}

static tarn_status plugin_mempin(void *self, void *host, size_t bytes, unsigned flags,
                                 void *owner, void (*owner_release)(void *),
                                 tarn_pointer **out)
{
    tarn_pointer_options options = {.kind = TARN_POINTER_PINNED,
                                    .host = host,
                                    .bytes = bytes,
                                    .owner = owner,
                                    .owner_release = owner_release};

    (void)flags;
    return return_pointer(self, options, out);
}

static tarn_status plugin_memallocmanaged(void *self, size_t bytes, bool attach_global,
                                          tarn_pointer **out)
{
    tarn_pointer_options options = {
        .kind = TARN_POINTER_MANAGED, .address = 0x1000, .bytes = bytes};

    (void)attach_global;
    return return_pointer(self, options, out);
}

static tarn_status plugin_get_ipc_handle(void *self, const tarn_pointer *pointer,
                                         tarn_ipc_handle *out)
{
    (void)pointer;
    note_context(self);
    *out = ((struct plugin *)self)->handle;
    return TARN_OK;
}

static tarn_status plugin_get_memory_info(void *self, size_t *free_out, size_t *total_out)
{
    note_context(self);
    *free_out = ((struct plugin *)self)->free_bytes;
    *total_out = ((struct plugin *)self)->total_bytes;
    return TARN_OK;
}

static tarn_status plugin_defer_cleanup(void *self)
{
    note_context(self);
    return TARN_OK;
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
        .get_ipc_handle = plugin_get_ipc_handle,
        .get_memory_info = plugin_get_memory_info,
        .defer_cleanup_begin = plugin_defer_cleanup,
        .defer_cleanup_end = plugin_defer_cleanup,
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
    tarn_ipc_handle handle;
    size_t free_bytes, total_bytes;

    CHECK_OK(tarn_manager_reset(manager));
    CHECK_OK(tarn_manager_initialize(manager));
    CHECK_OK(tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointer));
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_manager_get_ipc_handle(manager, pointer, &handle));
    CHECK(current_context() == NULL);
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_manager_get_memory_info(manager, &free_bytes, &total_bytes));
    CHECK(current_context() == NULL);
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    CHECK(current_context() == NULL);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK(current_context() == NULL);
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
    CHECK_EQUAL(2, plugin.initialized); /* already initialized: not called */
    CHECK_OK(tarn_manager_reset(manager));
    CHECK_OK(tarn_manager_reset(manager));
    CHECK_EQUAL(3, plugin.resets);
    CHECK_OK(tarn_manager_initialize(manager));
    CHECK_EQUAL(3, plugin.initialized);
    tarn_manager_release(manager);
}

TEST(allocation_fails_where_initialize_does)
{
    struct plugin plugin = {.fail_initialize = true};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer = NULL;

    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointer));
    CHECK_MESSAGE("plugin: not ready");
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

TEST(unknown_flags_are_rejected)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;
    char memory[8];

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_memhostalloc(manager, 8, 8, &pointer));
    CHECK_MESSAGE("memhostalloc: unknown flags 0x8");
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_mempin(manager, memory, 8, TARN_HOST_WRITE_COMBINED, NULL,
                                     NULL, &pointer));
    CHECK_MESSAGE("mempin: unknown flags 0x4");
    CHECK_OK(tarn_manager_memhostalloc(manager, 8, 7, &pointer));
    CHECK_EQUAL(7, plugin.flags);
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}

TEST(arguments_that_are_missing_are_rejected)
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
    CHECK_MESSAGE("8 bytes, but host is NULL");
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
    CHECK_MESSAGE("memalloc of plugin returned TARN_OK without a pointer");
    CHECK(pointer == NULL);
    tarn_manager_release(manager);
}

/* --- results that are not what was requested --- */

static void make_short(tarn_pointer_options *options)
{
    options->bytes--;
}

static void make_longer(tarn_pointer_options *options)
{
    options->bytes++;
}

static void make_empty(tarn_pointer_options *options)
{
    options->address = options->bytes = 0;
    options->host = NULL;
}

static void make_another_kind(tarn_pointer_options *options)
{
    options->kind =
        options->kind == TARN_POINTER_MANAGED ? TARN_POINTER_DEVICE : options->kind + 1;
}

static void move_to_another_device(tarn_pointer_options *options)
{
    options->device--;
}

static void take_device_address(tarn_pointer_options *options)
{
    options->address = 0;
    options->host = host_memory;
}

static void take_host_address(tarn_pointer_options *options)
{
    options->host = NULL;
    options->address = 0x1000;
}

static void move_host(tarn_pointer_options *options)
{
    options->host = (char *)options->host + 1;
}

enum { DEVICE, PINNED, MAPPED, PIN, MANAGED };

static tarn_status ask(tarn_manager *manager, int operation, tarn_pointer **out)
{
    switch (operation) {
    case DEVICE:
        return tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, out);
    case PINNED:
        return tarn_manager_memhostalloc(manager, 8, 0, out);
    case MAPPED:
        return tarn_manager_memhostalloc(manager, 8, TARN_HOST_MAPPED, out);
    case PIN:
        return tarn_manager_mempin(manager, host_memory, 8, 0, NULL, NULL, out);
    default:
        return tarn_manager_memallocmanaged(manager, 8, true, out);
    }
}

static void check_rejected(struct plugin *plugin, tarn_manager *manager, int operation,
                           void (*falsify)(tarn_pointer_options *options))
{
    tarn_pointer *pointer = NULL;
    int before = plugin->finalized;

    plugin->falsify = falsify;
    CHECK_STATUS(TARN_PLUGIN_FAILURE, ask(manager, operation, &pointer));
    CHECK_MESSAGE("of plugin returned");
    CHECK_MESSAGE("requested were 8 bytes of");
    CHECK(pointer == NULL);
    CHECK_EQUAL(before + 1, plugin->finalized);
}

TEST(pointer_other_than_requested_is_rejected_and_released)
{
    void (*const always_wrong[])(tarn_pointer_options *) = {
        make_short, make_empty, make_another_kind, move_to_another_device};
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);

    if (!has_second_device())
        skip();
    for (int operation = DEVICE; operation <= MANAGED; operation++)
        for (size_t i = 0; i < sizeof always_wrong / sizeof *always_wrong; i++)
            check_rejected(&plugin, manager, operation, always_wrong[i]);
    check_rejected(&plugin, manager, DEVICE, take_device_address);
    check_rejected(&plugin, manager, MANAGED, take_device_address);
    check_rejected(&plugin, manager, MAPPED, take_device_address);
    check_rejected(&plugin, manager, MAPPED, take_host_address);
    check_rejected(&plugin, manager, PINNED, take_host_address);
    check_rejected(&plugin, manager, PIN, move_host);
    tarn_manager_release(manager);
}

TEST(rejection_has_the_numbers_of_both)
{
    struct plugin plugin = {.falsify = make_short};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;

    if (!has_second_device())
        skip(); /* device 1 is in the messages */
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_manager_memalloc(manager, 8192, TARN_STREAM_NONE, &pointer));
    CHECK_MESSAGE(
        "memalloc of plugin returned 8191 bytes of device memory, device 1, at "
        "0x1000 (host (nil)); requested were 8192 bytes of device memory, device 1");
    tarn_manager_release(manager);
}

TEST(pointer_with_more_than_was_requested_is_returned)
{
    struct plugin plugin = {.falsify = make_longer};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;

    for (int operation = DEVICE; operation <= MANAGED; operation++) {
        CHECK_OK(ask(manager, operation, &pointer));
        CHECK_EQUAL(9, tarn_pointer_bytes(pointer));
        tarn_pointer_release(pointer);
    }
    tarn_manager_release(manager);
}

static void leave_to_no_device(tarn_pointer_options *options)
{
    options->device = TARN_DEVICE_NONE;
}

TEST(pinned_memory_may_be_of_no_device)
{
    struct plugin plugin = {.falsify = leave_to_no_device};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;

    CHECK_OK(ask(manager, PINNED, &pointer));
    tarn_pointer_release(pointer);
    check_rejected(&plugin, manager, MAPPED, leave_to_no_device);
    tarn_manager_release(manager);
}

TEST(owner_stays_the_callers_if_pinning_is_rejected)
{
    struct plugin plugin = {.falsify = make_short};
    tarn_manager *manager = make(&plugin);
    tarn_pointer *pointer;
    int released = 0;

    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_manager_mempin(manager, host_memory, 8, 0, &released, count_release,
                                     &pointer));
    CHECK_EQUAL(1, plugin.finalized);
    CHECK_EQUAL(0, released);
    plugin.falsify = NULL;
    CHECK_OK(tarn_manager_mempin(manager, host_memory, 8, 0, &released, count_release,
                                 &pointer));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, released);
    tarn_manager_release(manager);
}

static tarn_ipc_handle right_handle(void)
{
    return (tarn_ipc_handle){
        .reserved = {1}, .bytes = 8, .offset = 0x1000, .device = last_device()};
}

static void check_handle_rejected(struct plugin *plugin, tarn_manager *manager,
                                  const tarn_pointer *pointer, tarn_ipc_handle wrong)
{
    tarn_ipc_handle handle = {.bytes = 77};

    plugin->handle = wrong;
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_manager_get_ipc_handle(manager, pointer, &handle));
    CHECK_MESSAGE("get_ipc_handle of plugin returned a handle of");
    CHECK_MESSAGE("requested was the handle of 8 bytes at 0x1000, device 1");
    CHECK_EQUAL(77, handle.bytes);
}

TEST(handle_that_is_not_the_blocks_is_rejected)
{
    struct plugin plugin = {0};
    tarn_manager *manager = make(&plugin);
    tarn_ipc_handle handle, wrong;
    tarn_pointer *pointer;

    if (!has_second_device())
        skip(); /* device 1 is in the messages */
    CHECK_OK(ask(manager, DEVICE, &pointer));
    plugin.handle = right_handle();
    CHECK_OK(tarn_manager_get_ipc_handle(manager, pointer, &handle));
    CHECK_EQUAL(0x1000, handle.offset);
    memset(&wrong, 0xa5, sizeof wrong);
    check_handle_rejected(&plugin, manager, pointer, wrong);
    memset(&wrong, 0, sizeof wrong);
    check_handle_rejected(&plugin, manager, pointer, wrong);
    wrong = right_handle(), wrong.bytes = 7;
    check_handle_rejected(&plugin, manager, pointer, wrong);
    wrong = right_handle(), wrong.offset = 0x1001; /* begins before address 0 */
    check_handle_rejected(&plugin, manager, pointer, wrong);
    wrong = right_handle(), wrong.device = 0;
    check_handle_rejected(&plugin, manager, pointer, wrong);
    wrong = right_handle(), wrong.reserved[0] = 0;
    check_handle_rejected(&plugin, manager, pointer, wrong);
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}

TEST(memory_info_with_more_free_than_total_is_rejected)
{
    struct plugin plugin = {.free_bytes = (size_t)-1, .total_bytes = 5};
    tarn_manager *manager = make(&plugin);
    size_t free_bytes = 77, total_bytes = 77;

    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_manager_get_memory_info(manager, &free_bytes, &total_bytes));
    CHECK_MESSAGE(
        "get_memory_info of plugin returned 18446744073709551615 bytes free of 5");
    CHECK_EQUAL(77, free_bytes);
    CHECK_EQUAL(77, total_bytes);
    plugin.free_bytes = 5;
    CHECK_OK(tarn_manager_get_memory_info(manager, &free_bytes, &total_bytes));
    CHECK_EQUAL(5, free_bytes);
    CHECK_EQUAL(5, total_bytes);
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
