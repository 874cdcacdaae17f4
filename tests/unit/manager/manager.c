/* Test manager instances: invalid tables are distinguished, and each created instance is
 * destroyed once. */
#include "cu.h"

struct plugin {
    int created;
    int destroyed;
    int deferring;
    void *context;        /* passed to create */
    void *current[2];     /* at create and destroy */
    tarn_manager *itself; /* used in its own operations; NULL: not */
    bool fails_to_create; /* at create */
    bool fails_to_end;    /* deferred cleanup */
    bool wordless;        /* ... and set no message */
};

static tarn_status plugin_create(void *config, int device, void *context, void **self_out)
{
    struct plugin *plugin = config;

    CHECK_EQUAL(0, device);
    if (plugin->fails_to_create)
        return plugin->wordless
                   ? TARN_PLUGIN_FAILURE
                   : tarn_error_set(TARN_PLUGIN_FAILURE, "plugin: not today");
    plugin->created++;
    plugin->context = context;
    plugin->current[0] = current_context();
    *self_out = plugin;
    return TARN_OK;
}

static void plugin_destroy(void *self)
{
    struct plugin *plugin = self;

    plugin->destroyed++;
    plugin->current[1] = current_context();
    tarn_manager_release(tarn_manager_retain(plugin->itself));
    tarn_manager_release(plugin->itself); /* one too many */
}

static tarn_status plugin_nothing(void *self)
{
    (void)self;
    return TARN_OK;
}

static tarn_status plugin_memalloc(void *self, size_t bytes, tarn_stream stream,
                                   tarn_pointer **out)
{
    (void)self;
    (void)bytes;
    (void)stream;
    (void)out;
    return tarn_error_set(TARN_OUT_OF_MEMORY, "plugin: none");
}

static tarn_status plugin_memhostalloc(void *self, size_t bytes, unsigned flags,
                                       tarn_pointer **out)
{
    (void)flags;
    return plugin_memalloc(self, bytes, TARN_STREAM_NONE, out);
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

static tarn_status plugin_defer_begin(void *self)
{
    ((struct plugin *)self)->deferring++;
    return TARN_OK;
}

static tarn_status plugin_defer_end(void *self)
{
    struct plugin *plugin = self;

    plugin->deferring--;
    return plugin->fails_to_end
               ? tarn_error_set(TARN_PLUGIN_FAILURE, "plugin: no end of cleanup")
               : TARN_OK;
}

static const tarn_manager_ops plugin_ops = {
    .size = sizeof plugin_ops,
    .name = "plugin",
    .interface_version = TARN_MANAGER_INTERFACE_VERSION,
    .create = plugin_create,
    .destroy = plugin_destroy,
    .initialize = plugin_nothing,
    .reset = plugin_nothing,
    .memalloc = plugin_memalloc,
    .memhostalloc = plugin_memhostalloc,
    .mempin = plugin_mempin,
    .defer_cleanup_begin = plugin_defer_begin,
    .defer_cleanup_end = plugin_defer_end,
};

static tarn_manager *initializing;

static tarn_status initialize_by_allocating(void *self)
{
    tarn_pointer *pointer;

    (void)self;
    return tarn_manager_memalloc(initializing, 10, TARN_STREAM_NONE, &pointer);
}

TEST(manager_that_its_plugin_calls_while_it_initializes_is_rejected)
{
    tarn_manager_ops ops = plugin_ops;
    struct plugin plugin = {0};

    ops.initialize = initialize_by_allocating;
    CHECK_OK(tarn_manager_create(&ops, &plugin, 0, &initializing));
    CHECK_STATUS(TARN_REENTRANT_CALL, tarn_manager_initialize(initializing));
    CHECK_MESSAGE("memalloc of plugin was called inside its initialize or context_lost");
    CHECK_STATUS(TARN_REENTRANT_CALL, tarn_manager_initialize(initializing)); /* again */
    tarn_manager_release(initializing);
}

TEST(manager_is_made_once_and_ended_with_its_last_reference)
{
    struct plugin plugin = {0};
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(&plugin_ops, &plugin, 0, &manager));
    CHECK_TEXT("plugin", tarn_manager_name(manager));
    CHECK(tarn_manager_retain(manager) == manager);
    tarn_manager_release(manager);
    CHECK_EQUAL(0, plugin.destroyed);
    tarn_manager_release(manager);
    CHECK_EQUAL(1, plugin.created);
    CHECK_EQUAL(1, plugin.destroyed);
    tarn_manager_release(NULL);
    CHECK(tarn_manager_retain(NULL) == NULL);
}

TEST(manager_is_made_and_ended_in_its_context_and_no_context_stays)
{
    struct plugin plugin = {0};
    tarn_manager *manager;

    CHECK(current_context() == NULL);
    CHECK_OK(tarn_manager_create(&plugin_ops, &plugin, 0, &manager));
    tarn_manager_release(manager);
    CHECK(plugin.context != NULL);
    CHECK(plugin.current[0] == plugin.context);
    CHECK(plugin.current[1] == plugin.context);
    CHECK(current_context() == NULL);
}

TEST(manager_of_another_interface_version_is_rejected)
{
    struct plugin plugin = {0};
    tarn_manager_ops ops = plugin_ops;
    tarn_manager *manager = NULL;

    ops.interface_version = 2;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_create(&ops, &plugin, 0, &manager));
    CHECK_MESSAGE("plugin has interface version 2, version 1 required");
    CHECK(manager == NULL);
    CHECK_EQUAL(0, plugin.created);
}

TEST(manager_whose_table_is_too_short_is_rejected)
{
    tarn_manager_ops ops = plugin_ops;
    tarn_manager *manager;

    ops.size = offsetof(tarn_manager_ops, mempin);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_create(&ops, NULL, 0, &manager));
    CHECK_MESSAGE("the table of plugin has");
    CHECK_MESSAGE("72 bytes, the required operations need 80");
    ops.size = offsetof(tarn_manager_ops, interface_version) + sizeof(int);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_create(&ops, NULL, 0, &manager));
    CHECK_MESSAGE("20 bytes, the required operations need 80");
    ops.size--;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_create(&ops, NULL, 0, &manager));
    CHECK_MESSAGE("19 bytes, at least 20 are required for interface_version");
}

TEST(manager_without_a_required_operation_is_rejected_by_its_name)
{
    tarn_manager_ops ops = plugin_ops;
    tarn_manager *manager;

    ops.mempin = NULL;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_create(&ops, NULL, 0, &manager));
    CHECK_MESSAGE("plugin has no mempin");
    ops = plugin_ops;
    ops.name = NULL;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_create(&ops, NULL, 0, &manager));
    CHECK_MESSAGE("has no name");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_create(NULL, NULL, 0, &manager));
}

/* A message quotes the name, and has to have space for the problem. */
TEST(manager_with_a_long_name_is_rejected)
{
    struct plugin plugin = {0};
    char name[129] = {0};
    tarn_manager_ops ops = plugin_ops;
    tarn_manager *manager = NULL;

    ops.name = memset(name, 'n', sizeof name - 1);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_create(&ops, &plugin, 0, &manager));
    CHECK_MESSAGE("nnn... has more than 127 bytes");
    CHECK(manager == NULL);
    name[127] = 0;
    CHECK_OK(tarn_manager_create(&ops, &plugin, 0, &manager));
    tarn_manager_release(manager);
}

static tarn_status answer_nonsense(void *self)
{
    (void)self;
    return (tarn_status)TARN_STATUS_COUNT;
}

TEST(operation_that_returns_no_status_has_failed)
{
    struct plugin plugin = {0};
    tarn_manager_ops ops = plugin_ops;
    tarn_manager *manager;

    ops.reset = answer_nonsense;
    CHECK_OK(tarn_manager_create(&ops, &plugin, 0, &manager));
    CHECK_STATUS(TARN_PLUGIN_FAILURE, tarn_manager_reset(manager));
    CHECK_MESSAGE("reset of plugin returned 17, which is not a status");
    tarn_manager_release(manager);
}

/* A table from before the optional operations: Tarn does not read past its end. */
TEST(manager_with_a_shorter_table_has_no_optional_operations)
{
    struct plugin plugin = {0};
    tarn_manager_ops ops = plugin_ops;
    tarn_manager *manager;
    tarn_pointer *pointer;
    tarn_ipc_handle handle;
    size_t free_bytes = 3, total_bytes = 4;

    ops.size = offsetof(tarn_manager_ops, memallocmanaged);
    CHECK_OK(tarn_manager_create(&ops, &plugin, 0, &manager));
    CHECK_STATUS(TARN_NOT_SUPPORTED,
                 tarn_manager_memallocmanaged(manager, 8, true, &pointer));
    CHECK_MESSAGE("plugin does not support memallocmanaged");
    CHECK_STATUS(TARN_NOT_SUPPORTED,
                 tarn_manager_get_memory_info(manager, &free_bytes, &total_bytes));
    CHECK_EQUAL(7, free_bytes + total_bytes);
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_manager_get_ipc_handle(manager, NULL, &handle));
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_manager_defer_cleanup_begin(manager));
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_manager_defer_cleanup_end(manager));
    tarn_manager_release(manager);
}

TEST(manager_of_a_newer_table_is_taken_as_far_as_it_is_known)
{
    struct {
        tarn_manager_ops known;
        void *unknown[16];
    } newer = {.known = plugin_ops};
    struct plugin plugin = {0};
    tarn_manager *manager;

    newer.known.size = sizeof newer;
    for (int i = 0; i < 16; i++)
        newer.unknown[i] = &newer;
    CHECK_OK(tarn_manager_create(&newer.known, &plugin, 0, &manager));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_defer_cleanup_end(manager));
    CHECK_MESSAGE("without a matching defer_cleanup_begin");
    tarn_manager_release(manager);
    CHECK_EQUAL(1, plugin.destroyed);
}

TEST(manager_whose_creation_fails_does_not_exist)
{
    struct plugin plugin = {.fails_to_create = true};
    tarn_manager *manager = NULL;

    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_manager_create(&plugin_ops, &plugin, 0, &manager));
    CHECK_MESSAGE("plugin: not today");
    plugin.wordless = true;
    tarn_error_set(TARN_PLUGIN_FAILURE, "an older failure");
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_manager_create(&plugin_ops, &plugin, 0, &manager));
    CHECK_MESSAGE("create of plugin failed");
    CHECK(manager == NULL);
    CHECK_EQUAL(0, plugin.destroyed);
}

static tarn_status fail_silently(void *self)
{
    (void)self;
    return TARN_OUT_OF_MEMORY;
}

static tarn_status allocate_silently(void *self, size_t bytes, unsigned flags,
                                     tarn_pointer **out)
{
    (void)self, (void)bytes, (void)flags, (void)out;
    return TARN_OUT_OF_MEMORY;
}

static tarn_status fail_to_know(void *self, size_t *free_out, size_t *total_out)
{
    (void)self, (void)free_out, (void)total_out;
    return TARN_OUT_OF_MEMORY;
}

/* Each of these leaves a message of the status that the next one returns. */
TEST(plugin_that_fails_without_a_message_does_not_get_that_of_an_older_failure)
{
    tarn_manager_ops ops = plugin_ops;
    struct plugin plugin = {0};
    tarn_manager *manager;
    tarn_pointer *pointer;
    size_t free_bytes, total;

    ops.reset = ops.defer_cleanup_begin = fail_silently;
    ops.memhostalloc = allocate_silently;
    ops.get_memory_info = fail_to_know;
    CHECK_OK(tarn_manager_create(&ops, &plugin, 0, &manager));
    tarn_error_set(TARN_OUT_OF_MEMORY, "an older failure");
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_manager_reset(manager));
    CHECK_MESSAGE("manager: reset of plugin failed");
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_manager_defer_cleanup_begin(manager));
    CHECK_MESSAGE("manager: defer_cleanup_begin of plugin failed");
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_manager_memhostalloc(manager, 8, 0, &pointer));
    CHECK_MESSAGE("manager: memhostalloc of plugin failed");
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_manager_get_memory_info(manager, &free_bytes, &total));
    CHECK_MESSAGE("manager: get_memory_info of plugin failed");
    tarn_manager_release(manager);
    ops.initialize = fail_silently;
    CHECK_OK(tarn_manager_create(&ops, &plugin, 0, &manager));
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_manager_initialize(manager));
    CHECK_MESSAGE("manager: initialize of plugin failed");
    tarn_manager_release(manager);
}

TEST(manager_of_a_device_that_does_not_exist_is_rejected)
{
    struct plugin plugin = {0};
    tarn_manager *manager;

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_create(&plugin_ops, &plugin, 99, &manager));
    CHECK_MESSAGE("device 99 does not exist");
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_create(&plugin_ops, &plugin, -1, &manager));
}

TEST(manager_that_ends_completes_its_deferred_frees)
{
    struct plugin plugin = {0};
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(&plugin_ops, &plugin, 0, &manager));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    CHECK_EQUAL(2, plugin.deferring);
    tarn_manager_release(manager);
    CHECK_EQUAL(0, plugin.deferring);
}

static struct {
    int count;
    char last[600];
} warnings;

static void hear(void *data, const char *message)
{
    (void)data;
    warnings.count++;
    snprintf(warnings.last, sizeof warnings.last, "%s", message);
}

TEST(manager_that_retains_and_releases_itself_at_its_end_ends_once)
{
    struct plugin plugin = {0};

    CHECK_OK(tarn_manager_create(&plugin_ops, &plugin, 0, &plugin.itself));
    tarn_manager_release(plugin.itself);
    CHECK_EQUAL(1, plugin.destroyed);
}

TEST(manager_whose_last_end_of_cleanup_fails_is_a_warning)
{
    struct plugin plugin = {.fails_to_end = true};
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(&plugin_ops, &plugin, 0, &manager));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    CHECK_STATUS(TARN_PLUGIN_FAILURE, tarn_manager_defer_cleanup_end(manager));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    memset(&warnings, 0, sizeof warnings);
    tarn_set_warning_handler(hear, NULL);
    tarn_manager_release(manager);
    CHECK_EQUAL(0, plugin.deferring);
    CHECK_EQUAL(1, plugin.destroyed);
    CHECK_EQUAL(1, warnings.count);
    CHECK(strstr(warnings.last,
                 "plugin was destroyed while cleanup was deferred: plugin: no end"));
}
