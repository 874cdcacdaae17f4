/* Test host memory that the device accesses by itself, beyond the conformance suite. */
#define _GNU_SOURCE
#include "capturing.h"
#include "driver_calls.h"
#include "test.h"
#include <stdlib.h>

/* Before the driver is opened. A GPU may have the access or not. */
__attribute__((constructor)) static void ask_for_pageable_access(void)
{
    setenv("TARN_SIM", "attribute=88:1,memory=64MiB", 1);
}

static tarn_resource *system_with(bool advise, size_t headroom_bytes)
{
    tarn_system_options options = {sizeof options, advise, headroom_bytes};
    tarn_resource *resource = NULL;
    tarn_status status = tarn_system_create(0, &options, &resource);

    if (status == TARN_NOT_SUPPORTED && !on_sim())
        skip();
    CHECK_OK(status);
    return resource;
}

TEST(system_blocks_are_memory_of_the_host_that_the_device_copies)
{
    tarn_resource *resource = system_with(false, 0);
    tarn_device_ptr block;

    CHECK_TEXT("system", tarn_resource_name(resource));
    CHECK_OK(tarn_resource_allocate(resource, 1000, 0, NULL, &block));
    char *host = (char *)(uintptr_t)block;
    for (int i = 0; i < 500; i++)
        host[i] = (char)i;
    CHECK_OK(tarn_memcpy_async(0, block + 500, block, 500, NULL));
    CHECK_OK(tarn_stream_synchronize(0, NULL));
    CHECK_EQUAL(0, memcmp(host, host + 500, 500));
    CHECK_OK(tarn_resource_deallocate(resource, block, 1000, 0, NULL));
    CHECK_OK(tarn_resource_release(resource));
}

TEST(system_without_advice_is_one_object_for_each_device)
{
    tarn_resource *one = system_with(false, 0), *two = system_with(false, 0);
    tarn_resource *other = system_with(true, 0);

    CHECK(tarn_resource_is_equal(one, two) && !tarn_resource_is_equal(one, other));
    CHECK(tarn_resource_deallocate_synchronizes(one));
    CHECK(tarn_resource_supports_no_stream(other));
    CHECK(!tarn_resource_supports_memory_info(one));
    CHECK_OK(tarn_resource_release(one));
    CHECK_OK(tarn_resource_release(two));
    CHECK_OK(tarn_resource_release(other));
}

/* More than the device has, less the headroom: one part is advised to the host. */
TEST(system_advises_blocks_of_any_size)
{
    tarn_resource *resource = system_with(true, (size_t)1 << 20);
    static const size_t sizes[] = {1, 5000, (size_t)63 << 20, (size_t)200 << 20};
    tarn_device_ptr block;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK_OK(tarn_resource_allocate(resource, sizes[i], 0, NULL, &block));
        CHECK_OK(tarn_resource_deallocate(resource, block, sizes[i], 0, NULL));
    }
    CHECK_OK(tarn_resource_release(resource));
    resource = system_with(true, SIZE_MAX); /* the headroom exceeds the device */
    CHECK_OK(tarn_resource_allocate(resource, 5000, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(resource, block, 5000, 0, NULL));
    CHECK_OK(tarn_resource_release(resource));
}

TEST(system_reports_a_size_that_the_host_does_not_have)
{
    tarn_resource *resource = system_with(false, 0);
    tarn_device_ptr block = 7;

    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(resource, SIZE_MAX / 2, 0, NULL, &block));
    CHECK_MESSAGE("system: ");
    CHECK_EQUAL(7, block);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(system_rejects_invalid_options)
{
    tarn_system_options options = {sizeof options, false, 1};
    tarn_resource *resource = (tarn_resource *)&options;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_system_create(0, NULL, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_system_create(1000, NULL, &resource));
    if (on_sim()) {
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_system_create(0, &options, &resource));
        CHECK_MESSAGE("headroom_bytes 1 requires advise");
    }
    options.size = 3;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_system_create(0, &options, &resource));
    CHECK(resource == (tarn_resource *)&options);
}

static tarn_resource *used;

static tarn_status allocate_and_free(void)
{
    tarn_device_ptr block;
    tarn_status status = tarn_resource_allocate(used, 5000, 0, NULL, &block);

    return status == TARN_OK ? tarn_resource_deallocate(used, block, 5000, 0, NULL)
                             : status;
}

TEST(system_ends_no_capture)
{
    used = system_with(false, 0);
    capture_survives(allocate_and_free);
    CHECK_OK(tarn_resource_release(used));
}

static void set(void *flag)
{
    *(bool *)flag = true;
}

/* In the seeded mode queued work runs when a thread waits for it. */
TEST(system_frees_after_the_work_of_the_device)
{
    int (*launch)(tarn_stream stream, void (*function)(void *), void *data);
    tarn_resource *resource;
    tarn_device_ptr block;
    tarn_stream stream;
    bool is_done = false;

    if (!on_sim())
        skip();
    sim_configure("attribute=88:1,mode=seeded");
    resource = system_with(false, 0);
    find_call("cuLaunchHostFunc", &launch);
    CHECK_OK(tarn_stream_create(0, true, &stream));
    CHECK_OK(tarn_resource_allocate(resource, 4096, 0, NULL, &block));
    CHECK_EQUAL(0, launch(stream, set, &is_done));
    CHECK(!is_done);
    CHECK_OK(tarn_resource_deallocate(resource, block, 4096, 0, NULL));
    CHECK(is_done);
    CHECK_OK(tarn_stream_destroy(0, stream));
    CHECK_OK(tarn_resource_release(resource));
}

#define WORKS_IN_THE_END(call) \
    do {                       \
        if ((call) != TARN_OK) \
            CHECK_OK(call);    \
    } while (0)

static void live(bool advise)
{
    tarn_system_options options = {sizeof options, advise, advise ? 4096 : 0};
    tarn_resource *resource = NULL;
    tarn_device_ptr block = 77;

    WORKS_IN_THE_END(tarn_system_create(0, &options, &resource));
    if (tarn_resource_allocate(resource, 5000, 65536, NULL, &block) != TARN_OK) {
        CHECK(block == 77 && tarn_resource_live_blocks(resource) == 0);
        CHECK_OK(tarn_resource_allocate(resource, 5000, 65536, NULL, &block));
    }
    CHECK_EQUAL(0, block % 65536);
    WORKS_IN_THE_END(tarn_resource_deallocate(resource, block, 5000, 65536, NULL));
    CHECK_EQUAL(0, tarn_resource_live_blocks(resource));
    CHECK_OK(tarn_resource_release(resource));
}

/* As torture(), whose configuration has no pageable access. */
TEST(system_survives_any_driver_call_failing)
{
    unsigned long long before, seen;

    if (!on_sim())
        skip();
    before = sim_live_bytes();
    for (int advise = 0; advise < 2; advise++) {
        for (unsigned nth = 1;; nth++) {
            char options[64];
            snprintf(options, sizeof options, "attribute=88:1,fail=nth:%u", nth);
            sim_configure(options);
            live(advise);
            seen = sim_faults();
            if (seen == 0)
                break;
        }
    }
    sim_configure(NULL);
    CHECK_EQUAL(before, sim_live_bytes());
}
