/* Test the resource `exportable`: one per device, in units of 2 MiB, and it ends no
 * capture.
 *
 * A pool over it cannot be suspended, because that would release its segments.
 */
#define _GNU_SOURCE
#include "test.h"
#include "capturing.h"
#include "ipc/descriptor.h"
#include "ipc/segment.h"
#include <pthread.h>
#include <time.h>

enum { MIB = 1 << 20 };

static tarn_resource *resource;

static void begin(void)
{
    CHECK_OK(tarn_exportable_create(0, NULL, &resource));
}

static void end(void)
{
    CHECK_OK(tarn_resource_release(resource));
    if (on_sim())
        CHECK(sim_live_bytes() == 0);
}

TEST(exportable_is_one_resource_a_device)
{
    tarn_resource *again, *other;

    if (!on_sim())
        skip();
    begin();
    CHECK_OK(tarn_exportable_create(0, NULL, &again));
    CHECK_OK(tarn_exportable_create(1, NULL, &other));
    CHECK(again == resource);
    CHECK(other != resource);
    CHECK_EQUAL(1, tarn_resource_device(other));
    CHECK(tarn_resource_deallocate_synchronizes(resource));
    CHECK_OK(tarn_resource_release(again));
    CHECK_OK(tarn_resource_release(other));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_exportable_create(99, NULL, &other));
    end();
}

TEST(exportable_blocks_are_whole_allocations)
{
    tarn_device_ptr small = 0, large = 0, none = 77;
    tarn_ipc_counts counts;

    if (!on_sim())
        skip();
    begin();
    CHECK_OK(tarn_resource_allocate(resource, 1, 0, TARN_STREAM_NONE, &small));
    CHECK_OK(tarn_resource_allocate(resource, 5 * MIB, 0, TARN_STREAM_NONE, &large));
    CHECK(small % (2 * MIB) == 0);
    CHECK(sim_live_bytes() == 8 * MIB);
    tarn_ipc_get_counts(&counts);
    CHECK_EQUAL(2, counts.segments);
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(resource, SIZE_MAX - 100, 0,
                                                            TARN_STREAM_NONE, &none));
    CHECK(none == 77);
    CHECK_OK(tarn_resource_deallocate(resource, small, 1, 0, TARN_STREAM_NONE));
    CHECK_OK(tarn_resource_deallocate(resource, large, 5 * MIB, 0, TARN_STREAM_NONE));
    tarn_ipc_get_counts(&counts);
    CHECK_EQUAL(0, counts.segments);
    end();
}

static tarn_status allocate_and_free(void)
{
    tarn_device_ptr block;
    tarn_status status =
        tarn_resource_allocate(resource, 100, 0, TARN_STREAM_NONE, &block);

    if (status == TARN_OK)
        status = tarn_resource_deallocate(resource, block, 100, 0, TARN_STREAM_NONE);
    return status;
}

TEST(exportable_memory_comes_and_goes_while_a_stream_captures)
{
    begin();
    capture_survives(allocate_and_free);
    end();
}

TEST(exportable_memory_is_freed_when_the_first_try_failed)
{
    static const char *const faults[] = {
        "fail=call:cuMemAlloc:1", "fail=call:cuMemFree:1", "fail=call:cuMemRelease:1",
        "fail=call:cuMemUnmap:1"};

    if (!on_sim())
        skip();
    begin();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        tarn_device_ptr block;
        CHECK_OK(tarn_resource_allocate(resource, 100, 0, TARN_STREAM_NONE, &block));
        sim_configure(faults[i]);
        if (tarn_resource_deallocate(resource, block, 100, 0, TARN_STREAM_NONE) !=
            TARN_OK)
            CHECK_OK(tarn_resource_deallocate(resource, block, 100, 0, TARN_STREAM_NONE));
        CHECK(sim_faults() == 1);
        sim_configure(NULL);
    }
    end();
}

TEST(a_pool_over_exportable_memory_does_not_suspend_and_trims_free_memory)
{
    tarn_device_ptr block;
    tarn_resource *pool;
    tarn_ipc_counts counts;
    size_t released;

    begin();
    CHECK_OK(tarn_pool_create(0, resource, NULL, &pool));
    CHECK_OK(tarn_resource_allocate(pool, 100, 0, TARN_STREAM_DEFAULT, &block));
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_pool_suspend(pool, TARN_POOL_SUSPEND_KEEP));
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    tarn_ipc_get_counts(&counts);
    CHECK_EQUAL(1, counts.segments); /* it holds live memory */
    CHECK_OK(tarn_resource_deallocate(pool, block, 100, 0, TARN_STREAM_DEFAULT));
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    tarn_ipc_get_counts(&counts);
    CHECK_EQUAL(0, counts.segments);
    CHECK_OK(tarn_resource_release(pool));
    end();
}

TEST(exportable_needs_a_device_that_exports_descriptors)
{
    static const char *const lacks[] = {"attribute=102:0", "attribute=103:0"};

    if (!on_sim())
        skip();
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        sim_configure(lacks[i]);
        CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_exportable_create(0, NULL, &resource));
        CHECK_MESSAGE("device 0 cannot export memory as descriptors");
        sim_configure(NULL);
    }
}

/* --- a free while the memory is exported, and one that fails --- */

static struct tarn__segment_name name;
static tarn_status exported;

static void *export_it(void *unused)
{
    size_t bytes = 0;
    int file = -1;

    (void)unused;
    exported = tarn__segment_open(name.slot, name.generation, &bytes, &file);
    if (exported == TARN_OK && bytes != 2 * MIB)
        exported = TARN_BAD_FORMAT;
    tarn__descriptor_close(file);
    return NULL;
}

static void *free_it(void *block)
{
    CHECK_OK(tarn_resource_deallocate(resource, *(tarn_device_ptr *)block, 100, 0,
                                      TARN_STREAM_NONE));
    return NULL;
}

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* The lock keeps the export from its driver call, once it has found the segment. In
 * either order the export gets the memory, or an error that it was freed. It never gets
 * another block's memory. */
TEST(memory_that_is_being_exported_is_freed_after_that)
{
    pthread_t exporter, owner;
    tarn_device_ptr block;

    begin();
    CHECK_OK(tarn_resource_allocate(resource, 100, 0, TARN_STREAM_NONE, &block));
    CHECK(tarn__segment_around(block, &name));
    tarn__descriptor_lock();
    int no_exporter = pthread_create(&exporter, NULL, export_it, NULL);
    wait_a_little();
    int no_owner = pthread_create(&owner, NULL, free_it, &block);
    wait_a_little();
    tarn__descriptor_unlock();
    if (!no_exporter)
        pthread_join(exporter, NULL);
    if (!no_owner)
        pthread_join(owner, NULL);
    CHECK_EQUAL(0, no_exporter);
    CHECK_EQUAL(0, no_owner);
    CHECK(exported == TARN_OK || exported == TARN_NOT_FOUND);
    CHECK(!tarn__segment_around(block, &name));
    end();
}

TEST(memory_whose_free_failed_is_exported_as_long_as_its_handle_lives)
{
    static const struct {
        const char *fault;
        tarn_status exported;
    } cases[] = {{"fail=call:cuMemRelease:1", TARN_OK},
                 {"fail=call:cuMemUnmap:1", TARN_NOT_FOUND}};
    tarn_device_ptr block;

    if (!on_sim())
        skip();
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(tarn_resource_allocate(resource, 100, 0, TARN_STREAM_NONE, &block));
        CHECK(tarn__segment_around(block, &name));
        sim_configure(cases[i].fault);
        CHECK_STATUS(TARN_DRIVER_FAILURE,
                     tarn_resource_deallocate(resource, block, 100, 0, TARN_STREAM_NONE));
        sim_configure(NULL);
        export_it(NULL);
        CHECK_EQUAL(cases[i].exported, exported);
        CHECK_OK(tarn_resource_deallocate(resource, block, 100, 0, TARN_STREAM_NONE));
    }
    end();
}
