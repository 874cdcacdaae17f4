/* Test the driver's pool as a resource, beyond the conformance suite. */
#define _GNU_SOURCE
#include "driver_calls.h"
#include "test.h"
#include <stdatomic.h>
#include <time.h>

enum { MIB = 1 << 20 };

static tarn_resource *async_with(const tarn_async_options *options)
{
    tarn_resource *resource = NULL;

    CHECK_OK(tarn_async_create(0, options, &resource));
    return resource;
}

static tarn_device_ptr take(tarn_resource *resource, size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block = 0;

    CHECK_OK(tarn_resource_allocate(resource, bytes, 0, stream, &block));
    return block;
}

static void put(tarn_resource *resource, tarn_device_ptr block, size_t bytes)
{
    CHECK_OK(tarn_resource_deallocate(resource, block, bytes, 0, TARN_STREAM_DEFAULT));
}

/* The bytes that return to the device when all cached memory does. */
static size_t cached_bytes(tarn_resource *resource)
{
    size_t released = 0;

    CHECK_OK(tarn_stream_synchronize(0, TARN_STREAM_DEFAULT));
    CHECK_OK(tarn_resource_trim(resource, 0, &released));
    return released;
}

TEST(async_pools_of_their_own_are_not_equal)
{
    tarn_resource *one = async_with(NULL), *two = async_with(NULL);
    tarn_device_ptr block = take(one, 100, NULL), other = take(two, 100, NULL);

    CHECK(!tarn_resource_is_equal(one, two));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(two, block, 100, 0, NULL));
    put(one, block, 100);
    put(two, other, 100);
    CHECK_OK(tarn_resource_release(one));
    CHECK_OK(tarn_resource_release(two));
}

TEST(async_on_the_devices_pool_is_one_object)
{
    tarn_async_options options = {.size = sizeof options, .use_default_pool = true};
    tarn_resource *one = async_with(&options), *two = async_with(&options);
    tarn_resource *own = async_with(NULL);
    tarn_device_ptr block = take(one, 100, NULL);

    CHECK(tarn_resource_is_equal(one, two) && !tarn_resource_is_equal(one, own));
    put(two, block, 100);
    CHECK_OK(tarn_resource_release(one));
    CHECK_OK(tarn_resource_release(two));
    CHECK_OK(tarn_resource_release(own));
}

TEST(async_reports_its_properties)
{
    tarn_resource *resource = async_with(NULL);

    CHECK_TEXT("async", tarn_resource_name(resource));
    CHECK(tarn_resource_supports_streams(resource));
    CHECK(tarn_resource_supports_memory_info(resource));
    CHECK(!tarn_resource_deallocate_synchronizes(resource));
    CHECK_OK(tarn_resource_release(resource));
}

TEST(async_keeps_freed_memory_until_it_is_trimmed)
{
    tarn_resource *resource = async_with(NULL);
    size_t before, cached, after, total;

    /* At a wait the device's own pool releases the cached memory of other tests. */
    CHECK_OK(tarn_stream_synchronize(0, TARN_STREAM_DEFAULT));
    CHECK_OK(tarn_resource_memory_info(resource, NULL, &before, &total));
    put(resource, take(resource, 64 * MIB, NULL), 64 * MIB);
    CHECK_OK(tarn_stream_synchronize(0, TARN_STREAM_DEFAULT));
    CHECK_OK(tarn_resource_memory_info(resource, NULL, &cached, &total));
    CHECK(before - cached >= 64 * MIB);
    CHECK(cached_bytes(resource) >= 64 * MIB);
    CHECK_OK(tarn_resource_memory_info(resource, NULL, &after, &total));
    CHECK(after - cached >= 64 * MIB);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(async_releases_memory_over_its_threshold)
{
    tarn_async_options options = {.size = sizeof options, .release_threshold_bytes = 1};
    tarn_resource *resource = async_with(&options);

    put(resource, take(resource, 64 * MIB, NULL), 64 * MIB);
    CHECK(cached_bytes(resource) < 64 * MIB); /* the driver chooses the rounding */
    CHECK_OK(tarn_resource_release(resource));
}

TEST(async_begins_with_the_requested_bytes)
{
    tarn_async_options options = {.size = sizeof options, .initial_bytes = 64 * MIB};
    tarn_resource *resource = async_with(&options);

    CHECK(cached_bytes(resource) >= 64 * MIB);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(async_trims_beside_live_blocks)
{
    tarn_resource *resource = async_with(NULL);
    tarn_device_ptr kept = take(resource, 64 * MIB, NULL);
    size_t released = 7;

    put(resource, take(resource, 64 * MIB, NULL), 64 * MIB);
    CHECK_OK(tarn_stream_synchronize(0, TARN_STREAM_DEFAULT));
    CHECK_OK(tarn_resource_trim(resource, 64 * MIB, &released));
    CHECK_EQUAL(0, released);
    CHECK(cached_bytes(resource) >= 64 * MIB);
    CHECK_EQUAL(0, cached_bytes(resource));
    put(resource, kept, 64 * MIB);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(async_rejects_an_option_of_a_later_version)
{
    tarn_async_options options[2] = {{.size = sizeof options}, {.size = 1}};
    tarn_resource *resource = NULL;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_async_create(0, options, &resource));
    CHECK_MESSAGE("that this libtarn knows");
    CHECK(resource == NULL);
    options[1].size = 0;
    CHECK_OK(tarn_async_create(0, options, &resource));
    CHECK_OK(tarn_resource_release(resource));
}

TEST(async_of_managed_memory_serves_host_and_device)
{
    tarn_async_options options = {.size = sizeof options, .managed = true};
    tarn_resource *resource = NULL;
    tarn_status status = tarn_async_create(0, &options, &resource);
    tarn_device_ptr block;

    if (status == TARN_NOT_SUPPORTED && !on_sim())
        skip(); /* a driver before CUDA 13 */
    CHECK_OK(status);
    block = take(resource, 1000, NULL);
    CHECK_OK(tarn_memset_async(0, block, 5, 1000, NULL));
    CHECK_OK(tarn_stream_synchronize(0, NULL));
    CHECK_EQUAL(5, ((const char *)(uintptr_t)block)[999]);
    put(resource, block, 1000);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(async_on_a_pool_of_the_program_leaves_it_alive)
{
    tarn_resource *own = async_with(NULL), *view;
    tarn_async_options options = {.size = sizeof options};
    void *pool = NULL, *seen = NULL;

    CHECK_OK(tarn_async_pool(own, &options.pool));
    CHECK(options.pool != NULL);
    view = async_with(&options);
    CHECK_OK(tarn_async_pool(view, &seen));
    CHECK(seen == options.pool && !tarn_resource_is_equal(own, view));
    put(view, take(view, 64 * MIB, NULL), 64 * MIB);
    CHECK_OK(tarn_resource_release(view));
    CHECK(cached_bytes(own) >= 64 * MIB);
    CHECK_OK(tarn_resource_release(own));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_async_pool(NULL, &pool));
}

TEST(async_on_a_destroyed_pool_of_the_program_is_out_of_memory)
{
    tarn_async_options options = {.size = sizeof options};
    tarn_resource *own = async_with(NULL), *view;
    tarn_device_ptr block = 7;

    if (!on_sim())
        skip(); /* the handle of a destroyed pool may crash a driver */
    CHECK_OK(tarn_async_pool(own, &options.pool));
    view = async_with(&options);
    CHECK_OK(tarn_resource_release(own));
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(view, 100, 0, NULL, &block));
    CHECK_EQUAL(7, block);
    CHECK_OK(tarn_resource_release(view));
}

TEST(async_rejects_options_that_exclude_each_other)
{
    tarn_async_options options = {
        .size = sizeof options, .managed = true, .exportable = true};
    tarn_resource *resource = NULL;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_async_create(0, &options, &resource));
    CHECK_MESSAGE("exclude each other");
    options.exportable = false;
    options.use_default_pool = true;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_async_create(0, &options, &resource));
    options.use_default_pool = false;
    options.pool = &options;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_async_create(0, &options, &resource));
    CHECK(resource == NULL);
}

TEST(async_rejects_invalid_options)
{
    tarn_async_options options = {.size = 2};
    tarn_resource *resource = NULL;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_async_create(0, &options, &resource));
    options =
        (tarn_async_options){.size = sizeof options, .initial_bytes = (size_t)1 << 50};
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_async_create(0, &options, &resource));
    CHECK_MESSAGE("initial ");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_async_create(99, NULL, &resource));
    CHECK(resource == NULL);
}

TEST(async_is_exportable_on_a_new_pool_alone)
{
    tarn_async_options options = {.size = sizeof options, .exportable = true};
    tarn_resource *resource = async_with(&options), *none = NULL;

    put(resource, take(resource, MIB, NULL), MIB);
    CHECK_OK(tarn_resource_release(resource));
    options.use_default_pool = true;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_async_create(0, &options, &none));
    CHECK_MESSAGE("cannot be exported");
    CHECK(none == NULL);
}

TEST(async_is_not_exportable_where_the_device_exports_no_pools)
{
    tarn_async_options options = {.size = sizeof options, .exportable = true};
    tarn_resource *none = NULL;

    if (!on_sim())
        skip();
    sim_configure("attribute=119:8"); /* by fabric alone */
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_async_create(0, &options, &none));
    CHECK_MESSAGE("cannot export pools");
    options.exportable = false;
    tarn_resource *resource = async_with(&options);
    CHECK_OK(tarn_resource_release(resource));
    sim_configure(NULL);
    CHECK(none == NULL);
}

TEST(async_exportable_pools_come_and_go_in_any_order)
{
    tarn_async_options options = {.size = sizeof options, .exportable = true};
    tarn_resource *pools[4];

    for (int i = 0; i < 4; i++)
        pools[i] = async_with(&options);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            CHECK(!tarn_resource_is_equal(pools[i], pools[j]));
    CHECK_OK(tarn_resource_release(pools[1]));
    CHECK_OK(tarn_resource_release(pools[3]));
    pools[1] = async_with(&options);
    for (int i = 0; i < 3; i++)
        CHECK_OK(tarn_resource_release(pools[i]));
}

TEST(async_reads_only_the_options_that_the_caller_knows)
{
    tarn_async_options options;
    tarn_resource *resource;

    memset(&options, 0xff, sizeof options);
    options.size = sizeof options.size;
    resource = async_with(&options);
    CHECK_EQUAL(0, cached_bytes(resource));
    CHECK_OK(tarn_resource_release(resource));
}

/* Work that is not done when the call after it returns. */
static void be_slow(void *done)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    atomic_store((atomic_bool *)done, true);
}

static void queue_slow_work(atomic_bool *done)
{
    int (*retain)(void **out, int device);
    int (*set_current)(void *context);
    int (*launch)(void *stream, void (*function)(void *), void *data);
    void *context;

    find_call("cuDevicePrimaryCtxRetain", &retain);
    find_call("cuCtxSetCurrent", &set_current);
    find_call("cuLaunchHostFunc", &launch);
    CHECK_EQUAL(0, retain(&context, 0));
    CHECK_EQUAL(0, set_current(context));
    CHECK_EQUAL(0, launch(NULL, be_slow, done));
    CHECK_EQUAL(0, set_current(NULL));
}

/* The next owner may use it on any stream, so no work may be pending behind it. */
TEST(async_no_stream_allocations_get_completed_memory_only)
{
    tarn_resource *resource = async_with(NULL);
    tarn_device_ptr before = take(resource, 1000, TARN_STREAM_LEGACY), block;
    atomic_bool done = false;

    queue_slow_work(&done);
    CHECK_OK(tarn_resource_deallocate(resource, before, 1000, 0, TARN_STREAM_LEGACY));
    block = take(resource, 1000, TARN_STREAM_NONE);
    CHECK(block != before || atomic_load(&done));
    put(resource, block, 1000);
    CHECK_OK(tarn_driver_synchronize(0)); /* `done` belongs to the test */
    CHECK_OK(tarn_resource_release(resource));
}
