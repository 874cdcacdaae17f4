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

/* --- a prefetch that fails --- */

static struct scripted script;
static int warnings;
static char last_warning[256];

static void note_warning(void *data, const char *message)
{
    (void)data;
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", message);
}

static unsigned last_free; /* the free that succeeds, the last one; 0: none does */

static void note_free(void)
{
    CHECK(last_free == 0 || script.frees <= last_free);
    if (script.frees == last_free)
        script.free_fails = TARN_OK;
}

/* The failure of the allocation is that of the prefetch. */
static void allocate_without_prefetch(unsigned last)
{
    tarn_resource *prefetcher;
    tarn_device_ptr block = 7;

    warnings = 0;
    last_free = last;
    scripted_begin(&script, 0);
    script.free_fails = TARN_DRIVER_FAILURE;
    script.before_free = note_free;
    tarn_set_warning_handler(note_warning, NULL);
    CHECK_OK(tarn_prefetcher_create(script.resource, &prefetcher));
    sim_configure("fail=call:cuMemPrefetchAsync:1");
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_allocate(prefetcher, 100, 0, NULL, &block));
    CHECK_MESSAGE("cuMemPrefetchAsync");
    sim_configure(NULL);
    tarn_set_warning_handler(NULL, NULL);
    CHECK(block == 7 && script.bytes == 100);
    CHECK_OK(tarn_resource_release(prefetcher));
}

TEST(prefetcher_returns_a_block_that_it_cannot_prefetch)
{
    if (!on_sim())
        skip();
    for (unsigned last = 1; last <= 2; last++) { /* it tries again once */
        allocate_without_prefetch(last);
        CHECK(script.frees == last && warnings == 0);
        scripted_end(&script);
    }
}

TEST(prefetcher_warns_of_a_block_that_it_can_neither_prefetch_nor_return)
{
    if (!on_sim())
        skip();
    allocate_without_prefetch(0);
    CHECK(script.frees == 2 && warnings == 1);
    CHECK(strstr(last_warning, "a block of 100 bytes is leaked: scripted: keeps"));
    script.free_fails = TARN_OK;
    CHECK_OK(tarn_resource_deallocate(script.resource, script.block, 100, 0, NULL));
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
