/* When the blocking-call hook is called: before the first driver call that is more than a
 * query of contexts, and not where a pool has immediately available memory. */
#include "test.h"
#include "driver_calls.h"
#include "scripted.h"

struct listener {
    tarn_blocking_hook before; /* first, so that it is the hook too */
    unsigned hook_calls;
    unsigned long long calls; /* driver calls before the hook ran */
};

static void listen(tarn_blocking_hook *before)
{
    ((struct listener *)before)->hook_calls++;
}

static void listen_and_count(tarn_blocking_hook *before)
{
    listen(before);
    ((struct listener *)before)->calls = sim_calls();
}

TEST(blocking_hook_is_called_once_until_it_is_set_again)
{
    struct listener listener = {.before = {listen}};
    struct scripted script;
    tarn_device_ptr block;

    scripted_begin(&script, 0);
    CHECK(tarn_set_blocking_hook(&listener.before) == NULL);
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, TARN_STREAM_NONE, &block));
    CHECK_EQUAL(1, listener.hook_calls);
    CHECK_OK(tarn_resource_deallocate(script.resource, block, 10, 0, TARN_STREAM_NONE));
    CHECK_EQUAL(1, listener.hook_calls);
    CHECK(tarn_set_blocking_hook(&listener.before) == NULL);
    CHECK(tarn_set_blocking_hook(NULL) == &listener.before);
    scripted_end(&script);
    CHECK_EQUAL(1, listener.hook_calls);
}

static struct scripted beneath;

static void use_a_resource(tarn_blocking_hook *before)
{
    tarn_device_ptr block;

    listen(before);
    CHECK_OK(tarn_resource_allocate(beneath.resource, 1, 0, TARN_STREAM_NONE, &block));
    CHECK_OK(tarn_resource_deallocate(beneath.resource, block, 1, 0, TARN_STREAM_NONE));
}

TEST(blocking_hook_may_use_tarn)
{
    struct listener listener = {.before = {use_a_resource}};
    tarn_device_ptr block;

    scripted_begin(&beneath, 0);
    tarn_set_blocking_hook(&listener.before);
    CHECK_OK(tarn_resource_allocate(beneath.resource, 1, 0, TARN_STREAM_NONE, &block));
    CHECK_EQUAL(1, listener.hook_calls);
    CHECK(tarn_set_blocking_hook(NULL) == NULL);
    CHECK_OK(tarn_resource_deallocate(beneath.resource, block, 1, 0, TARN_STREAM_NONE));
    scripted_end(&beneath);
}

static void count_a_free(void *data, tarn_device_ptr address, size_t bytes)
{
    (void)address;
    (void)bytes;
    CHECK_EQUAL(1, ((struct listener *)data)->hook_calls);
}

TEST(blocking_hook_is_called_before_code_that_ends_a_pointer)
{
    struct listener listener = {.before = {listen}};
    tarn_pointer_options options = {.size = sizeof options,
                                    .address = 0x700000,
                                    .bytes = 10,
                                    .finalizer = count_a_free,
                                    .finalizer_data = &listener};
    tarn_pointer *pointer;

    CHECK_OK(tarn_pointer_create(&options, &pointer));
    tarn_set_blocking_hook(&listener.before);
    tarn_pointer_release(pointer);
    tarn_set_blocking_hook(NULL);
    CHECK_EQUAL(1, listener.hook_calls);
}

TEST(blocking_hook_is_called_before_the_last_release)
{
    struct listener listener = {.before = {listen}};
    struct scripted script;

    scripted_begin(&script, 0);
    tarn_resource_retain(script.resource);
    tarn_set_blocking_hook(&listener.before);
    CHECK_OK(tarn_resource_release(script.resource));
    CHECK_EQUAL(0, listener.hook_calls);
    scripted_end(&script);
    tarn_set_blocking_hook(NULL);
    CHECK_EQUAL(1, listener.hook_calls);
    CHECK_EQUAL(1, script.destroyed);
}

TEST(blocking_hook_is_called_before_a_failed_free_is_retried)
{
    struct listener listener = {.before = {listen}};
    struct scripted script;
    tarn_pointer *pointer;

    scripted_begin(&script, 0);
    script.deallocate_synchronizes = true;
    CHECK_OK(tarn_pointer_allocate(script.resource, 10, TARN_STREAM_NONE, &pointer));
    script.free_fails = TARN_DRIVER_FAILURE;
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, tarn_pointer_deferred_count());
    script.free_fails = TARN_OK;
    tarn_set_blocking_hook(&listener.before);
    CHECK_OK(tarn_pointer_allocate(script.resource, 0, TARN_STREAM_NONE, &pointer));
    tarn_set_blocking_hook(NULL);
    CHECK_EQUAL(1, listener.hook_calls);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    tarn_pointer_release(pointer);
    scripted_end(&script);
}

TEST(blocking_hook_is_called_before_a_resource_decides_on_deferred_cleanup)
{
    struct listener listener = {.before = {listen}};
    struct scripted script;
    tarn_resource *before;
    tarn_manager *manager;
    tarn_pointer *pointer;

    scripted_begin(&script, 0);
    script.deallocate_synchronizes = true;
    CHECK_OK(tarn_device_set_resource(0, script.resource, &before));
    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    CHECK_OK(tarn_manager_memalloc(manager, 10, TARN_STREAM_NONE, &pointer));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    tarn_set_blocking_hook(&listener.before);
    tarn_pointer_release(pointer);
    tarn_set_blocking_hook(NULL);
    CHECK_EQUAL(1, listener.hook_calls); /* deallocate_synchronizes() is a user's code */
    CHECK_EQUAL(1, tarn_pointer_deferred_count());
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(1, script.frees);
    tarn_manager_release(manager);
    CHECK_OK(tarn_device_set_resource(0, before, NULL));
    CHECK_OK(tarn_resource_release(before));
    scripted_end(&script);
}

TEST(blocking_hook_is_called_before_host_memory_is_freed)
{
    struct listener listener = {.before = {listen_and_count}};
    tarn_manager *manager;
    tarn_pointer *pointer;

    if (!on_sim())
        skip();
    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &manager));
    CHECK_OK(tarn_manager_memhostalloc(manager, 64, TARN_HOST_MAPPED, &pointer));
    sim_configure("");
    tarn_set_blocking_hook(&listener.before);
    tarn_pointer_release(pointer);
    tarn_set_blocking_hook(NULL);
    CHECK_EQUAL(1, listener.hook_calls);
    CHECK_EQUAL(0, listener.calls);
    tarn_manager_release(manager);
}

/* --- pools, on the simulator -------------------------------------------------------- */

/* The path of an allocation and a free. */
enum path { BY_RESOURCE, BY_POINTER, BY_MANAGER };

struct allocation {
    size_t bytes;
    tarn_device_ptr block;
    tarn_pointer *pointer;
};

struct scene {
    tarn_resource *resource;
    tarn_manager *manager;
    enum path path;
    tarn_stream stream;
    struct listener listener; /* of the current operation */
    unsigned hook_calls;      /* operations that ran the hook */
};

static void begin(struct scene *scene)
{
    sim_configure("");
    scene->listener = (struct listener){.before = {listen_and_count}};
    tarn_set_blocking_hook(&scene->listener.before);
}

/* Count the driver calls that may precede the hook. Without a stream and for a pointer,
 * these query the context. For a manager, they also query the current context. */
static unsigned long long questions(const struct scene *scene)
{
    const unsigned of_path[] = {0, 1, 5};

    return (scene->stream == TARN_STREAM_NONE) + of_path[scene->path];
}

static void end(struct scene *scene)
{
    unsigned long long calls = sim_calls();

    tarn_set_blocking_hook(NULL);
    if (scene->listener.hook_calls)
        calls = scene->listener.calls;
    if (calls > questions(scene))
        fail_msg("%llu calls, way %d, stream %p", calls, scene->path,
                 (void *)scene->stream);
    scene->hook_calls += scene->listener.hook_calls;
}

static void take(struct scene *scene, size_t bytes, struct allocation *allocation)
{
    *allocation = (struct allocation){.bytes = bytes};
    begin(scene);
    if (scene->path == BY_RESOURCE)
        CHECK_OK(tarn_resource_allocate(scene->resource, bytes, 0, scene->stream,
                                        &allocation->block));
    else if (scene->path == BY_POINTER)
        CHECK_OK(tarn_pointer_allocate(scene->resource, bytes, scene->stream,
                                       &allocation->pointer));
    else
        CHECK_OK(tarn_manager_memalloc(scene->manager, bytes, scene->stream,
                                       &allocation->pointer));
    end(scene);
}

static void give(struct scene *scene, struct allocation *allocation)
{
    begin(scene);
    if (allocation->pointer)
        tarn_pointer_release(allocation->pointer);
    else
        CHECK_OK(tarn_resource_deallocate(scene->resource, allocation->block,
                                          allocation->bytes, 0, scene->stream));
    end(scene);
    *allocation = (struct allocation){0};
}

/* Sizes from 1 byte to 64 MiB, up to 32 live blocks, in an order that looks random. */
static unsigned wander(struct scene *scene, unsigned rounds)
{
    struct allocation allocation[32] = {{0}};
    uint64_t dice = 7;

    scene->hook_calls = 0;
    for (unsigned i = 0; i < rounds; i++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        struct allocation *slot = &allocation[dice >> 59];
        if (slot->bytes)
            give(scene, slot);
        else
            take(scene, ((size_t)1 << (dice >> 33) % 27) + (dice >> 40) % 999, slot);
    }
    for (unsigned i = 0; i < 32; i++)
        if (allocation[i].bytes)
            give(scene, &allocation[i]);
    return scene->hook_calls;
}

/* Allocate and free the same block repeatedly. */
static unsigned circle(struct scene *scene, size_t bytes, unsigned rounds)
{
    struct allocation allocation;

    scene->hook_calls = 0;
    for (unsigned i = 0; i < rounds; i++) {
        take(scene, bytes, &allocation);
        give(scene, &allocation);
    }
    return scene->hook_calls;
}

static void try_all_paths(tarn_resource *resource, tarn_stream stream,
                          void (*visit)(struct scene *))
{
    struct scene scene = {.resource = resource, .stream = stream};
    tarn_resource *before;

    if (!on_sim())
        skip();
    CHECK_OK(tarn_device_set_resource(0, resource, &before));
    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &scene.manager));
    for (scene.path = BY_RESOURCE; scene.path <= BY_MANAGER; scene.path++)
        visit(&scene);
    tarn_manager_release(scene.manager);
    CHECK_OK(tarn_device_set_resource(0, before, NULL));
    CHECK_OK(tarn_resource_release(before));
}

static void hook_is_called_rarely(struct scene *scene)
{
    const size_t sizes[] = {256, 1 << 20, 24 << 20};

    wander(scene, 300);
    for (int i = 0; i < 3; i++)
        CHECK(circle(scene, sizes[i], 500) <= 10);
}

static void hook_is_called(struct scene *scene)
{
    CHECK(wander(scene, 600) > 0);
}

static tarn_resource *make_pool(tarn_pool_options options, tarn_resource *upstream)
{
    tarn_resource *pool;

    options.size = sizeof options;
    CHECK_OK(tarn_pool_create(0, upstream, &options, &pool));
    return pool;
}

TEST(pool_does_not_call_the_blocking_hook_for_available_memory)
{
    tarn_stream registered;
    tarn_resource *pool = make_pool((tarn_pool_options){0}, NULL);

    CHECK_OK(tarn_stream_register(0, TARN_STREAM_DEFAULT, &registered));
    try_all_paths(pool, TARN_STREAM_DEFAULT, hook_is_called_rarely);
    try_all_paths(pool, TARN_STREAM_NONE, hook_is_called);
    try_all_paths(pool, registered, hook_is_called_rarely);
    tarn_stream_unregister(registered);
    CHECK_OK(tarn_resource_release(pool));
}

TEST(pool_calls_the_blocking_hook_on_every_kind_of_stream)
{
    tarn_stream own, registered;
    tarn_resource *pool =
        make_pool((tarn_pool_options){.release_threshold_bytes = 1 << 20}, NULL);

    CHECK_OK(tarn_stream_create(0, true, &own));
    CHECK_OK(tarn_stream_register(0, own, &registered));
    const tarn_stream streams[] = {TARN_STREAM_DEFAULT, TARN_STREAM_PER_THREAD,
                                   TARN_STREAM_NONE, own, registered};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        try_all_paths(pool, streams[i], hook_is_called);
    tarn_stream_unregister(registered);
    tarn_stream_destroy(0, own);
    CHECK_OK(tarn_resource_release(pool));
}

TEST(stacked_pools_and_resources_over_pools_call_the_blocking_hook)
{
    tarn_resource *cuda, *over, *limiter, *async;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    over = make_pool((tarn_pool_options){.no_stream_policy = TARN_POOL_NO_STREAM_EVENT},
                     cuda);
    CHECK_OK(tarn_limiter_create(over, (size_t)1 << 40, &limiter));
    CHECK_OK(tarn_async_create(0, NULL, &async));
    tarn_resource *all[] = {cuda, over, limiter, async};
    for (int i = 0; i < 4; i++)
        try_all_paths(all[i], TARN_STREAM_NONE, hook_is_called);
    for (int i = 0; i < 4; i++)
        try_all_paths(all[i], TARN_STREAM_DEFAULT, hook_is_called);
    for (int i = 3; i >= 0; i--)
        CHECK_OK(tarn_resource_release(all[i]));
}

TEST(blocking_hook_is_called_before_the_wait_for_a_cached_block_without_a_stream)
{
    struct listener listener = {.before = {listen_and_count}};
    struct scripted script;
    tarn_pointer *pointer;

    if (!on_sim())
        skip();
    scripted_begin(&script, 0);
    tarn_resource *pool = make_pool((tarn_pool_options){0}, script.resource);
    CHECK(!tarn_resource_supports_no_stream(pool));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tarn_pointer_allocate(pool, 256, TARN_STREAM_NONE, &pointer));
        tarn_pointer_release(pointer);
    }
    sim_configure("");
    tarn_set_blocking_hook(&listener.before);
    CHECK_OK(tarn_pointer_allocate(pool, 256, TARN_STREAM_NONE, &pointer));
    tarn_set_blocking_hook(NULL);
    CHECK_EQUAL(1, listener.hook_calls);
    CHECK(listener.calls <= 2); /* queries of the context */
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_resource_release(pool));
    scripted_end(&script);
}

/* A memalloc() of another plugin. */
static tarn_status fail_memalloc(void *self, size_t bytes, tarn_stream stream,
                                 tarn_pointer **allocation)
{
    (void)self;
    (void)stream;
    (void)allocation;
    return tarn_error_set(TARN_OUT_OF_MEMORY, "test: no %zu bytes", bytes);
}

TEST(blocking_hook_is_called_before_other_managers)
{
    struct listener listener = {.before = {listen}};
    tarn_manager_ops ops = *tarn_resource_manager_ops();
    tarn_manager *manager;
    tarn_pointer *pointer;

    ops.memalloc = fail_memalloc;
    CHECK_OK(tarn_manager_create(&ops, NULL, 0, &manager));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_manager_memalloc(manager, 1, TARN_STREAM_NONE, &pointer));
    tarn_set_blocking_hook(&listener.before);
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_manager_memalloc(manager, 1, TARN_STREAM_NONE, &pointer));
    tarn_set_blocking_hook(NULL);
    CHECK_EQUAL(1, listener.hook_calls);
    tarn_manager_release(manager);
}

/* A plugin that may wait in the functions that notify it of contexts. */
struct notified {
    struct listener listener;
    unsigned initialized, lost; /* calls */
};

static tarn_status notified_create(void *config, int device, void *context,
                                   void **self_out)
{
    (void)device;
    (void)context;
    *self_out = config;
    return TARN_OK;
}

static void notified_destroy(void *self)
{
    (void)self;
}

static tarn_status notified_initialize(void *self)
{
    struct notified *notified = self;

    CHECK_EQUAL(1, notified->listener.hook_calls);
    notified->initialized++;
    return TARN_OK;
}

static void notified_lost(void *self)
{
    struct notified *notified = self;

    CHECK_EQUAL(1, notified->listener.hook_calls);
    notified->lost++;
}

/* Another call may notice a reset first. */
TEST(blocking_hook_is_called_before_a_plugin_is_notified_of_a_context)
{
    struct notified notified = {.listener = {.before = {listen}}};
    tarn_manager_ops ops = *tarn_resource_manager_ops();
    tarn_manager *manager;

    ops.create = notified_create;
    ops.destroy = notified_destroy;
    ops.initialize = notified_initialize;
    ops.context_lost = notified_lost;
    CHECK_OK(tarn_manager_create(&ops, &notified, 0, &manager));
    for (unsigned i = 0; i < 2; i++) {
        CHECK_OK(tarn_driver_synchronize(0));
        notified.listener.hook_calls = 0;
        tarn_set_blocking_hook(&notified.listener.before);
        CHECK_OK(tarn_manager_initialize(manager));
        tarn_set_blocking_hook(NULL);
        CHECK_EQUAL(i + 1, notified.initialized);
        CHECK_EQUAL(i, notified.lost);
        reset_the_device();
    }
    tarn_manager_release(manager);
}
