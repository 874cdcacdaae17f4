/* Test a slab: blocks of one size, for any request up to that size. */
#include "test.h"

enum { BLOCK = 10000, TAKEN = 10240 }; /* bytes: requested, and as rounded */

static tarn_resource *slab_of(size_t initial, size_t maximum)
{
    const tarn_slab_options options = {.size = sizeof options,
                                       .block_bytes = BLOCK,
                                       .initial_blocks = initial,
                                       .maximum_blocks = maximum};
    tarn_resource *slab;

    CHECK_OK(tarn_slab_create(0, NULL, &options, &slab));
    return slab;
}

static tarn_pool_statistics statistics_of(tarn_resource *slab)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};

    CHECK_OK(tarn_pool_get_statistics(slab, &statistics));
    return statistics;
}

static tarn_device_ptr take(tarn_resource *slab, size_t bytes)
{
    tarn_device_ptr block;

    CHECK_OK(tarn_resource_allocate(slab, bytes, 0, TARN_STREAM_LEGACY, &block));
    return block;
}

static void put(tarn_resource *slab, tarn_device_ptr block, size_t bytes)
{
    CHECK_OK(tarn_resource_deallocate(slab, block, bytes, 0, TARN_STREAM_LEGACY));
}

TEST(slab_is_called_that_and_is_a_pool)
{
    tarn_resource *slab = slab_of(0, 0);
    size_t released;

    CHECK_TEXT("slab", tarn_resource_name(slab));
    CHECK(tarn_resource_supports_streams(slab));
    CHECK_EQUAL(0, statistics_of(slab).live);
    CHECK_OK(tarn_resource_trim(slab, 0, &released));
    CHECK_OK(tarn_resource_release(slab));
}

TEST(slab_uses_the_same_block_for_any_size)
{
    static const size_t sizes[] = {1, 512, 513, BLOCK - 1, BLOCK};
    tarn_resource *slab = slab_of(0, 0);

    for (int i = 0; i < 5; i++) {
        tarn_device_ptr block = take(slab, sizes[i]);
        size_t bytes;
        CHECK_EQUAL(TAKEN, statistics_of(slab).live);
        CHECK_EQUAL(sizes[i], statistics_of(slab).live_requested);
        CHECK_OK(tarn_resource_requested_bytes(slab, block, &bytes));
        CHECK_EQUAL(sizes[i], bytes);
        put(slab, block, sizes[i]);
    }
    CHECK_OK(tarn_resource_release(slab));
}

TEST(slab_reuses_a_freed_block_whatever_its_size_was)
{
    tarn_resource *slab = slab_of(0, 0);
    tarn_device_ptr small = take(slab, 1);

    put(slab, small, 1);
    tarn_device_ptr large = take(slab, BLOCK);
    CHECK(small == large);
    put(slab, large, BLOCK);
    CHECK_OK(tarn_resource_release(slab));
}

TEST(slab_rejects_requests_larger_than_a_block)
{
    tarn_resource *slab = slab_of(0, 0);
    tarn_device_ptr block = 77;

    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(slab, BLOCK + 1, 0, NULL, &block));
    CHECK_MESSAGE("slab: 10001 bytes exceed the block size of 10000");
    CHECK_EQUAL(77, block);
    CHECK_OK(tarn_resource_release(slab));
}

TEST(slab_rejects_a_free_of_other_bytes)
{
    tarn_resource *slab = slab_of(0, 0);
    tarn_device_ptr block = take(slab, 100);

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(slab, block, 101, 0, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(slab, block, BLOCK, 0, NULL));
    put(slab, block, 100);
    CHECK_OK(tarn_resource_release(slab));
}

/* All blocks of a filled slab are reused: none is lost between others. */
TEST(slab_loses_nothing_between_blocks)
{
    enum { COUNT = 200 };
    tarn_resource *slab = slab_of(0, 0);
    tarn_device_ptr blocks[COUNT];

    for (size_t i = 0; i < COUNT; i++)
        blocks[i] = take(slab, i + 1);
    uint64_t reserved = statistics_of(slab).reserved;
    for (size_t i = 0; i < COUNT; i += 2)
        put(slab, blocks[i], i + 1);
    for (size_t i = 0; i < COUNT; i += 2)
        blocks[i] = take(slab, BLOCK - i);
    CHECK_EQUAL(reserved, statistics_of(slab).reserved);
    for (size_t i = 0; i < COUNT; i++)
        put(slab, blocks[i], i % 2 ? i + 1 : BLOCK - i);
    CHECK_OK(tarn_resource_release(slab));
}

TEST(slab_has_its_first_blocks_from_the_start)
{
    tarn_resource *slab = slab_of(1000, 0);

    CHECK(statistics_of(slab).reserved >= (uint64_t)1000 * TAKEN);
    CHECK_OK(tarn_resource_release(slab));
}

TEST(slab_defaults_are_those_of_rmm)
{
    tarn_resource *slab;
    tarn_device_ptr block = 77;

    CHECK_OK(tarn_slab_create(0, NULL, NULL, &slab));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(slab, (1 << 20) + 1, 0, NULL, &block));
    put(slab, take(slab, 1 << 20), 1 << 20);
    CHECK_OK(tarn_resource_release(slab));
}

/* However small the slab is, and whether it is whole pages or not. */
TEST(slab_has_all_blocks_of_its_maximum)
{
    static const struct {
        size_t block_bytes, blocks;
    } those[] = {{4096, 128}, {1 << 20, 1}, {1 << 20, 3}, {3 << 20, 1}, {100, 7}};

    for (size_t i = 0; i < sizeof those / sizeof *those; i++) {
        tarn_slab_options options = {.size = sizeof options,
                                     .block_bytes = those[i].block_bytes,
                                     .maximum_blocks = those[i].blocks};
        tarn_device_ptr blocks[128];
        tarn_resource *slab;
        for (int first = 0; first < 2; first++) {
            options.initial_blocks = first ? those[i].blocks : 0;
            CHECK_OK(tarn_slab_create(0, NULL, &options, &slab));
            for (size_t k = 0; k < those[i].blocks; k++)
                blocks[k] = take(slab, those[i].block_bytes);
            uint64_t reserved = statistics_of(slab).reserved;
            CHECK(reserved < those[i].blocks * those[i].block_bytes + (2 << 20));
            for (size_t k = 0; k < those[i].blocks; k++)
                put(slab, blocks[k], those[i].block_bytes);
            CHECK_OK(tarn_resource_release(slab));
        }
    }
}

TEST(slab_rejects_invalid_options)
{
    tarn_slab_options options = {.size = sizeof options, .block_bytes = SIZE_MAX};
    tarn_resource *slab = NULL;

    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_slab_create(0, NULL, &options, &slab));
    options.block_bytes = 1 << 20;
    options.growth_blocks = SIZE_MAX / 1000;
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_slab_create(0, NULL, &options, &slab));
    options.growth_blocks = 0;
    options.initial_blocks = 2;
    options.maximum_blocks = 1;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_slab_create(0, NULL, &options, &slab));
    CHECK_MESSAGE("initial_blocks 2 exceeds maximum_blocks 1");
    options.initial_blocks = 0;
    options.growth_blocks = 3;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_slab_create(0, NULL, &options, &slab));
    CHECK_MESSAGE("growth_blocks 3 exceeds maximum_blocks 1");
    options.size = 8;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_slab_create(0, NULL, &options, &slab));
    tarn_slab_options later[2] = {{.size = sizeof later}, {.size = 1}};
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_slab_create(0, NULL, later, &slab));
    CHECK_MESSAGE("that this libtarn knows");
    options.size = sizeof options;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_slab_create(99, NULL, NULL, &slab));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_slab_create(0, NULL, NULL, NULL));
    CHECK(slab == NULL);
}
