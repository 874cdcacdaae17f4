/* Test the counter: current, peak and total bytes and blocks, and a stack of such counts.
 */
#include "test.h"
#include "scripted.h"
#include <pthread.h>

static struct scripted script;
static tarn_resource *counter;

static void begin(void)
{
    scripted_begin(&script, 0);
    CHECK_OK(tarn_counter_create(script.resource, &counter));
}

static void end(void)
{
    CHECK_OK(tarn_resource_release(counter));
    scripted_end(&script);
}

static tarn_device_ptr take(size_t bytes)
{
    tarn_device_ptr block;

    CHECK_OK(tarn_resource_allocate(counter, bytes, 0, NULL, &block));
    return block;
}

static void put(tarn_device_ptr block, size_t bytes)
{
    CHECK_OK(tarn_resource_deallocate(counter, block, bytes, 0, NULL));
}

static void check_counts(const tarn_counts *got, int64_t bytes, int64_t count,
                         int64_t peak_bytes, int64_t peak_count, int64_t total_bytes,
                         int64_t total_count)
{
    CHECK_EQUAL(bytes, got->current_bytes);
    CHECK_EQUAL(count, got->current_count);
    CHECK_EQUAL(peak_bytes, got->peak_bytes);
    CHECK_EQUAL(peak_count, got->peak_count);
    CHECK_EQUAL(total_bytes, got->total_bytes);
    CHECK_EQUAL(total_count, got->total_count);
}

static tarn_counts now(void)
{
    tarn_counts counts;

    CHECK_OK(tarn_counter_read(counter, &counts));
    return counts;
}

TEST(counter_counts_requested_bytes)
{
    tarn_counts counts;

    begin();
    tarn_device_ptr one = take(10), two = take(300);
    put(one, 10);
    tarn_device_ptr three = take(5);
    counts = now();
    check_counts(&counts, 305, 2, 310, 2, 315, 3);
    put(two, 300);
    put(three, 5);
    counts = now();
    check_counts(&counts, 0, 0, 310, 2, 315, 3);
    end();
}

TEST(counter_does_not_count_failures)
{
    tarn_device_ptr block = 7;
    tarn_counts counts;

    begin();
    script.allocate_fails = TARN_OUT_OF_MEMORY;
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(counter, 9, 0, NULL, &block));
    script.allocate_fails = TARN_OK;
    CHECK_OK(tarn_resource_allocate(counter, 0, 0, NULL, &block));
    counts = now();
    check_counts(&counts, 0, 0, 0, 0, 0, 0);
    block = take(20);
    script.free_fails = TARN_DRIVER_FAILURE;
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_deallocate(counter, block, 20, 0, NULL));
    counts = now();
    check_counts(&counts, 20, 1, 20, 1, 20, 1);
    script.free_fails = TARN_OK;
    put(block, 20);
    end();
}

static tarn_counts at_free;

static void read_counts(void)
{
    at_free = now();
}

TEST(counter_counts_a_free_before_upstream_can_reuse_the_block)
{
    begin();
    script.before_free = read_counts;
    put(take(64), 64);
    check_counts(&at_free, 0, 0, 64, 1, 64, 1);
    end();
}

TEST(counter_push_begins_anew_and_pop_merges)
{
    tarn_counts before, popped, merged;

    begin();
    tarn_device_ptr a = take(100);
    CHECK_OK(tarn_counter_push(counter, &before));
    check_counts(&before, 100, 1, 100, 1, 100, 1);
    before = now();
    check_counts(&before, 0, 0, 0, 0, 0, 0);
    tarn_device_ptr b = take(50);
    put(b, 50);
    tarn_device_ptr c = take(20);
    put(a, 100); /* from before the push: the count goes below zero */
    CHECK_OK(tarn_counter_pop(counter, &popped));
    check_counts(&popped, -80, 0, 50, 1, 70, 2);
    merged = now();
    check_counts(&merged, 20, 1, 150, 2, 170, 3);
    put(c, 20);
    end();
}

TEST(counter_nests_as_deep_as_there_is_memory)
{
    enum { DEPTH = 100 };
    tarn_device_ptr blocks[DEPTH];
    tarn_counts counts;

    begin();
    for (int i = 0; i < DEPTH; i++) {
        blocks[i] = take(10);
        CHECK_OK(tarn_counter_push(counter, NULL));
    }
    for (int i = 0; i < DEPTH; i++)
        CHECK_OK(tarn_counter_pop(counter, NULL));
    counts = now();
    check_counts(&counts, 10 * DEPTH, DEPTH, 10 * DEPTH, DEPTH, 10 * DEPTH, DEPTH);
    for (int i = 0; i < DEPTH; i++)
        put(blocks[i], 10);
    end();
}

TEST(counter_keeps_its_lowest_set)
{
    tarn_counts counts = {.total_count = 77};

    begin();
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_counter_pop(counter, &counts));
    CHECK_EQUAL(77, counts.total_count);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_counter_pop(script.resource, &counts));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_counter_push(NULL, &counts));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_counter_read(script.resource, &counts));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_counter_read(counter, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_counter_create(NULL, &counter));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_counter_create(script.resource, NULL));
    end();
}

enum { THREADS = 4, ROUNDS = 1000 };

static void *take_and_give(void *data)
{
    tarn_device_ptr block;
    uintptr_t broken = 0;

    for (int i = 0; i < ROUNDS; i++)
        broken |= tarn_resource_allocate(data, 16, 0, NULL, &block) != TARN_OK ||
                  tarn_resource_deallocate(data, block, 16, 0, NULL) != TARN_OK;
    return (void *)broken;
}

TEST(counter_is_exact_between_threads)
{
    pthread_t threads[THREADS];
    tarn_resource *host, *shared;
    tarn_counts counts;
    void *broken;

    CHECK_OK(tarn_host_create(&host));
    CHECK_OK(tarn_counter_create(host, &shared));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, take_and_give, shared));
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(0, pthread_join(threads[i], &broken));
        CHECK(broken == NULL);
    }
    CHECK_OK(tarn_counter_read(shared, &counts));
    CHECK(counts.current_bytes == 0 && counts.current_count == 0);
    CHECK(counts.peak_count >= 1 && counts.peak_count <= THREADS);
    CHECK_EQUAL(16 * THREADS * ROUNDS, counts.total_bytes);
    CHECK_EQUAL(THREADS * ROUNDS, counts.total_count);
    CHECK_OK(tarn_resource_release(shared));
    CHECK_OK(tarn_resource_release(host));
}
