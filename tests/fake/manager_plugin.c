/* manager_plugin.c -- plugins for the tests of loading: one valid, and one for each
 * defect. The valid one counts its instances in functions of its own. */
#define _GNU_SOURCE
#include <tarn/tarn.h>
#include <stdatomic.h>
#include <time.h>

/* For the tests, by dlsym(). */
TARN_API int plugin_instances;
TARN_API tarn_status plugin_was_told; /* when it set another manager at creation */

static tarn_status plugin_create(void *config, int device, void *context, void **self_out)
{
    (void)config;
    (void)device;
    (void)context;
    plugin_instances++;
    *self_out = &plugin_instances;
    return TARN_OK;
}

static tarn_status create_and_set(void *config, int device, void *context,
                                  void **self_out)
{
    plugin_was_told = tarn_set_memory_manager(tarn_native_manager_ops(), NULL);
    return plugin_create(config, device, context, self_out);
}

static void plugin_destroy(void *self)
{
    (void)self;
}

/* The test sets `plugin_goes_on` to the status that this `create` returns, plus 1. */
TARN_API atomic_int plugin_is_creating, plugin_goes_on;

static tarn_status create_and_wait(void *config, int device, void *context,
                                   void **self_out)
{
    atomic_store(&plugin_is_creating, 1);
    while (atomic_load(&plugin_goes_on) == 0)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (atomic_load(&plugin_goes_on) == TARN_OK + 1)
        return plugin_create(config, device, context, self_out);
    return tarn_error_set((tarn_status)(atomic_load(&plugin_goes_on) - 1), "fake: no");
}

static tarn_status plugin_memalloc(void *self, size_t bytes, tarn_stream stream,
                                   tarn_pointer **out)
{
    tarn_pointer_options options = {.size = sizeof options,
                                    .kind = TARN_POINTER_DEVICE,
                                    .address = 0x700000,
                                    .bytes = bytes};

    (void)self;
    (void)stream;
    return tarn_pointer_create(&options, out);
}

#define TABLE                                                \
    {                                                        \
        .size = sizeof(tarn_manager_ops),                    \
        .name = "fake",                                      \
        .interface_version = TARN_MANAGER_INTERFACE_VERSION, \
        .create = plugin_create,                             \
        .destroy = plugin_destroy,                           \
        .initialize = tarn_host_only_initialize,             \
        .reset = tarn_host_only_reset,                       \
        .memalloc = plugin_memalloc,                         \
        .memhostalloc = tarn_host_only_memhostalloc,         \
        .mempin = tarn_host_only_mempin,                     \
    }

TARN_API const tarn_manager_ops *tarn_manager_plugin(void);
TARN_API const tarn_manager_ops *that_sets_another(void);
TARN_API const tarn_manager_ops *that_waits(void);
TARN_API const tarn_manager_ops *of_version_2(void);
TARN_API const tarn_manager_ops *too_short(void);
TARN_API const tarn_manager_ops *without_mempin(void);
TARN_API const tarn_manager_ops *without_table(void);

const tarn_manager_ops *tarn_manager_plugin(void)
{
    static const tarn_manager_ops table = TABLE;

    return &table;
}

const tarn_manager_ops *that_waits(void)
{
    static tarn_manager_ops table = TABLE;

    table.create = create_and_wait;
    return &table;
}

const tarn_manager_ops *that_sets_another(void)
{
    static tarn_manager_ops table = TABLE;

    table.create = create_and_set;
    return &table;
}

const tarn_manager_ops *of_version_2(void)
{
    static tarn_manager_ops table = TABLE;

    table.interface_version = 2;
    return &table;
}

const tarn_manager_ops *too_short(void)
{
    static tarn_manager_ops table = TABLE;

    table.size = offsetof(tarn_manager_ops, memalloc);
    return &table;
}

const tarn_manager_ops *without_mempin(void)
{
    static tarn_manager_ops table = TABLE;

    table.mempin = NULL;
    return &table;
}

const tarn_manager_ops *without_table(void)
{
    return NULL;
}
