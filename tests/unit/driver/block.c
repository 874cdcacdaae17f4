/* Test the driver's data about a block: each kind of memory, and invalid blocks. */
#define _GNU_SOURCE
#include "test.h"
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
enum { PINNED_TAIL = 512 }; /* which AddressSanitizer forbids */
#else
enum { PINNED_TAIL = 0 };
#endif

enum { BYTES = 10000 };

__attribute__((constructor)) static void ask_for_two_devices(void)
{
    setenv("TARN_SIM", "devices=2", 1);
}

typedef tarn_status create_fn(int device, tarn_resource **out);

static tarn_status create_pool(int device, tarn_resource **out)
{
    return tarn_pool_create(device, NULL, NULL, out);
}

static tarn_status create_async(int device, tarn_resource **out)
{
    return tarn_async_create(device, NULL, out);
}

static tarn_device_ptr take(tarn_resource *resource, size_t bytes)
{
    tarn_device_ptr block = 0;

    CHECK_OK(tarn_resource_allocate(resource, bytes, 0, TARN_STREAM_DEFAULT, &block));
    CHECK_OK(tarn_driver_synchronize(tarn_resource_device(resource)));
    return block;
}

static void free_block(tarn_resource *resource, tarn_device_ptr block, size_t bytes)
{
    CHECK_OK(tarn_resource_deallocate(resource, block, bytes, 0, TARN_STREAM_DEFAULT));
}

/* Adjacent blocks, so that the memory behind one is mapped, too. */
static void check_kind(create_fn *create, bool end_is_known, size_t tail)
{
    tarn_status beyond = end_is_known ? TARN_INVALID_ARGUMENT : TARN_OK;
    tarn_resource *resource;

    CHECK_OK(create(0, &resource));
    tarn_device_ptr block = take(resource, BYTES), next = take(resource, BYTES);
    CHECK_OK(tarn_driver_check_allocation(0, block, BYTES));
    CHECK_OK(tarn_driver_check_allocation(0, block + 1, BYTES - 1));
    CHECK_OK(tarn_driver_check_allocation(0, block, 0));
    CHECK_STATUS(beyond, tarn_driver_check_allocation(0, block, BYTES + 1 + tail));
    CHECK_STATUS(beyond, tarn_driver_check_allocation(0, block + BYTES - 1, 2 + tail));
    CHECK_STATUS(beyond, tarn_driver_check_allocation(0, block, SIZE_MAX));
    free_block(resource, block, BYTES);
    free_block(resource, next, BYTES);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(block_that_reaches_beyond_its_allocation_is_rejected)
{
    check_kind(tarn_cuda_create, true, 0);
    check_kind(create_async, true, 0);
    check_kind(tarn_managed_create, true, 0);
    check_kind(tarn_pinned_create, true, PINNED_TAIL);
}

TEST(rejection_has_the_numbers)
{
    tarn_resource *resource;
    char wanted[128];

    CHECK_OK(tarn_cuda_create(0, &resource));
    tarn_device_ptr block = take(resource, 4000);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_driver_check_allocation(0, block + 96, 8000));
    snprintf(wanted, sizeof wanted, "8000 bytes at 0x%llx extend beyond", block + 96);
    CHECK_MESSAGE(wanted);
    CHECK_MESSAGE("has 3904 bytes from that address");
    free_block(resource, block, 4000);
    CHECK_OK(tarn_resource_release(resource));
}

/* The driver reports the handle with which an address was mapped, not the block. */
TEST(block_of_memory_that_was_mapped_in_parts_is_not_judged)
{
    enum { LARGE = 256 << 20 };
    tarn_resource *pool;

    check_kind(create_pool, false, 0);
    CHECK_OK(create_pool(0, &pool));
    tarn_device_ptr block = take(pool, LARGE);
    CHECK_OK(tarn_driver_check_allocation(0, block, LARGE));
    free_block(pool, block, LARGE);
    CHECK_OK(tarn_resource_release(pool));
}

TEST(memory_that_the_driver_does_not_know_is_not_judged)
{
    char host[64];

    CHECK_OK(tarn_driver_check_allocation(0, (uintptr_t)host, sizeof host));
    CHECK_OK(tarn_driver_check_allocation(0, 8, SIZE_MAX));
}

static void check_another_device(create_fn *create, tarn_status wanted)
{
    tarn_resource *resource;

    CHECK_OK(create(1, &resource));
    tarn_device_ptr block = take(resource, BYTES);
    CHECK_OK(tarn_driver_check_allocation(1, block, BYTES));
    CHECK_STATUS(wanted, tarn_driver_check_allocation(0, block, BYTES));
    if (wanted != TARN_OK)
        CHECK_MESSAGE("are memory of device 1, not of device 0");
    free_block(resource, block, BYTES);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(memory_of_another_device_is_rejected_unless_it_is_host_memory)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    if (info.device_count < 2)
        skip();
    check_another_device(tarn_cuda_create, TARN_INVALID_ARGUMENT);
    check_another_device(create_pool, TARN_INVALID_ARGUMENT);
    check_another_device(create_async, TARN_INVALID_ARGUMENT);
    check_another_device(tarn_managed_create, TARN_OK);
    check_another_device(tarn_pinned_create, TARN_OK);
}

TEST(block_of_no_device_is_rejected)
{
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_driver_check_allocation(77, 4096, 1));
}

static void check_type(create_fn *create, tarn_memory_type wanted)
{
    tarn_memory_type type = TARN_MEMORY_UNKNOWN;
    tarn_resource *resource;
    int device = 7;

    CHECK_OK(create(0, &resource));
    tarn_device_ptr block = take(resource, BYTES);
    CHECK_OK(tarn_driver_memory_type(0, block + BYTES - 1, &type, &device));
    CHECK_EQUAL(wanted, type);
    CHECK_EQUAL(0, device);
    free_block(resource, block, BYTES);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(memory_has_a_type)
{
    check_type(tarn_cuda_create, TARN_MEMORY_DEVICE);
    check_type(create_pool, TARN_MEMORY_DEVICE);
    check_type(create_async, TARN_MEMORY_DEVICE);
    check_type(tarn_managed_create, TARN_MEMORY_MANAGED);
    check_type(tarn_pinned_create, TARN_MEMORY_HOST);
}

TEST(type_of_freed_and_of_pageable_memory_is_unknown)
{
    tarn_memory_type type = TARN_MEMORY_DEVICE;
    tarn_resource *cuda;
    int device = 7;
    char host[64];

    CHECK_OK(tarn_cuda_create(0, &cuda));
    tarn_device_ptr block = take(cuda, BYTES);
    free_block(cuda, block, BYTES);
    CHECK_OK(tarn_resource_release(cuda));
    CHECK_OK(tarn_driver_memory_type(0, block, &type, &device));
    CHECK_EQUAL(TARN_MEMORY_UNKNOWN, type);
    CHECK_EQUAL(0, device);
    type = TARN_MEMORY_DEVICE;
    CHECK_OK(tarn_driver_memory_type(0, (uintptr_t)host, &type, &device));
    CHECK_EQUAL(TARN_MEMORY_UNKNOWN, type);
}

TEST(type_into_null_and_of_no_device_is_rejected)
{
    tarn_memory_type type = TARN_MEMORY_HOST;
    int device = 7;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_driver_memory_type(0, 4096, NULL, &device));
    CHECK_MESSAGE("type_out is NULL");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_driver_memory_type(0, 4096, &type, NULL));
    CHECK_MESSAGE("device_out is NULL");
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_driver_memory_type(77, 4096, &type, &device));
    CHECK(type == TARN_MEMORY_HOST && device == 7);
}
