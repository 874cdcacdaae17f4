/* Test cuda, managed and pinned, beyond the conformance suite. */
#include "test.h"

typedef tarn_status create_fn(int device, tarn_resource **out);

static const struct kind {
    const char *name;
    create_fn *create;
    bool has_memory_info;
} kinds[] = {
    {"cuda", tarn_cuda_create, true},
    {"managed", tarn_managed_create, true},
    {"pinned", tarn_pinned_create, false},
};

#define EACH_KIND(kind) for (const struct kind *kind = kinds; kind < kinds + 3; kind++)

TEST(resource_of_a_device_is_one_object)
{
    EACH_KIND(kind)
    {
        tarn_resource *one, *two;
        tarn_device_ptr block;
        CHECK_OK(kind->create(0, &one));
        CHECK_OK(kind->create(0, &two));
        CHECK(one == two && tarn_resource_is_equal(one, two));
        CHECK_OK(tarn_resource_allocate(one, 1000, 0, NULL, &block));
        CHECK_OK(tarn_resource_release(one));
        CHECK_STATUS(TARN_STILL_IN_USE, tarn_resource_release(two));
        CHECK_OK(tarn_resource_deallocate(two, block, 1000, 0, NULL));
        CHECK_OK(tarn_resource_release(two));
    }
}

TEST(resource_reports_its_properties)
{
    EACH_KIND(kind)
    {
        tarn_resource *resource, *cuda;
        CHECK_OK(kind->create(0, &resource));
        CHECK_OK(tarn_cuda_create(0, &cuda));
        CHECK_TEXT(kind->name, tarn_resource_name(resource));
        CHECK_EQUAL(0, tarn_resource_device(resource));
        CHECK(tarn_resource_deallocate_synchronizes(resource));
        CHECK(!tarn_resource_supports_streams(resource));
        CHECK_EQUAL(kind->has_memory_info, tarn_resource_supports_memory_info(resource));
        CHECK_EQUAL(kind == kinds, tarn_resource_is_equal(resource, cuda));
        CHECK_OK(tarn_resource_release(cuda));
        CHECK_OK(tarn_resource_release(resource));
    }
}

TEST(resource_of_no_device_is_rejected)
{
    EACH_KIND(kind)
    {
        tarn_resource *resource = NULL;
        CHECK_STATUS(TARN_INVALID_ARGUMENT, kind->create(-1, &resource));
        CHECK_STATUS(TARN_INVALID_ARGUMENT, kind->create(99, &resource));
        CHECK_MESSAGE(kind->name);
        CHECK(resource == NULL);
    }
}

TEST(resource_names_the_call_and_the_bytes_when_the_driver_fails)
{
    tarn_resource *resource;
    tarn_device_ptr block = 7;

    CHECK_OK(tarn_cuda_create(0, &resource));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(resource, (size_t)1 << 50, 0, NULL, &block));
    CHECK_MESSAGE("cuda: cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY (2)");
    CHECK_MESSAGE("1125899906842624 bytes on device 0");
    CHECK_EQUAL(2, tarn_error_last()->native);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(resources_of_two_devices_do_not_take_each_others_blocks)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    if (info.device_count < 2)
        skip();
    EACH_KIND(kind)
    {
        tarn_resource *one, *two;
        tarn_device_ptr mine, block;
        CHECK_OK(kind->create(0, &one));
        CHECK_OK(kind->create(1, &two));
        CHECK(!tarn_resource_is_equal(one, two));
        CHECK_OK(tarn_resource_allocate(one, 1000, 0, NULL, &block));
        CHECK_OK(tarn_resource_allocate(two, 1000, 0, NULL, &mine));
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_deallocate(two, block, 1000, 0, NULL));
        CHECK_OK(tarn_resource_deallocate(one, block, 1000, 0, NULL));
        CHECK_OK(tarn_resource_deallocate(two, mine, 1000, 0, NULL));
        CHECK_OK(tarn_resource_release(one));
        CHECK_OK(tarn_resource_release(two));
    }
}

TEST(host_can_write_managed_and_pinned_memory)
{
    for (const struct kind *kind = kinds + 1; kind < kinds + 3; kind++) {
        tarn_resource *resource;
        tarn_device_ptr block;
        unsigned char copy[100];
        CHECK_OK(kind->create(0, &resource));
        CHECK_OK(tarn_resource_allocate(resource, 100, 4096, NULL, &block));
        memset((void *)(uintptr_t)block, 0x5a, 100);
        CHECK_OK(tarn_memcpy_async(0, (uintptr_t)copy, block, 100, TARN_STREAM_NONE));
        CHECK(copy[0] == 0x5a && copy[99] == 0x5a);
        CHECK_OK(tarn_resource_deallocate(resource, block, 100, 4096, NULL));
        CHECK_OK(tarn_resource_release(resource));
    }
}

TEST(free_memory_shrinks_by_live_blocks)
{
    enum { BYTES = 64 << 20 };
    tarn_resource *resource;
    tarn_device_ptr block;
    size_t before, during, after, total;

    CHECK_OK(tarn_cuda_create(0, &resource));
    CHECK_OK(tarn_resource_memory_info(resource, NULL, &before, &total));
    CHECK_OK(tarn_resource_allocate(resource, BYTES, 0, NULL, &block));
    CHECK_OK(tarn_resource_memory_info(resource, NULL, &during, &total));
    CHECK_OK(tarn_resource_deallocate(resource, block, BYTES, 0, NULL));
    CHECK_OK(tarn_resource_memory_info(resource, NULL, &after, &total));
    CHECK(before - during >= BYTES && after > during);
    CHECK(before <= total);
    CHECK_OK(tarn_resource_release(resource));
}
