/* Test the limiter, over an upstream whose answers the test chooses. */
#include "test.h"
#include "scripted.h"
#include <pthread.h>

static struct scripted script;
static tarn_resource *limiter;

static void begin(size_t limit_bytes)
{
    scripted_begin(&script, 0);
    CHECK_OK(tarn_limiter_create(script.resource, limit_bytes, &limiter));
}

static void end(void)
{
    CHECK_OK(tarn_resource_release(limiter));
    scripted_end(&script);
}

static size_t used(void)
{
    size_t bytes = 12345;

    CHECK_OK(tarn_limiter_used_bytes(limiter, &bytes));
    return bytes;
}

TEST(limiter_charges_multiples_of_256_bytes)
{
    tarn_device_ptr one, two;
    size_t limit;

    begin(1000);
    CHECK_OK(tarn_resource_allocate(limiter, 1, 0, NULL, &one));
    CHECK_EQUAL(256, used());
    CHECK_OK(tarn_resource_allocate(limiter, 257, 0, NULL, &two));
    CHECK_EQUAL(768, used());
    CHECK_OK(tarn_limiter_limit_bytes(limiter, &limit));
    CHECK_EQUAL(1000, limit);
    CHECK_OK(tarn_resource_deallocate(limiter, one, 1, 0, NULL));
    CHECK_EQUAL(512, used());
    CHECK_OK(tarn_resource_deallocate(limiter, two, 257, 0, NULL));
    CHECK_EQUAL(0, used());
    end();
}

TEST(limiter_rejects_requests_over_the_limit_without_calling_upstream)
{
    tarn_device_ptr block, other = 7;

    begin(1024);
    CHECK_OK(tarn_resource_allocate(limiter, 1024, 0, NULL, &block));
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(limiter, 1, 0, NULL, &other));
    CHECK_MESSAGE("limiter: 1 bytes exceed the limit, 1024 of 1024 bytes are in use");
    CHECK_EQUAL(7, other);
    CHECK_EQUAL(1, script.allocations);
    CHECK_OK(tarn_resource_deallocate(limiter, block, 1024, 0, NULL));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(limiter, 1025, 0, NULL, &other));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(limiter, SIZE_MAX - 10, 0, NULL, &other));
    CHECK_STATUS(
        TARN_OUT_OF_MEMORY,
        tarn_resource_allocate(limiter, SIZE_MAX & ~(size_t)255, 0, NULL, &other));
    CHECK_OK(tarn_resource_allocate(limiter, 1000, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(limiter, block, 1000, 0, NULL));
    end();
}

TEST(limiter_refunds_when_upstream_fails)
{
    tarn_device_ptr block = 7;

    begin(1024);
    script.allocate_fails = TARN_DRIVER_FAILURE;
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_allocate(limiter, 9, 0, NULL, &block));
    CHECK_MESSAGE("scripted");
    CHECK(block == 7 && used() == 0);
    script.allocate_fails = TARN_OK;
    CHECK_OK(tarn_resource_allocate(limiter, 1024, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(limiter, block, 1024, 0, NULL));
    end();
}

TEST(limiter_keeps_the_charge_when_upstream_keeps_the_block)
{
    tarn_device_ptr block;

    begin(1024);
    CHECK_OK(tarn_resource_allocate(limiter, 9, 0, NULL, &block));
    script.free_fails = TARN_DRIVER_FAILURE;
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_deallocate(limiter, block, 9, 0, NULL));
    CHECK_EQUAL(256, used());
    script.free_fails = TARN_OK;
    CHECK_OK(tarn_resource_deallocate(limiter, block, 9, 0, NULL));
    CHECK_EQUAL(0, used());
    end();
}

TEST(limiter_rejects_a_block_that_was_never_charged)
{
    tarn_device_ptr mine, upstreams;

    begin(1 << 20);
    CHECK_OK(tarn_resource_allocate(limiter, 100, 0, NULL, &mine));
    CHECK_OK(tarn_resource_allocate(script.resource, 1000, 0, NULL, &upstreams));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(limiter, upstreams, 1000, 0, NULL));
    CHECK(used() == 256 && script.frees == 0);
    CHECK_OK(tarn_resource_deallocate(script.resource, upstreams, 1000, 0, NULL));
    CHECK_OK(tarn_resource_deallocate(limiter, mine, 100, 0, NULL));
    end();
}

TEST(limiter_of_zero_bytes_allocates_nothing)
{
    tarn_device_ptr block = 7;

    begin(0);
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(limiter, 1, 0, NULL, &block));
    CHECK_OK(tarn_resource_allocate(limiter, 0, 0, NULL, &block));
    end();
}

TEST(limiter_figures_are_of_limiters_only)
{
    size_t bytes = 7;

    begin(1024);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_limiter_used_bytes(script.resource, &bytes));
    CHECK_MESSAGE("scripted");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_limiter_limit_bytes(NULL, &bytes));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_limiter_limit_bytes(limiter, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_limiter_create(NULL, 1, &limiter));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_limiter_create(script.resource, 1, NULL));
    CHECK_EQUAL(7, bytes);
    end();
}

/* Eight blocks fit. More threads than that request one, and there is never a ninth block.
 */
enum { CAPACITY = 8, THREADS = 4, ROUNDS = 2000 };

static void *take_and_give(void *data)
{
    tarn_resource *resource = data;
    tarn_device_ptr blocks[CAPACITY / 2];
    uintptr_t broken = 0;

    for (int i = 0; i < ROUNDS; i++) {
        int count = 0;
        while (count < CAPACITY / 2 &&
               tarn_resource_allocate(resource, 200, 0, NULL, &blocks[count]) == TARN_OK)
            count++;
        size_t bytes = 0;
        tarn_limiter_used_bytes(resource, &bytes);
        broken |= bytes > CAPACITY * 256;
        while (count > 0)
            broken |= tarn_resource_deallocate(resource, blocks[--count], 200, 0, NULL) !=
                      TARN_OK;
    }
    return (void *)broken;
}

TEST(limiter_holds_its_budget_between_threads)
{
    tarn_resource *host, *shared;
    pthread_t threads[THREADS];
    size_t bytes = 7;
    void *broken;

    CHECK_OK(tarn_host_create(&host));
    CHECK_OK(tarn_limiter_create(host, CAPACITY * 256, &shared));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, take_and_give, shared));
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(0, pthread_join(threads[i], &broken));
        CHECK(broken == NULL);
    }
    CHECK_OK(tarn_limiter_used_bytes(shared, &bytes));
    CHECK_EQUAL(0, bytes);
    CHECK_OK(tarn_resource_release(shared));
    CHECK_OK(tarn_resource_release(host));
}
