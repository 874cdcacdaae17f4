/* Host memory as a resource, which needs no driver. */
#define _GNU_SOURCE
#include "test.h"
#include <stdlib.h>

TEST(host_needs_no_driver)
{
    tarn_resource *host;
    tarn_device_ptr block;

    setenv("TARN_DRIVER", "/nowhere/libcuda.so.1", 1);
    CHECK_OK(tarn_host_create(&host));
    CHECK_EQUAL(TARN_DEVICE_NONE, tarn_resource_device(host));
    CHECK_TEXT("host", tarn_resource_name(host));
    CHECK_OK(tarn_resource_allocate(host, 1000, 4096, NULL, &block));
    CHECK_EQUAL(0, block % 4096);
    memset((void *)(uintptr_t)block, 0xab, 1000);
    CHECK_OK(tarn_resource_deallocate(host, block, 1000, 4096, NULL));
    CHECK_OK(tarn_resource_release(host));
}

TEST(host_is_one_a_process_for_as_long_as_somebody_has_it)
{
    tarn_resource *one, *two;
    tarn_device_ptr block;

    CHECK_OK(tarn_host_create(&one));
    CHECK_OK(tarn_host_create(&two));
    CHECK(one == two);
    CHECK_OK(tarn_resource_allocate(one, 10, 0, NULL, &block));
    CHECK_OK(tarn_resource_release(one));
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_resource_release(two));
    CHECK_OK(tarn_resource_deallocate(two, block, 10, 0, NULL));
    CHECK_OK(tarn_resource_release(two));
    CHECK_OK(tarn_host_create(&one)); /* a new one, after the end of the old */
    CHECK_EQUAL(0, tarn_resource_blocks_out(one));
    CHECK_OK(tarn_resource_release(one));
}

TEST(host_refuses_what_does_not_fit)
{
    tarn_resource *host;
    tarn_device_ptr block = 7;

    CHECK_OK(tarn_host_create(&host));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(host, SIZE_MAX / 4, 0, NULL, &block));
    CHECK_SAYS("host: no memory for");
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(host, 1, (size_t)1 << 62, NULL, &block));
    CHECK_EQUAL(7, block);
    CHECK_OK(tarn_resource_release(host));
}
