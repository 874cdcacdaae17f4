/* Test frees after the context is gone and after exit began, and the calls after that.
 *
 * The test covers each manager that comes with Tarn, and a plugin that is notified.
 */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include "driver_calls.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096 };

static const tarn_manager_ops *ops; /* the manager under test */
static unsigned char page[2 * BYTES];

static void each_in_child(void (*function)(void))
{
    const tarn_manager_ops *all[] = {tarn_resource_manager_ops(),
                                     tarn_native_manager_ops(), tarn_pool_manager_ops()};

    for (int i = 0; i < 3; i++) {
        ops = all[i];
        in_child(function);
    }
}

static tarn_manager *make(void)
{
    tarn_manager *manager;

    CHILD_STATUS(TARN_OK, tarn_set_memory_manager(ops, NULL));
    CHILD_STATUS(TARN_OK, tarn_memory_manager(0, &manager));
    return manager;
}

/* One pointer of each kind. */
static void take(tarn_manager *manager, tarn_pointer *pointers[4])
{
    CHILD_STATUS(TARN_OK,
                 tarn_manager_memalloc(manager, BYTES, TARN_STREAM_NONE, &pointers[0]));
    CHILD_STATUS(TARN_OK, tarn_manager_memhostalloc(manager, BYTES, TARN_HOST_MAPPED,
                                                    &pointers[1]));
    CHILD_STATUS(TARN_OK, tarn_manager_mempin(manager, page, sizeof page, 0, NULL, NULL,
                                              &pointers[2]));
    CHILD_STATUS(TARN_OK,
                 tarn_manager_memallocmanaged(manager, BYTES, true, &pointers[3]));
}

static void release_pointers(tarn_pointer *pointers[4])
{
    for (int i = 0; i < 4; i++)
        tarn_pointer_release(pointers[i]);
}

static void use(tarn_manager *manager)
{
    tarn_pointer *pointers[4];
    unsigned char byte = 0;

    take(manager, pointers);
    tarn_device_ptr address = tarn_pointer_address(pointers[0]);
    CHILD_STATUS(TARN_OK, tarn_memset_async(0, address, 7, BYTES, TARN_STREAM_LEGACY));
    CHILD_STATUS(TARN_OK, tarn_memcpy_async(0, (tarn_device_ptr)(uintptr_t)&byte,
                                            address + BYTES - 1, 1, TARN_STREAM_NONE));
    CHILD_CHECK(byte == 7);
    release_pointers(pointers);
    CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
    CHILD_CHECK(tarn_pointer_deferred_count() == 0);
}

/* --- a reset of the context by other code --- */

static void reset_under_a_manager(void)
{
    tarn_manager *manager = make(), *again;
    tarn_pointer *before[4], *pending[4];

    take(manager, before);
    tarn_pointer_release(before[2]);
    take(manager, pending);
    release_pointers(pending); /* the native manager still has some of these */
    reset_the_device();
    tarn_pointer_release(before[0]);
    tarn_pointer_release(before[1]);
    tarn_pointer_release(before[3]);
    CHILD_STATUS(TARN_OK, tarn_manager_reset(manager));
    CHILD_CHECK(tarn_pointer_deferred_count() == 0);
    use(manager);
    CHILD_STATUS(TARN_OK, tarn_memory_manager(0, &again));
    CHILD_CHECK(manager == again);
    reset_the_device();
    use(manager);
}

TEST(instance_continues_in_the_next_context_generation)
{
    each_in_child(reset_under_a_manager);
}

static void release_late(void)
{
    tarn_manager *manager = make();
    tarn_pointer *before[4], *later[64];

    take(manager, before);
    tarn_pointer_release(before[2]);
    reset_the_device();
    for (int i = 0; i < 64; i++) /* the old address is among theirs */
        CHILD_STATUS(TARN_OK, tarn_manager_memalloc(manager, BYTES, TARN_STREAM_LEGACY,
                                                    &later[i]));
    tarn_pointer_release(before[0]);
    tarn_pointer_release(before[1]);
    tarn_pointer_release(before[3]);
    CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
    for (int i = 0; i < 64; i++) {
        CHILD_STATUS(TARN_OK, tarn_memset_async(0, tarn_pointer_address(later[i]), 7,
                                                BYTES, TARN_STREAM_LEGACY));
        tarn_pointer_release(later[i]);
    }
    CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
    CHILD_CHECK(tarn_pointer_deferred_count() == 0);
}

TEST(pointers_of_before_a_reset_take_nothing_from_those_after_it)
{
    each_in_child(release_late);
}

/* --- exit has begun --- */

static tarn_manager *kept;
static tarn_pointer *pointers[4];

static void end_and_leave(void)
{
    tarn_pointer *none = NULL;

    release_pointers(pointers);
    CHILD_STATUS(TARN_OK, tarn_manager_reset(kept));
    CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_end(kept));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_manager_initialize(kept));
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn_manager_memalloc(kept, 8, TARN_STREAM_NONE, &none));
    CHILD_MESSAGE("in an exiting process");
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_memory_manager(0, &kept));
    CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
    tarn_manager_release(kept);
    _exit(none ? 1 : 0); /* in_child() looks for it: only exit() may reach this line */
}

static void exit_with_all_live(void)
{
    /* Registered before the driver is opened, so it runs after Tarn has noticed the exit.
     */
    if (atexit(end_and_leave) != 0)
        child_fail("no atexit");
    kept = make();
    take(kept, pointers);
    CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_begin(kept));
    exit(1);
}

TEST(memory_may_be_freed_when_exit_has_begun)
{
    each_in_child(exit_with_all_live);
}

static void fork_with_all_live(void)
{
    int status = 0;

    kept = make();
    take(kept, pointers);
    CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_begin(kept));
    pid_t child = fork();
    if (child == 0) {
        release_pointers(pointers);
        CHILD_CHECK(tarn_pointer_deferred_count() == 0);
        CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_end(kept));
        CHILD_STATUS(TARN_OK, tarn_manager_reset(kept));
        _exit(0);
    }
    CHILD_CHECK(waitpid(child, &status, 0) == child && status == 0);
    release_pointers(pointers);
    CHILD_STATUS(TARN_OK, tarn_manager_defer_cleanup_end(kept));
    CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
    CHILD_CHECK(tarn_pointer_deferred_count() == 0);
}

TEST(memory_may_be_freed_in_a_forked_child)
{
    each_in_child(fork_with_all_live);
}

/* --- a plugin that is notified --- */

struct plugin {
    int initialized, resets, gone;
    int late; /* calls after a reset of the context that came before the notification */
    uint64_t generation;
    struct {
        uint64_t generation;
        bool freed, forgotten;
    } block;
};

static tarn_status plugin_create(void *config, int device, void *context, void **self_out)
{
    struct plugin *plugin = config;

    (void)context;
    plugin->generation = tarn_context_generation(device);
    *self_out = config;
    return TARN_OK;
}

static void look(struct plugin *plugin)
{
    plugin->late += tarn_context_generation(0) != plugin->generation;
}

static void plugin_destroy(void *self)
{
    look(self);
}

static tarn_status plugin_initialize(void *self)
{
    look(self);
    ((struct plugin *)self)->initialized++;
    return TARN_OK;
}

static tarn_status plugin_reset(void *self)
{
    look(self);
    ((struct plugin *)self)->resets++;
    return TARN_OK;
}

static void plugin_context_gone(void *self)
{
    struct plugin *plugin = self;

    plugin->gone++;
    plugin->generation = tarn_context_generation(0);
}

/* As a finalizer does according to the header. */
static void plugin_finalize(void *data, tarn_device_ptr address, size_t bytes)
{
    struct plugin *plugin = data;

    (void)address;
    (void)bytes;
    if (tarn_context_generation(0) == plugin->block.generation)
        plugin->block.freed = true;
    else
        plugin->block.forgotten = true;
}

static tarn_status plugin_memalloc(void *self, size_t bytes, tarn_stream stream,
                                   tarn_pointer **new_pointers)
{
    struct plugin *plugin = self;
    tarn_pointer_options options = {.size = sizeof options,
                                    .kind = TARN_POINTER_DEVICE,
                                    .address = 0x700000,
                                    .bytes = bytes,
                                    .finalizer = plugin_finalize,
                                    .finalizer_data = plugin};

    (void)stream;
    look(plugin);
    plugin->block.generation = tarn_context_generation(0);
    return tarn_pointer_create(&options, new_pointers);
}

static const tarn_manager_ops plugin_ops = {
    .size = sizeof plugin_ops,
    .name = "plugin",
    .interface_version = TARN_MANAGER_INTERFACE_VERSION,
    .create = plugin_create,
    .destroy = plugin_destroy,
    .initialize = plugin_initialize,
    .reset = plugin_reset,
    .memalloc = plugin_memalloc,
    .memhostalloc = tarn_host_only_memhostalloc,
    .mempin = tarn_host_only_mempin,
    .context_lost = plugin_context_gone,
};

static void tell_a_plugin(void)
{
    struct plugin plugin = {0};
    tarn_manager *manager;
    tarn_pointer *pointer, *later;

    CHILD_STATUS(TARN_OK, tarn_manager_create(&plugin_ops, &plugin, 0, &manager));
    CHILD_STATUS(TARN_OK, tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointer));
    CHILD_CHECK(plugin.initialized == 1 && plugin.gone == 0);
    reset_the_device();
    CHILD_STATUS(TARN_OK, tarn_manager_reset(manager)); /* notified first, then called */
    CHILD_CHECK(plugin.gone == 1 && plugin.resets == 1 && plugin.initialized == 1);
    tarn_pointer_release(pointer);
    CHILD_CHECK(plugin.block.forgotten && !plugin.block.freed);
    CHILD_STATUS(TARN_OK, tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &later));
    CHILD_CHECK(plugin.initialized == 2 && plugin.gone == 1);
    tarn_pointer_release(later);
    CHILD_CHECK(plugin.block.freed);
    reset_the_device();
    CHILD_STATUS(TARN_OK, tarn_manager_initialize(manager));
    CHILD_CHECK(plugin.initialized == 3 && plugin.gone == 2);
    reset_the_device();
    tarn_manager_release(manager);
    CHILD_CHECK(plugin.gone == 3);
    CHILD_CHECK(plugin.late == 0);
}

TEST(plugin_is_notified_once_and_first_of_a_context_reset)
{
    in_child(tell_a_plugin);
}

static struct plugin leaving;

static void look_at_the_end(void)
{
    tarn_pointer_release(pointers[0]);
    CHILD_CHECK(tarn_context_generation(0) == 0);
    CHILD_CHECK(leaving.block.forgotten && !leaving.block.freed);
    _exit(0);
}

static void exit_with_a_plugin(void)
{
    tarn_manager *manager;

    if (atexit(look_at_the_end) != 0)
        child_fail("no atexit");
    CHILD_STATUS(TARN_OK, tarn_manager_create(&plugin_ops, &leaving, 0, &manager));
    CHILD_STATUS(TARN_OK,
                 tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointers[0]));
    exit(1);
}

TEST(finalizer_of_a_plugin_can_tell_that_exit_has_begun)
{
    in_child(exit_with_a_plugin);
}

static void ask_for_lives(void)
{
    CHILD_CHECK(tarn_context_generation(0) == 0); /* and that opened no driver */
    CHILD_STATUS(TARN_OK, tarn_driver_synchronize(0));
    uint64_t generation = tarn_context_generation(0);
    CHILD_CHECK(generation != 0);
    CHILD_CHECK(tarn_context_generation(0) == generation);
    reset_the_device();
    CHILD_STATUS(TARN_OK, tarn_driver_synchronize(0));
    CHILD_CHECK(tarn_context_generation(0) != 0 &&
                tarn_context_generation(0) != generation);
    CHILD_CHECK(tarn_context_generation(-1) == 0 && tarn_context_generation(1000) == 0);
}

TEST(context_generation_changes_after_a_reset)
{
    in_child(ask_for_lives);
}
