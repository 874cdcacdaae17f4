/* Test the end of a resource: it ends once, whatever its maker calls then. A resource
 * that cannot end is reported in a warning, once. */
#include "driver_calls.h"
#include "test.h"
#include "scripted.h"
#include <tarn/nrt_resource.h>
#include <pthread.h>
#include <stdlib.h>

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

static void listen_anew(void)
{
    memset(&warnings, 0, sizeof warnings);
    tarn_set_warning_handler(hear, NULL);
}

/* --- a maker that calls Tarn about the ending resource --- */

struct selfish {
    tarn_resource *resource, *other;
    int destroyed, frees;
};

static tarn_status selfish_allocate(void *self, size_t bytes, size_t alignment,
                                    tarn_stream stream, tarn_device_ptr *out)
{
    (void)self;
    (void)bytes;
    (void)alignment;
    (void)stream;
    *out = 0x10000;
    return TARN_OK;
}

static tarn_status selfish_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                      size_t alignment, tarn_stream stream)
{
    (void)block;
    (void)bytes;
    (void)alignment;
    (void)stream;
    ((struct selfish *)self)->frees++;
    return TARN_OK;
}

static void selfish_destroy(void *self)
{
    struct selfish *selfish = self;
    tarn_device_ptr block;

    selfish->destroyed++;
    tarn_resource *again = tarn_resource_retain(selfish->resource);
    CHECK_OK(tarn_resource_allocate(again, 100, 0, TARN_STREAM_NONE, &block));
    CHECK_OK(tarn_resource_deallocate(again, block, 100, 0, TARN_STREAM_NONE));
    CHECK_OK(tarn_resource_release(again));
    CHECK_OK(tarn_resource_release(selfish->resource)); /* one too many */
    CHECK_OK(tarn_resource_release(selfish->other));
}

static const tarn_resource_ops selfish_ops = {.size = sizeof selfish_ops,
                                              .name = "selfish",
                                              .allocate = selfish_allocate,
                                              .deallocate = selfish_deallocate,
                                              .destroy = selfish_destroy};

static void *release_there(void *resource)
{
    CHECK_OK(tarn_resource_release(resource));
    return NULL;
}

TEST(resource_that_retains_and_releases_itself_at_its_end_ends_once)
{
    for (int there = 0; there < 2; there++) {
        struct selfish inner = {0}, outer = {0};
        pthread_t thread;

        CHECK_OK(tarn_resource_create(&selfish_ops, &inner, TARN_DEVICE_NONE,
                                      &inner.resource));
        CHECK_OK(tarn_resource_create(&selfish_ops, &outer, TARN_DEVICE_NONE,
                                      &outer.resource));
        outer.other = inner.resource;
        if (there) {
            CHECK_EQUAL(0, pthread_create(&thread, NULL, release_there, outer.resource));
            CHECK_EQUAL(0, pthread_join(thread, NULL));
        } else
            CHECK_OK(tarn_resource_release(outer.resource));
        CHECK_EQUAL(1, outer.destroyed);
        CHECK_EQUAL(1, inner.destroyed);
        CHECK_EQUAL(1, outer.frees);
    }
}

TEST(last_release_of_a_pool_after_a_context_reset_leaves_the_last_error)
{
    tarn_resource *pool;
    tarn_device_ptr block;

    CHECK_OK(tarn_pool_create(0, NULL, NULL, &pool));
    CHECK_OK(tarn_resource_allocate(pool, 100, 0, TARN_STREAM_LEGACY, &block));
    CHECK_OK(tarn_resource_deallocate(pool, block, 100, 0, TARN_STREAM_LEGACY));
    reset_the_device();
    tarn_error_set_native(TARN_BAD_FORMAT, 17, "an older failure");
    CHECK_OK(tarn_resource_release(pool));
    CHECK_TEXT("an older failure", tarn_error_last()->message);
    CHECK_EQUAL(17, tarn_error_last()->native);
}

/* --- resources that cannot end --- */

/* Its last owner releases it while a block is live that it records itself. */
static void leave_block_beneath(struct scripted *script, tarn_device_ptr *out)
{
    scripted_begin(script, TARN_DEVICE_NONE);
    CHECK_OK(tarn_resource_allocate(script->resource, 100, 0, TARN_STREAM_NONE, out));
}

/* The block is returned after all, through the reference that the end of `above` left. */
static void tidy(struct scripted *script, tarn_device_ptr block)
{
    CHECK_OK(tarn_resource_deallocate(script->resource, block, 100, 0, TARN_STREAM_NONE));
    scripted_end(script);
}

static tarn_status make_limiter(tarn_resource *upstream, tarn_resource **out)
{
    return tarn_limiter_create(upstream, 1000, out);
}

static tarn_status make_binning(tarn_resource *upstream, tarn_resource **out)
{
    return tarn_binning_create(upstream, NULL, out);
}

TEST(upstream_that_has_to_stay_is_a_warning)
{
    tarn_status (*const makers[])(tarn_resource *, tarn_resource **) = {
        make_limiter, tarn_counter_create, make_binning};

    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct scripted script;
        tarn_resource *above;
        tarn_device_ptr block;

        leave_block_beneath(&script, &block);
        CHECK_OK(makers[i](script.resource, &above));
        CHECK_OK(tarn_resource_release(script.resource));
        listen_anew();
        CHECK_OK(tarn_resource_release(above));
        CHECK_EQUAL(1, warnings.count);
        CHECK(strstr(warnings.last,
                     "the last reference was released while 1 blocks are live"));
        CHECK_EQUAL(0, script.destroyed);
        tidy(&script, block);
    }
}

TEST(upstream_with_another_owner_is_none)
{
    struct scripted script;
    tarn_resource *limiter;
    tarn_device_ptr block;

    leave_block_beneath(&script, &block);
    CHECK_OK(tarn_limiter_create(script.resource, 1000, &limiter));
    listen_anew();
    CHECK_OK(tarn_resource_release(limiter));
    CHECK_EQUAL(0, warnings.count);
    tidy(&script, block);
}

TEST(pool_whose_upstream_frees_nothing_reports_how_much_stays)
{
    struct scripted script;
    tarn_pool_options options = {.size = sizeof options, .initial_bytes = 8u << 20};
    tarn_resource *pool;
    char wanted[200];

    scripted_begin(&script, 0);
    CHECK_OK(tarn_pool_create(0, script.resource, &options, &pool));
    script.frees = 0;
    script.free_fails = TARN_DRIVER_FAILURE;
    listen_anew();
    CHECK_OK(tarn_resource_release(pool));
    CHECK_EQUAL(1, warnings.count);
    snprintf(wanted, sizeof wanted,
             "pool: 1 segments of %zu bytes in total could not be returned to scripted: "
             "scripted: keeps",
             script.bytes);
    CHECK(strstr(warnings.last, wanted));
    CHECK_EQUAL(2, script.frees);
    script.free_fails = TARN_OK;
    CHECK_OK(tarn_resource_deallocate(script.resource, script.block, script.bytes,
                                      script.alignment, TARN_STREAM_NONE));
    scripted_end(&script);
}

TEST(pool_whose_upstream_frees_at_the_second_try_does_not_warn)
{
    struct scripted script;
    tarn_pool_options options = {.size = sizeof options, .initial_bytes = 8u << 20};
    tarn_resource *pool;

    scripted_begin(&script, 0);
    CHECK_OK(tarn_pool_create(0, script.resource, &options, &pool));
    listen_anew();
    CHECK_OK(tarn_resource_release(pool));
    CHECK_EQUAL(0, warnings.count);
    scripted_end(&script);
}

TEST(counted_memory_that_a_resource_fails_to_free_is_a_warning)
{
    struct scripted script;
    NRT_ExternalAllocator *allocator;

    scripted_begin(&script, TARN_DEVICE_NONE);
    CHECK_OK(tarn_resource_allocator_create(script.resource, &allocator));
    void *memory = allocator->malloc(100, allocator->opaque_data);
    CHECK(memory != NULL);
    script.free_fails = TARN_DRIVER_FAILURE;
    listen_anew();
    allocator->free(memory, allocator->opaque_data);
    CHECK_EQUAL(1, warnings.count);
    CHECK(strstr(warnings.last, "nrt: freeing 164 bytes at"));
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_resource_allocator_release(allocator));
    script.free_fails = TARN_OK;
    allocator->free(memory, allocator->opaque_data);
    CHECK_OK(tarn_resource_allocator_release(allocator));
    scripted_end(&script);
}

TEST(driver_pool_that_the_driver_does_not_end_is_a_warning)
{
    tarn_resource *async;

    if (!on_sim())
        return;
    CHECK_OK(tarn_async_create(0, NULL, &async));
    test_may_leak_memory();
    sim_configure("fail=call:cuMemPoolDestroy");
    listen_anew();
    CHECK_OK(tarn_resource_release(async));
    sim_configure(NULL);
    CHECK_EQUAL(1, warnings.count);
    CHECK(
        strstr(warnings.last, "async: the driver failed to destroy a pool of device 0"));
}
