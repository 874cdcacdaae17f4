/* Test the data about a device, and plain operations on it. */
#include "test.h"

TEST(device_info_is_filled)
{
    tarn_driver_info driver;
    tarn_device_info info;

    CHECK_OK(tarn_driver_get_info(&driver));
    for (int device = 0; device < driver.device_count; device++) {
        CHECK_OK(tarn_driver_device_info(device, &info));
        CHECK(info.name[0] != 0);
        CHECK_EQUAL(40, strlen(info.uuid));
        CHECK(strncmp(info.uuid, "GPU-", 4) == 0);
        CHECK(info.compute_major >= 5);
        CHECK(info.total_bytes > 0 && info.free_bytes <= info.total_bytes);
        CHECK(info.has_memory_pools);
    }
}

TEST(results_into_null_are_rejected)
{
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_driver_get_info(NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_driver_device_info(0, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_driver_current_device(NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_create(0, true, NULL));
}

TEST(copy_and_fill_of_zero_bytes_make_no_call)
{
    CHECK_OK(tarn_memcpy_async(0, 0, 0, 0, TARN_STREAM_DEFAULT));
    CHECK_OK(tarn_memset_async(0, 0, 0, 0, TARN_STREAM_DEFAULT));
}

TEST(fill_and_copy_reach_every_byte)
{
    enum { BYTES = 4099 };
    unsigned char copied[BYTES];
    tarn_resource *cuda;
    tarn_device_ptr block;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_resource_allocate(cuda, BYTES, 0, NULL, &block));
    CHECK_OK(tarn_memset_async(0, block, 0x7e, BYTES, TARN_STREAM_LEGACY));
    CHECK_OK(tarn_memset_async(0, block + 1, 0x01, 1, TARN_STREAM_LEGACY));
    CHECK_OK(tarn_memcpy_async(0, (uintptr_t)copied, block, BYTES, TARN_STREAM_NONE));
    CHECK(copied[0] == 0x7e && copied[1] == 0x01 && copied[2] == 0x7e);
    CHECK_EQUAL(0x7e, copied[BYTES - 1]);
    CHECK_OK(tarn_resource_deallocate(cuda, block, BYTES, 0, NULL));
    CHECK_OK(tarn_resource_release(cuda));
}

enum { FILLED = 4099 };

/* One stream fills a block, another one copies it once it has waited. */
static void fill_wait_and_copy(void)
{
    unsigned char copied[FILLED] = {0};
    tarn_stream writer, reader;
    tarn_resource *cuda;
    tarn_device_ptr block;

    CHECK_OK(tarn_stream_create(0, true, &writer));
    CHECK_OK(tarn_stream_create(0, true, &reader));
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_resource_allocate(cuda, FILLED, 0, NULL, &block));
    CHECK_OK(tarn_memset_async(0, block, 0x7e, FILLED, writer));
    CHECK_OK(tarn_stream_wait(0, reader, writer));
    CHECK_OK(tarn_memcpy_async(0, (uintptr_t)copied, block, FILLED, reader));
    CHECK_OK(tarn_stream_synchronize(0, reader));
    CHECK_EQUAL(0x7e, copied[0]);
    CHECK_EQUAL(0x7e, copied[FILLED - 1]);
    CHECK_OK(tarn_resource_deallocate(cuda, block, FILLED, 0, NULL));
    CHECK_OK(tarn_resource_release(cuda));
    CHECK_OK(tarn_stream_destroy(0, writer));
    CHECK_OK(tarn_stream_destroy(0, reader));
}

TEST(stream_waits_for_another_one)
{
    if (!on_sim())
        skip();
    seeds(20, fill_wait_and_copy);
}

TEST(wait_of_a_stream_for_itself_and_of_default_streams_is_accepted)
{
    CHECK_OK(tarn_stream_wait(0, TARN_STREAM_LEGACY, TARN_STREAM_LEGACY));
    CHECK_OK(tarn_stream_wait(0, TARN_STREAM_DEFAULT, TARN_STREAM_PER_THREAD));
    CHECK_OK(tarn_stream_wait(0, TARN_STREAM_NONE, TARN_STREAM_NONE));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_stream_wait(77, TARN_STREAM_LEGACY, TARN_STREAM_LEGACY));
}
