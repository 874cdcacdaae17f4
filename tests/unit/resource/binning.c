/* Test a binning resource: it sends each size to its bin, and returns each block there.
 */
#include "scripted.h"
#include "test.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { DEVICE = TARN_DEVICE_NONE, THREADS = 4, ROUNDS = 500 };

static struct scripted upstream, small, large;
static tarn_resource *binning;

static void begin(void)
{
    scripted_begin(&upstream, DEVICE);
    scripted_begin(&small, DEVICE);
    scripted_begin(&large, DEVICE);
    CHECK_OK(tarn_binning_create(upstream.resource, NULL, &binning));
}

/* Bins of 1,000 and of 10,000 bytes, added in reverse order. */
static void add_both(void)
{
    CHECK_OK(tarn_binning_add_bin(binning, 10000, large.resource));
    CHECK_OK(tarn_binning_add_bin(binning, 1000, small.resource));
}

static void end(void)
{
    CHECK_OK(tarn_resource_release(binning));
    scripted_end(&small);
    scripted_end(&large);
    scripted_end(&upstream);
}

/* Allocate and free `bytes`; both calls reach `wanted`. */
static void is_served_by(const struct scripted *wanted, size_t bytes)
{
    unsigned allocations = wanted->allocations, frees = wanted->frees;
    tarn_device_ptr block;

    CHECK_OK(tarn_resource_allocate(binning, bytes, 512, TARN_STREAM_PER_THREAD, &block));
    CHECK_EQUAL(allocations + 1, wanted->allocations);
    CHECK_EQUAL(bytes, wanted->bytes);
    CHECK_EQUAL(512, wanted->alignment);
    CHECK(wanted->stream == TARN_STREAM_PER_THREAD);
    CHECK_EQUAL(1, tarn_resource_live_blocks(binning));
    CHECK_OK(tarn_resource_deallocate(binning, block, bytes, 512, TARN_STREAM_LEGACY));
    CHECK_EQUAL(frees + 1, wanted->frees);
    CHECK(wanted->block == block && wanted->stream == TARN_STREAM_LEGACY);
    CHECK_EQUAL(0, tarn_resource_live_blocks(binning));
}

TEST(binning_sends_each_size_to_its_bin)
{
    begin();
    add_both();
    is_served_by(&small, 1);
    is_served_by(&small, 1000);
    is_served_by(&large, 1001);
    is_served_by(&large, 10000);
    is_served_by(&upstream, 10001);
    end();
}

TEST(binning_without_bins_is_its_upstream)
{
    begin();
    is_served_by(&upstream, 1);
    is_served_by(&upstream, 1 << 20);
    end();
}

TEST(binning_keeps_the_first_bin_of_a_size)
{
    begin();
    CHECK_OK(tarn_binning_add_bin(binning, 1000, small.resource));
    CHECK_OK(tarn_binning_add_bin(binning, 1000, large.resource));
    is_served_by(&small, 1000);
    end();
}

TEST(binning_returns_blocks_to_where_they_came_from_after_a_new_bin)
{
    tarn_device_ptr first, second, large_one;
    size_t bytes = 0;

    begin();
    CHECK_OK(tarn_binning_add_bin(binning, 10000, large.resource));
    CHECK_OK(tarn_resource_allocate(binning, 500, 0, NULL, &first));
    CHECK_OK(tarn_resource_allocate(binning, 20000, 0, NULL, &large_one));
    CHECK_OK(tarn_binning_add_bin(binning, 1000, small.resource));
    CHECK_OK(tarn_binning_add_bin(binning, 50000, small.resource));
    CHECK_OK(tarn_resource_allocate(binning, 500, 0, NULL, &second));
    CHECK(large.allocations == 1 && small.allocations == 1 && upstream.allocations == 1);
    CHECK_OK(tarn_resource_requested_bytes(binning, first, &bytes));
    CHECK_EQUAL(500, bytes);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(binning, first, 501, 0, NULL));
    CHECK_OK(tarn_resource_deallocate(binning, first, 500, 0, NULL));
    CHECK_OK(tarn_resource_deallocate(binning, second, 500, 0, NULL));
    CHECK_OK(tarn_resource_deallocate(binning, large_one, 20000, 0, NULL));
    CHECK(large.frees == 1 && small.frees == 1 && upstream.frees == 1);
    is_served_by(&small, 500);
    end();
}

TEST(binning_counts_nothing_when_a_bin_fails)
{
    tarn_device_ptr block = 77;

    begin();
    add_both();
    small.allocate_fails = TARN_OUT_OF_MEMORY;
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(binning, 500, 0, NULL, &block));
    CHECK_EQUAL(77, block);
    CHECK_EQUAL(0, tarn_resource_live_blocks(binning));
    CHECK_OK(tarn_resource_allocate(binning, 5000, 0, NULL, &block));
    large.free_fails = TARN_DRIVER_FAILURE;
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_deallocate(binning, block, 5000, 0, NULL));
    CHECK_EQUAL(1, tarn_resource_live_blocks(binning));
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_resource_release(binning));
    large.free_fails = TARN_OK;
    CHECK_OK(tarn_resource_deallocate(binning, block, 5000, 0, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(binning, block, 5000, 0, NULL));
    CHECK_MESSAGE("is not a live allocation");
    end();
}

TEST(binning_rejects_invalid_bins)
{
    tarn_resource *elsewhere, *other = NULL;
    tarn_binning_options options = {.size = 4};

    begin();
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_binning_add_bin(binning, 0, small.resource));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_binning_add_bin(binning, 1000, binning));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_binning_add_bin(small.resource, 1000, large.resource));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_binning_add_bin(NULL, 1000, NULL));
    CHECK_OK(tarn_cuda_create(0, &elsewhere));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_binning_add_bin(binning, 1000, elsewhere));
    CHECK_MESSAGE("device 0");
    CHECK_OK(tarn_resource_release(elsewhere));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_binning_create(NULL, NULL, &other));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_binning_create(upstream.resource, &options, &other));
    options.size = sizeof options;
    options.min_size_exponent = 20;
    options.max_size_exponent = 10;
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_binning_create(upstream.resource, &options, &other));
    options.max_size_exponent = 63;
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_binning_create(upstream.resource, &options, &other));
    tarn_binning_options later[2] = {{.size = sizeof later}, {.size = 1}};
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_binning_create(upstream.resource, later, &other));
    CHECK_MESSAGE("that this libtarn knows");
    CHECK(other == NULL);
    end();
}

TEST(binning_has_at_most_64_bins)
{
    begin();
    for (size_t i = 1; i <= 64; i++)
        CHECK_OK(tarn_binning_add_bin(binning, i * 1000, small.resource));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_binning_add_bin(binning, 65000, large.resource));
    is_served_by(&small, 63001);
    is_served_by(&upstream, 64001);
    end();
}

TEST(binning_is_what_all_of_its_bins_are)
{
    begin();
    add_both();
    upstream.deallocate_synchronizes = small.deallocate_synchronizes =
        upstream.supports_streams = small.supports_streams = true;
    upstream.supports_no_stream = small.supports_no_stream = true;
    CHECK(!tarn_resource_supports_no_stream(binning));
    large.supports_no_stream = true;
    CHECK(tarn_resource_supports_no_stream(binning));
    CHECK(!tarn_resource_deallocate_synchronizes(binning));
    CHECK(!tarn_resource_supports_streams(binning));
    large.deallocate_synchronizes = large.supports_streams = true;
    CHECK(tarn_resource_deallocate_synchronizes(binning));
    CHECK(tarn_resource_supports_streams(binning));
    end();
}

TEST(binning_trims_its_bins_and_upstream)
{
    size_t released;

    begin();
    add_both();
    CHECK_OK(tarn_resource_trim(binning, 0, &released));
    CHECK_EQUAL(1, small.trims);
    CHECK_EQUAL(1, large.trims);
    CHECK_EQUAL(1, upstream.trims);
    end();
}

TEST(binning_has_slabs_for_powers_of_two)
{
    tarn_binning_options options = {
        .size = sizeof options, .min_size_exponent = 10, .max_size_exponent = 14};
    tarn_resource *cuda, *with_slabs;
    tarn_device_ptr blocks[6];
    size_t bytes;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_binning_create(cuda, &options, &with_slabs));
    CHECK_OK(tarn_binning_add_bin(with_slabs, 1 << 15, NULL));
    for (unsigned i = 0; i < 6; i++) {
        CHECK_OK(
            tarn_resource_allocate(with_slabs, (size_t)1000 << i, 0, NULL, &blocks[i]));
    }
    CHECK_EQUAL(6, tarn_resource_live_blocks(with_slabs));
    CHECK_OK(tarn_resource_requested_bytes(with_slabs, blocks[0], &bytes));
    CHECK_EQUAL(1000, bytes);
    for (unsigned i = 0; i < 6; i++)
        CHECK_OK(
            tarn_resource_deallocate(with_slabs, blocks[i], (size_t)1000 << i, 0, NULL));
    CHECK_OK(tarn_resource_release(with_slabs));
    CHECK_OK(tarn_resource_release(cuda));
}

/* Threads allocate while bins are added: each block returns to its resource. */
static atomic_int mistakes;

static void *allocate_and_free(void *unused)
{
    for (size_t i = 0; i < ROUNDS; i++) {
        tarn_device_ptr block;
        size_t bytes = i % 64 * 1000 + 1;
        if (tarn_resource_allocate(binning, bytes, 0, NULL, &block) != TARN_OK ||
            tarn_resource_deallocate(binning, block, bytes, 0, NULL) != TARN_OK)
            atomic_fetch_add(&mistakes, 1);
    }
    return unused;
}

TEST(binning_takes_new_bins_between_the_calls_of_threads)
{
    tarn_resource *host, *bins[64];
    pthread_t threads[THREADS];

    CHECK_OK(tarn_host_create(&host)); /* it knows its blocks */
    CHECK_OK(tarn_binning_create(host, NULL, &binning));
    for (int i = 0; i < 64; i++)
        CHECK_OK(tarn_counter_create(host, &bins[i]));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, allocate_and_free, NULL));
    for (size_t i = 0; i < 64; i++)
        while (tarn_binning_add_bin(binning, (i + 1) * 1000, bins[i]) != TARN_OK) {
            CHECK_STATUS(TARN_STILL_IN_USE, tarn_error_last()->status);
            sched_yield();
        }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(0, mistakes);
    CHECK_OK(tarn_resource_release(binning));
    for (int i = 0; i < 64; i++) {
        CHECK_EQUAL(0, tarn_resource_live_blocks(bins[i]));
        CHECK_OK(tarn_resource_release(bins[i]));
    }
    CHECK_OK(tarn_resource_release(host));
}
