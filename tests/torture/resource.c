/* Run each resource with its 1st, 2nd, 3rd ... driver call failing: nothing leaks,
 * outputs and counts are unchanged, the caller's context is restored, and the next call
 * succeeds. */
#define _GNU_SOURCE
#include "driver_calls.h"
#include "test.h"

/* One call in a run fails, so a failed call succeeds when it is repeated. */
#define WORKS_IN_THE_END(call) \
    do {                       \
        if ((call) != TARN_OK) \
            CHECK_OK(call);    \
    } while (0)

static tarn_device_ptr take(tarn_resource *resource, size_t bytes, size_t alignment,
                            tarn_stream stream)
{
    size_t before = tarn_resource_live_blocks(resource);
    tarn_device_ptr block = 77;

    if (tarn_resource_allocate(resource, bytes, alignment, stream, &block) != TARN_OK) {
        CHECK_EQUAL(77, block);
        CHECK_EQUAL(before, tarn_resource_live_blocks(resource));
        CHECK_OK(tarn_resource_allocate(resource, bytes, alignment, stream, &block));
    }
    CHECK_EQUAL(before + 1, tarn_resource_live_blocks(resource));
    CHECK(block != 77 && block % alignment == 0);
    return block;
}

static void put(tarn_resource *resource, tarn_device_ptr block, size_t bytes,
                size_t alignment, tarn_stream stream)
{
    size_t before = tarn_resource_live_blocks(resource), seen = 0;

    if (tarn_resource_deallocate(resource, block, bytes, alignment, stream) != TARN_OK) {
        CHECK_EQUAL(before, tarn_resource_live_blocks(resource));
        if (tarn_resource_requested_bytes(resource, block, &seen) != TARN_NOT_SUPPORTED)
            CHECK_EQUAL(bytes, seen);
        CHECK_OK(tarn_resource_deallocate(resource, block, bytes, alignment, stream));
    }
    CHECK_EQUAL(before - 1, tarn_resource_live_blocks(resource));
}

/* No context was current, so none is. The failing call may also be this one. */
static void check_no_context(void)
{
    int (*get_current)(void **out);
    void *context = NULL;

    find_call("cuCtxGetCurrent", &get_current);
    CHECK(get_current(&context) != 0 || context == NULL);
}

static void use(tarn_resource *resource)
{
    size_t free_bytes = 77, total_bytes = 77, released;
    tarn_device_ptr one = take(resource, 1000, 256, TARN_STREAM_DEFAULT);
    tarn_device_ptr two = take(resource, 5000, 65536, TARN_STREAM_NONE);

    if (tarn_resource_supports_memory_info(resource) &&
        tarn_resource_memory_info(resource, NULL, &free_bytes, &total_bytes) != TARN_OK) {
        CHECK(free_bytes == 77 && total_bytes == 77);
        CHECK_OK(tarn_resource_memory_info(resource, NULL, &free_bytes, &total_bytes));
    }
    put(resource, one, 1000, 256, TARN_STREAM_PER_THREAD);
    put(resource, two, 5000, 65536, TARN_STREAM_NONE);
    WORKS_IN_THE_END(tarn_resource_trim(resource, 0, &released));
    CHECK_OK(tarn_resource_release(resource));
    WORKS_IN_THE_END(tarn_driver_synchronize(0));
    check_no_context();
}

typedef tarn_status create_fn(int device, tarn_resource **out);

static void live_and_die(create_fn *create)
{
    tarn_resource *resource = (tarn_resource *)&live_and_die;

    if (create(0, &resource) != TARN_OK) {
        CHECK(resource == (tarn_resource *)&live_and_die);
        CHECK_OK(create(0, &resource));
    }
    use(resource);
}

static void live_cuda(void)
{
    live_and_die(tarn_cuda_create);
}

static tarn_status create_exportable(int device, tarn_resource **out)
{
    return tarn_exportable_create(device, NULL, out);
}

static void live_exportable(void)
{
    live_and_die(create_exportable);
}

/* The second block of a size comes from the cache; the third is larger than the cache. */
static tarn_status create_caching(int device, tarn_resource **out)
{
    const tarn_exportable_options options = {.size = sizeof options,
                                             .cache_bytes = 4 << 20};

    return tarn_exportable_create(device, &options, out);
}

static void live_caching(void)
{
    live_and_die(create_caching);
}

static void live_managed(void)
{
    live_and_die(tarn_managed_create);
}

static void live_pinned(void)
{
    live_and_die(tarn_pinned_create);
}

static tarn_status create_async(int device, tarn_resource **out)
{
    tarn_async_options options = {.size = sizeof options,
                                  .initial_bytes = 4 << 20,
                                  .release_threshold_bytes = 8 << 20};

    return tarn_async_create(device, &options, out);
}

static void live_async(void)
{
    live_and_die(create_async);
}

static tarn_status create_async_on_default_pool(int device, tarn_resource **out)
{
    tarn_async_options options = {.size = sizeof options, .use_default_pool = true};

    return tarn_async_create(device, &options, out);
}

static void live_async_on_default_pool(void)
{
    live_and_die(create_async_on_default_pool);
}

static tarn_status create_pool(int device, tarn_resource **out)
{
    tarn_pool_options options = {.size = sizeof options, .initial_bytes = 4 << 20};

    return tarn_pool_create(device, NULL, &options, out);
}

static void live_pool(void)
{
    live_and_die(create_pool);
}

static tarn_status create_pool_on_cuda(int device, tarn_resource **out)
{
    tarn_resource *upstream;
    tarn_status status = tarn_cuda_create(device, &upstream);

    if (status != TARN_OK)
        return status;
    status = tarn_pool_create(device, upstream, NULL, out);
    CHECK_OK(tarn_resource_release(upstream));
    return status;
}

static void live_pool_on_cuda(void)
{
    live_and_die(create_pool_on_cuda);
}

static tarn_status create_slab(int device, tarn_resource **out)
{
    tarn_slab_options options = {
        .size = sizeof options, .block_bytes = 10000, .initial_blocks = 100};

    return tarn_slab_create(device, NULL, &options, out);
}

static void live_slab(void)
{
    live_and_die(create_slab);
}

/* One request is served by a slab, the other by the upstream. */
static tarn_status create_binning(int device, tarn_resource **out)
{
    tarn_binning_options options = {
        .size = sizeof options, .min_size_exponent = 10, .max_size_exponent = 12};
    tarn_resource *upstream;
    tarn_status status = tarn_cuda_create(device, &upstream);

    if (status != TARN_OK)
        return status;
    status = tarn_binning_create(upstream, &options, out);
    CHECK_OK(tarn_resource_release(upstream));
    return status;
}

static void live_binning(void)
{
    live_and_die(create_binning);
}

TEST(slab_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_slab);
}

TEST(binning_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_binning);
}

TEST(pool_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_pool);
}

TEST(pool_on_cuda_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_pool_on_cuda);
}

TEST(cuda_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_cuda);
}

TEST(exportable_with_a_cache_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_caching);
}

TEST(exportable_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_exportable);
}

TEST(managed_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_managed);
}

TEST(pinned_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_pinned);
}

static void wait_between_streams(void)
{
    tarn_memory_type type = TARN_MEMORY_UNKNOWN;
    tarn_stream writer, reader;
    int device = 77;

    WORKS_IN_THE_END(tarn_stream_create(0, true, &writer));
    WORKS_IN_THE_END(tarn_stream_create(0, true, &reader));
    WORKS_IN_THE_END(tarn_stream_wait(0, reader, writer));
    if (tarn_driver_memory_type(0, 4096, &type, &device) != TARN_OK) {
        CHECK_EQUAL(77, device);
        CHECK_OK(tarn_driver_memory_type(0, 4096, &type, &device));
    }
    WORKS_IN_THE_END(tarn_stream_destroy(0, writer));
    WORKS_IN_THE_END(tarn_stream_destroy(0, reader));
    check_no_context();
}

TEST(wait_between_streams_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(wait_between_streams);
}

TEST(async_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_async);
}

TEST(async_on_the_default_pool_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_async_on_default_pool);
}

/* The end of a pool reports no error to a caller, so the end is tried twice. */
TEST(async_destroys_its_pool_whatever_call_fails)
{
    unsigned long long faults;
    unsigned nth = 0;

    if (!on_sim())
        skip();
    do {
        tarn_resource *async, *cuda;
        tarn_device_ptr block;
        size_t before, after, total;
        char options[64];

        CHECK_OK(tarn_cuda_create(0, &cuda));
        CHECK_OK(tarn_driver_synchronize(0)); /* the device's own pool is empty, too */
        CHECK_OK(tarn_resource_memory_info(cuda, NULL, &before, &total));
        CHECK_OK(tarn_async_create(0, NULL, &async));
        CHECK_OK(tarn_resource_allocate(async, 64 << 20, 0, NULL, &block));
        CHECK_OK(tarn_resource_deallocate(async, block, 64 << 20, 0, NULL));
        CHECK_OK(tarn_driver_synchronize(0));
        snprintf(options, sizeof options, "fail=nth:%u", ++nth);
        sim_configure(options);
        CHECK_OK(tarn_resource_release(async));
        faults = sim_faults();
        sim_configure(NULL);
        CHECK_OK(tarn_resource_memory_info(cuda, NULL, &after, &total));
        CHECK_EQUAL(before, after);
        CHECK_OK(tarn_resource_release(cuda));
    } while (faults > 0);
    CHECK(nth > 3);
}
