/* Test the prefetcher, and the prefetch of any address. */
#include "driver_calls.h"
#include "scripted.h"
#include "test.h"

/* The last location to which a block was prefetched; -2: none. */
static int location_of(tarn_device_ptr block, size_t bytes)
{
    enum { LAST_PREFETCH_LOCATION = 4 };
    int (*get)(void *out, size_t out_bytes, int attribute, unsigned long long address,
               size_t bytes);
    int where = 77;

    find_call("cuMemRangeGetAttribute", &get);
    /* An allocation makes the context current. */
    int (*retain)(void **out, int device), (*set_current)(void *context);
    void *context;
    find_call("cuDevicePrimaryCtxRetain", &retain);
    find_call("cuCtxSetCurrent", &set_current);
    CHECK_EQUAL(0, retain(&context, 0));
    CHECK_EQUAL(0, set_current(context));
    CHECK_EQUAL(0, get(&where, sizeof where, LAST_PREFETCH_LOCATION, block, bytes));
    CHECK_EQUAL(0, set_current(NULL));
    return where;
}

static tarn_resource *managed(void)
{
    tarn_resource *resource = NULL;

    CHECK_OK(tarn_managed_create(0, &resource));
    return resource;
}

TEST(prefetcher_prefetches_managed_blocks_to_the_device)
{
    tarn_resource *upstream = managed(), *prefetcher, *found;
    tarn_device_ptr block;

    CHECK_OK(tarn_prefetcher_create(upstream, &prefetcher));
    CHECK_TEXT("prefetcher", tarn_resource_name(prefetcher));
    CHECK_OK(tarn_adaptor_upstream(prefetcher, &found));
    CHECK(found == upstream);
    CHECK_OK(tarn_resource_allocate(upstream, 1000, 0, NULL, &block));
    CHECK_EQUAL(-2, location_of(block, 1000));
    CHECK_OK(tarn_resource_deallocate(upstream, block, 1000, 0, NULL));
    CHECK_OK(tarn_resource_allocate(prefetcher, 1000, 0, NULL, &block));
    CHECK_EQUAL(0, location_of(block, 1000));
    CHECK_OK(tarn_prefetch_async(0, block, 1000, -1, NULL));
    CHECK_EQUAL(-1, location_of(block, 1000));
    CHECK_OK(tarn_resource_deallocate(prefetcher, block, 1000, 0, NULL));
    CHECK_OK(tarn_resource_release(found));
    CHECK_OK(tarn_resource_release(prefetcher));
    CHECK_OK(tarn_resource_release(upstream));
}

TEST(prefetcher_leaves_other_memory_alone)
{
    tarn_resource *cuda, *host, *prefetcher;
    tarn_device_ptr block;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_prefetcher_create(cuda, &prefetcher));
    CHECK_OK(tarn_resource_allocate(prefetcher, 1000, 0, NULL, &block));
    CHECK_OK(tarn_prefetch_async(0, block, 1000, 0, NULL));
    CHECK_OK(tarn_resource_deallocate(prefetcher, block, 1000, 0, NULL));
    CHECK_OK(tarn_resource_release(prefetcher));
    CHECK_OK(tarn_resource_release(cuda));

    CHECK_OK(tarn_host_create(&host));
    CHECK_OK(tarn_prefetcher_create(host, &prefetcher));
    CHECK_OK(tarn_resource_allocate(prefetcher, 1000, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(prefetcher, block, 1000, 0, NULL));
    CHECK_OK(tarn_resource_release(prefetcher));
    CHECK_OK(tarn_resource_release(host));
}

TEST(prefetcher_reports_failures_of_its_upstream)
{
    struct scripted script;
    tarn_resource *prefetcher;
    tarn_device_ptr block = 7;

    scripted_begin(&script, 0);
    CHECK_OK(tarn_prefetcher_create(script.resource, &prefetcher));
    script.allocate_fails = TARN_OUT_OF_MEMORY;
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(prefetcher, 100, 0, NULL, &block));
    CHECK(block == 7 && script.frees == 0);
    CHECK_OK(tarn_resource_release(prefetcher));
    scripted_end(&script);
}

TEST(prefetch_rejects_places_that_do_not_exist)
{
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prefetch_async(0, 4096, 1, 1000, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prefetch_async(0, 4096, 1, -2, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_prefetch_async(1000, 4096, 1, 0, NULL));
    CHECK_OK(tarn_prefetch_async(0, 4096, 0, 1000, NULL)); /* nothing to do */
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_prefetcher_create(NULL, &(tarn_resource *){NULL}));
}

#define WORKS_IN_THE_END(call) \
    do {                       \
        if ((call) != TARN_OK) \
            CHECK_OK(call);    \
    } while (0)

static void live_prefetched(void)
{
    tarn_resource *upstream, *prefetcher;
    tarn_device_ptr block = 77;

    WORKS_IN_THE_END(tarn_managed_create(0, &upstream));
    CHECK_OK(tarn_prefetcher_create(upstream, &prefetcher));
    if (tarn_resource_allocate(prefetcher, 1000, 0, NULL, &block) != TARN_OK) {
        CHECK(block == 77 && tarn_resource_live_blocks(upstream) == 0);
        CHECK_OK(tarn_resource_allocate(prefetcher, 1000, 0, NULL, &block));
    }
    WORKS_IN_THE_END(tarn_resource_deallocate(prefetcher, block, 1000, 0, NULL));
    CHECK_OK(tarn_resource_release(prefetcher));
    CHECK_OK(tarn_resource_release(upstream));
}

TEST(prefetcher_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_prefetched);
}
