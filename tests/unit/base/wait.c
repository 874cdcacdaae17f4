/* Who is told before a call takes long, and when: before the first driver call that is more
 * than a question about contexts, and not where a pool has the memory at hand. */
#include "test.h"
#include "scripted.h"

struct listener {
    tarn_blocking_hook before; /* first, so that it is the listener too */
    unsigned told;
    unsigned long long calls; /* of the driver, before it was told */
};

static void listen(tarn_blocking_hook *before)
{
    ((struct listener *)before)->told++;
}

static void listen_and_count(tarn_blocking_hook *before)
{
    listen(before);
    ((struct listener *)before)->calls = sim_calls();
}

TEST(before_wait_is_told_once_until_it_is_set_again)
{
    struct listener listener = {.before = {listen}};
    struct scripted script;
    tarn_device_ptr block;

    scripted_begin(&script, 0);
    CHECK(tarn_set_blocking_hook(&listener.before) == NULL);
    CHECK_OK(tarn_resource_allocate(script.resource, 10, 0, TARN_STREAM_NONE, &block));
    CHECK_EQUAL(1, listener.told);
    CHECK_OK(tarn_resource_deallocate(script.resource, block, 10, 0, TARN_STREAM_NONE));
    CHECK_EQUAL(1, listener.told);
    CHECK(tarn_set_blocking_hook(&listener.before) == NULL);
    CHECK(tarn_set_blocking_hook(NULL) == &listener.before);
    scripted_end(&script);
    CHECK_EQUAL(1, listener.told);
}

static struct scripted beneath;

static void use_a_resource(tarn_blocking_hook *before)
{
    tarn_device_ptr block;

    listen(before);
    CHECK_OK(tarn_resource_allocate(beneath.resource, 1, 0, TARN_STREAM_NONE, &block));
    CHECK_OK(tarn_resource_deallocate(beneath.resource, block, 1, 0, TARN_STREAM_NONE));
}

TEST(who_is_told_may_use_tarn)
{
    struct listener listener = {.before = {use_a_resource}};
    tarn_device_ptr block;

    scripted_begin(&beneath, 0);
    tarn_set_blocking_hook(&listener.before);
    CHECK_OK(tarn_resource_allocate(beneath.resource, 1, 0, TARN_STREAM_NONE, &block));
    CHECK_EQUAL(1, listener.told);
    CHECK(tarn_set_blocking_hook(NULL) == NULL);
    CHECK_OK(tarn_resource_deallocate(beneath.resource, block, 1, 0, TARN_STREAM_NONE));
    scripted_end(&beneath);
}

static void count_a_free(void *data, tarn_device_ptr address, size_t bytes)
{
    (void)address;
    (void)bytes;
    CHECK_EQUAL(1, ((struct listener *)data)->told);
}

TEST(before_wait_is_told_of_code_that_ends_a_pointer)
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
    CHECK_EQUAL(1, listener.told);
}

TEST(before_wait_is_told_of_the_last_release)
{
    struct listener listener = {.before = {listen}};
    struct scripted script;

    scripted_begin(&script, 0);
    tarn_resource_retain(script.resource);
    tarn_set_blocking_hook(&listener.before);
    CHECK_OK(tarn_resource_release(script.resource));
    CHECK_EQUAL(0, listener.told);
    scripted_end(&script);
    tarn_set_blocking_hook(NULL);
    CHECK_EQUAL(1, listener.told);
    CHECK_EQUAL(1, script.destroyed);
}

TEST(before_wait_is_told_when_what_failed_is_tried_again)
{
    struct listener listener = {.before = {listen}};
    struct scripted script;
    tarn_pointer *pointer;

    scripted_begin(&script, 0);
    script.waits = true;
    CHECK_OK(tarn_pointer_allocate(script.resource, 10, TARN_STREAM_NONE, &pointer));
    script.free_fails = TARN_DRIVER_FAILURE;
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, tarn_pointer_deferred_count());
    script.free_fails = TARN_OK;
    tarn_set_blocking_hook(&listener.before);
    CHECK_OK(tarn_pointer_allocate(script.resource, 0, TARN_STREAM_NONE, &pointer));
    tarn_set_blocking_hook(NULL);
    CHECK_EQUAL(1, listener.told);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    tarn_pointer_release(pointer);
    scripted_end(&script);
}

/* --- pools, on the stand-in --------------------------------------------------------- */

/* Which way memory comes and goes. */
enum way { BY_RESOURCE, BY_POINTER, BY_MANAGER };

struct out {
    size_t bytes;
    tarn_device_ptr block;
    tarn_pointer *pointer;
};

struct scene {
    tarn_resource *resource;
    tarn_manager *manager;
    enum way way;
    tarn_stream stream;
    struct listener listener; /* of the operation that is under way */
    unsigned told;            /* operations that have told it */
};

static void begin(struct scene *scene)
{
    sim_configure("");
    scene->listener = (struct listener){.before = {listen_and_count}};
    tarn_set_blocking_hook(&scene->listener.before);
}

/* The questions that may be asked of the driver by who has told nobody: for nobody's stream
 * whose context it is; for a pointer the same; for a manager also which one is current, and its own made it. */
static unsigned long long questions(const struct scene *scene)
{
    const unsigned of_way[] = {0, 1, 5};

    return (scene->stream == TARN_STREAM_NONE) + of_way[scene->way];
}

static void end(struct scene *scene)
{
    unsigned long long calls = sim_calls();

    tarn_set_blocking_hook(NULL);
    if (scene->listener.told)
        calls = scene->listener.calls;
    if (calls > questions(scene))
        fail_msg("%llu calls, way %d, stream %p", calls, scene->way,
                 (void *)scene->stream);
    scene->told += scene->listener.told;
}

static void take(struct scene *scene, size_t bytes, struct out *out)
{
    *out = (struct out){.bytes = bytes};
    begin(scene);
    if (scene->way == BY_RESOURCE)
        CHECK_OK(tarn_resource_allocate(scene->resource, bytes, 0, scene->stream,
                                        &out->block));
    else if (scene->way == BY_POINTER)
        CHECK_OK(
            tarn_pointer_allocate(scene->resource, bytes, scene->stream, &out->pointer));
    else
        CHECK_OK(
            tarn_manager_memalloc(scene->manager, bytes, scene->stream, &out->pointer));
    end(scene);
}

static void give(struct scene *scene, struct out *out)
{
    begin(scene);
    if (out->pointer)
        tarn_pointer_release(out->pointer);
    else
        CHECK_OK(tarn_resource_deallocate(scene->resource, out->block, out->bytes, 0,
                                          scene->stream));
    end(scene);
    *out = (struct out){0};
}

/* Sizes from 1 byte to 64 MiB, up to 32 blocks out, in an order that looks random. */
static unsigned wander(struct scene *scene, unsigned rounds)
{
    struct out out[32] = {{0}};
    uint64_t dice = 7;

    scene->told = 0;
    for (unsigned i = 0; i < rounds; i++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        struct out *slot = &out[dice >> 59];
        if (slot->bytes)
            give(scene, slot);
        else
            take(scene, ((size_t)1 << (dice >> 33) % 27) + (dice >> 40) % 999, slot);
    }
    for (unsigned i = 0; i < 32; i++)
        if (out[i].bytes)
            give(scene, &out[i]);
    return scene->told;
}

/* The same block again and again. */
static unsigned circle(struct scene *scene, size_t bytes, unsigned rounds)
{
    struct out out;

    scene->told = 0;
    for (unsigned i = 0; i < rounds; i++) {
        take(scene, bytes, &out);
        give(scene, &out);
    }
    return scene->told;
}

static void try_all_ways(tarn_resource *resource, tarn_stream stream,
                         void (*visit)(struct scene *))
{
    struct scene scene = {.resource = resource, .stream = stream};
    tarn_resource *before;

    if (!on_sim())
        skip();
    CHECK_OK(tarn_device_set_resource(0, resource, &before));
    CHECK_OK(tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &scene.manager));
    for (scene.way = BY_RESOURCE; scene.way <= BY_MANAGER; scene.way++)
        visit(&scene);
    tarn_manager_release(scene.manager);
    CHECK_OK(tarn_device_set_resource(0, before, NULL));
    CHECK_OK(tarn_resource_release(before));
}

static void rarely_told(struct scene *scene)
{
    const size_t sizes[] = {256, 1 << 20, 24 << 20};

    wander(scene, 300);
    for (int i = 0; i < 3; i++)
        CHECK(circle(scene, sizes[i], 500) <= 10);
}

static void told_in_time(struct scene *scene)
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

TEST(pool_tells_nobody_of_what_it_has_at_hand)
{
    tarn_stream opened;
    tarn_resource *pool = make_pool((tarn_pool_options){0}, NULL);

    CHECK_OK(tarn_stream_register(0, TARN_STREAM_DEFAULT, &opened));
    try_all_ways(pool, TARN_STREAM_DEFAULT, rarely_told);
    try_all_ways(pool, TARN_STREAM_NONE, told_in_time);
    try_all_ways(pool, opened, rarely_told);
    tarn_stream_unregister(opened);
    CHECK_OK(tarn_resource_release(pool));
}

TEST(pool_tells_in_time_on_every_kind_of_stream)
{
    tarn_stream own, opened;
    tarn_resource *pool =
        make_pool((tarn_pool_options){.release_threshold_bytes = 1 << 20}, NULL);

    CHECK_OK(tarn_stream_create(0, true, &own));
    CHECK_OK(tarn_stream_register(0, own, &opened));
    const tarn_stream streams[] = {TARN_STREAM_DEFAULT, TARN_STREAM_PER_THREAD,
                                   TARN_STREAM_NONE, own, opened};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        try_all_ways(pool, streams[i], told_in_time);
    tarn_stream_unregister(opened);
    tarn_stream_destroy(0, own);
    CHECK_OK(tarn_resource_release(pool));
}

TEST(pools_over_others_and_what_is_over_pools_tell_in_time)
{
    tarn_resource *cuda, *over, *limiter, *async;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    over = make_pool((tarn_pool_options){.no_stream_policy = TARN_POOL_NO_STREAM_EVENT},
                     cuda);
    CHECK_OK(tarn_limiter_create(over, (size_t)1 << 40, &limiter));
    CHECK_OK(tarn_async_create(0, NULL, &async));
    tarn_resource *all[] = {cuda, over, limiter, async};
    for (int i = 0; i < 4; i++)
        try_all_ways(all[i], TARN_STREAM_NONE, told_in_time);
    for (int i = 0; i < 4; i++)
        try_all_ways(all[i], TARN_STREAM_DEFAULT, told_in_time);
    for (int i = 3; i >= 0; i--)
        CHECK_OK(tarn_resource_release(all[i]));
}

/* Somebody else's memalloc(). */
static tarn_status refuse(void *self, size_t bytes, tarn_stream stream,
                          tarn_pointer **out)
{
    (void)self;
    (void)stream;
    (void)out;
    return tarn_error_set(TARN_OUT_OF_MEMORY, "test: no %zu bytes", bytes);
}

TEST(before_wait_is_told_of_other_managers)
{
    struct listener listener = {.before = {listen}};
    tarn_manager_ops ops = *tarn_resource_manager_ops();
    tarn_manager *manager;
    tarn_pointer *pointer;

    ops.memalloc = refuse;
    CHECK_OK(tarn_manager_create(&ops, NULL, 0, &manager));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_manager_memalloc(manager, 1, TARN_STREAM_NONE, &pointer));
    tarn_set_blocking_hook(&listener.before);
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_manager_memalloc(manager, 1, TARN_STREAM_NONE, &pointer));
    tarn_set_blocking_hook(NULL);
    CHECK_EQUAL(1, listener.told);
    tarn_manager_release(manager);
}
