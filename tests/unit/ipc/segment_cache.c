/* Test the cache of the resource `exportable`: freed blocks stay mapped for blocks of the
 * same size, within a bound, until memory is scarce or the resource is trimmed.
 */
#include "test.h"
#include "ipc/descriptor.h"
#include "ipc/segment.h"
#include "ipc/segment_memory.h"
#include <pthread.h>

enum { MIB = 1 << 20 };

static tarn_resource *resource;

static void begin(size_t cache_bytes)
{
    const tarn_exportable_options options = {.size = sizeof options,
                                             .cache_bytes = cache_bytes};

    CHECK_OK(tarn_exportable_create(0, &options, &resource));
}

static void end(void)
{
    CHECK_OK(tarn_resource_release(resource));
    CHECK(sim_live_bytes() == 0);
}

static tarn_device_ptr get(size_t bytes)
{
    tarn_device_ptr block = 0;

    CHECK_OK(tarn_resource_allocate(resource, bytes, 0, TARN_STREAM_NONE, &block));
    return block;
}

static void put(tarn_device_ptr block, size_t bytes)
{
    CHECK_OK(tarn_resource_deallocate(resource, block, bytes, 0, TARN_STREAM_NONE));
}

TEST(exportable_with_a_cache_is_a_resource_of_its_own)
{
    const tarn_exportable_options none = {.size = sizeof none};
    tarn_exportable_options wrong = {.size = 3};
    tarn_resource *shared, *again = NULL;

    if (!on_sim())
        skip();
    begin(16 * MIB);
    CHECK_OK(tarn_exportable_create(0, NULL, &shared));
    CHECK(shared != resource);
    CHECK_OK(tarn_exportable_create(0, &none, &again));
    CHECK(again == shared);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_exportable_create(0, &wrong, &again));
    CHECK(again == shared);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_exportable_create(0, NULL, NULL));
    CHECK_OK(tarn_resource_release(again));
    CHECK_OK(tarn_resource_release(shared));
    end();
}

TEST(freed_block_serves_the_next_of_its_size_at_the_same_address)
{
    if (!on_sim())
        skip();
    begin(16 * MIB);
    tarn_device_ptr first = get(3 * MIB);
    put(first, 3 * MIB);
    CHECK(sim_live_bytes() == 4 * MIB);
    tarn_device_ptr other = get(5 * MIB); /* another size */
    CHECK(other != first);
    sim_configure(NULL); /* counts from here */
    CHECK(get(4 * MIB) == first);
    CHECK(sim_live_bytes() == 10 * MIB);
    put(first, 4 * MIB);
    put(other, 5 * MIB);
    end();
}

TEST(a_hit_makes_no_call_that_changes_memory)
{
    static const char *const calls[] = {"cuMemCreate",    "cuMemMap",
                                        "cuMemSetAccess", "cuMemUnmap",
                                        "cuMemRelease",   "cuMemAddressReserve"};

    if (!on_sim())
        skip();
    begin(16 * MIB);
    put(get(3 * MIB), 3 * MIB);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char option[64];
        snprintf(option, sizeof option, "fail=call:%s", calls[i]);
        sim_configure(option);
        put(get(3 * MIB), 3 * MIB);
        CHECK(sim_faults() == 0);
    }
    sim_configure(NULL);
    end();
}

TEST(cache_keeps_the_newest_blocks_within_its_bound)
{
    tarn_device_ptr blocks[4];

    if (!on_sim())
        skip();
    begin(6 * MIB);
    for (int i = 0; i < 4; i++)
        blocks[i] = get(2 * MIB);
    for (int i = 0; i < 4; i++)
        put(blocks[i], 2 * MIB);
    CHECK(sim_live_bytes() == 6 * MIB);
    for (int i = 3; i > 0; i--)
        CHECK(get(2 * MIB) == blocks[i]);
    for (int i = 3; i > 0; i--)
        put(blocks[i], 2 * MIB);
    put(get(8 * MIB), 8 * MIB); /* larger than the cache */
    CHECK(sim_live_bytes() == 6 * MIB);
    end();
}

TEST(trim_releases_cached_blocks)
{
    size_t released = 77;

    if (!on_sim())
        skip();
    begin(64 * MIB);
    tarn_device_ptr live = get(2 * MIB), one = get(4 * MIB), two = get(6 * MIB);
    put(one, 4 * MIB);
    put(two, 6 * MIB);
    CHECK(sim_live_bytes() == 12 * MIB);
    CHECK_OK(tarn_resource_trim(resource, 6 * MIB, &released));
    CHECK(released == 4 * MIB);
    CHECK(sim_live_bytes() == 8 * MIB);
    CHECK_OK(tarn_resource_trim(resource, 0, &released));
    CHECK(released == 6 * MIB);
    CHECK(sim_live_bytes() == 2 * MIB);
    put(live, 2 * MIB);
    end();
}

TEST(trim_that_fails_loses_nothing)
{
    size_t released = 77;

    if (!on_sim())
        skip();
    begin(64 * MIB);
    put(get(4 * MIB), 4 * MIB);
    sim_configure("fail=call:cuMemUnmap:1");
    CHECK(tarn_resource_trim(resource, 0, &released) != TARN_OK);
    CHECK_MESSAGE("cuMemUnmap");
    CHECK(released == 77);
    sim_configure(NULL);
    tarn_device_ptr other = get(4 * MIB); /* not the one whose handle is gone */
    CHECK_OK(tarn_memset_async(0, other, 1, 4 * MIB, TARN_STREAM_NONE));
    put(other, 4 * MIB);
    CHECK_OK(tarn_resource_trim(resource, 0, &released));
    CHECK(sim_live_bytes() == 0);
    end();
}

TEST(cache_is_released_when_memory_is_scarce)
{
    if (!on_sim())
        skip();
    sim_configure("memory=16MiB");
    begin(64 * MIB);
    put(get(4 * MIB), 4 * MIB);
    put(get(6 * MIB), 6 * MIB);
    tarn_device_ptr large = get(16 * MIB);
    CHECK(sim_live_bytes() == 16 * MIB);
    put(large, 16 * MIB);
    end();
    sim_configure(NULL);
}

/* An importer may still have the memory open. */
TEST(exported_block_is_not_cached)
{
    struct tarn__segment_name name;
    size_t bytes;
    int file;

    if (!on_sim())
        skip();
    begin(64 * MIB);
    tarn_device_ptr block = get(2 * MIB);
    CHECK(tarn__segment_around(block, &name));
    CHECK_OK(tarn__segment_open(name.slot, name.generation, &bytes, &file));
    tarn__descriptor_close(file);
    put(block, 2 * MIB);
    CHECK(sim_live_bytes() == 0);
    end();
}

/* --- several streams write and verify patterns --- */

enum { THREADS = 4, ROUNDS = 60 };

static void *use_blocks(void *argument)
{
    const unsigned char mark = (unsigned char)(1 + *(int *)argument);
    unsigned char byte;
    tarn_stream stream;

    CHECK_OK(tarn_stream_create(0, true, &stream));
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = (size_t)(2 + 2 * (round % 3)) * MIB;
        tarn_device_ptr block = get(bytes);
        CHECK_OK(tarn_memset_async(0, block, mark, bytes, stream));
        CHECK_OK(tarn_memcpy_async(0, (uintptr_t)&byte, block + bytes - 1, 1, stream));
        CHECK_OK(tarn_stream_synchronize(0, stream));
        CHECK_EQUAL(mark, byte);
        /* this work is still queued when the block is freed */
        CHECK_OK(tarn_memset_async(0, block, mark, bytes, stream));
        put(block, bytes);
    }
    CHECK_OK(tarn_stream_destroy(0, stream));
    return NULL;
}

TEST(blocks_of_the_cache_have_no_work_of_other_streams)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];

    if (!on_sim())
        skip();
    begin(12 * MIB);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, use_blocks, &numbers[i]));
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    end();
}

/* --- the end of the resource; the last test, since some memory remains --- */

static void count_warning(void *data, const char *message)
{
    (void)message;
    ++*(int *)data;
}

/* The release of the resource tries twice to release cached blocks. */
TEST(cached_blocks_of_a_resource_that_ends_are_released_or_there_is_a_warning)
{
    static const struct {
        const char *fault;
        int warnings;
    } cases[] = {{NULL, 0}, {"fail=call:cuMemUnmap:1", 0}, {"fail=call:cuMemUnmap", 1}};

    if (!on_sim())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int warnings = 0;
        unsigned long long before = sim_live_bytes();
        begin(64 * MIB);
        put(get(4 * MIB), 4 * MIB);
        tarn_set_warning_handler(count_warning, &warnings);
        sim_configure(cases[i].fault);
        CHECK_OK(tarn_resource_release(resource));
        sim_configure(NULL);
        tarn_set_warning_handler(NULL, NULL);
        CHECK_EQUAL(cases[i].warnings, warnings);
        CHECK(cases[i].warnings > 0 || sim_live_bytes() == before);
    }
    test_may_leak_memory();
}
