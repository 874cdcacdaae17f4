/* Check that no capture ends because a resource is used meanwhile. */
#include "capturing.h"
#include "test.h"

static tarn_resource *resource;
static tarn_device_ptr block; /* from before the capture */

static tarn_status allocate_and_free(void)
{
    tarn_device_ptr another;
    size_t free_bytes, total_bytes;
    tarn_status status = tarn_resource_allocate(resource, 5000, 0, NULL, &another);

    if (status == TARN_OK)
        status = tarn_resource_deallocate(resource, another, 5000, 0, NULL);
    if (status == TARN_OK && tarn_resource_supports_memory_info(resource))
        status = tarn_resource_memory_info(resource, NULL, &free_bytes, &total_bytes);
    return status;
}

static tarn_status free_block(void)
{
    tarn_status status = tarn_resource_deallocate(resource, block, 5000, 0, NULL);

    if (status == TARN_OK)
        status = tarn_resource_allocate(resource, 5000, 0, NULL, &block);
    return status;
}

static void use_in_captures(tarn_status (*create)(int device, tarn_resource **out))
{
    CHECK_OK(create(0, &resource));
    CHECK_OK(tarn_resource_allocate(resource, 5000, 0, NULL, &block));
    capture_survives(allocate_and_free);
    capture_survives(free_block);
    CHECK_OK(tarn_resource_deallocate(resource, block, 5000, 0, NULL));
    CHECK_OK(tarn_resource_release(resource));
}

TEST(cuda_ends_no_capture)
{
    use_in_captures(tarn_cuda_create);
}

TEST(managed_ends_no_capture)
{
    use_in_captures(tarn_managed_create);
}

TEST(pinned_ends_no_capture)
{
    use_in_captures(tarn_pinned_create);
}

static tarn_status make_and_trim_an_async(void)
{
    tarn_resource *async;
    size_t released;
    tarn_status status = tarn_async_create(0, NULL, &async);

    if (status == TARN_OK)
        status = tarn_resource_trim(async, 0, &released);
    if (status == TARN_OK)
        status = tarn_resource_release(async);
    return status;
}

/* Its memory belongs to a stream, and the default one is part of a blocking capture. */
TEST(async_ends_no_capture_where_it_touches_no_stream)
{
    capture_survives(make_and_trim_an_async);
}
