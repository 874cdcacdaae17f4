/* Test a resource as an allocator of counted memory: host and pinned memory, not device
 * memory. */
#include "test.h"

static NRT_ExternalAllocator *make_allocator(tarn_resource *resource)
{
    NRT_ExternalAllocator *allocator;

    CHECK_OK(tarn_resource_allocator_create(resource, &allocator));
    return allocator;
}

TEST(counted_memory_comes_from_a_resource)
{
    tarn_resource *host, *limiter;
    tarn_runtime *runtime;

    CHECK_OK(tarn_host_create(&host));
    CHECK_OK(tarn_limiter_create(host, 100000, &limiter));
    NRT_ExternalAllocator *allocator = make_allocator(limiter);
    CHECK_OK(tarn_runtime_create("limited", &runtime));
    CHECK_OK(tarn_runtime_set_allocator(runtime, allocator));
    const NRT_api_functions *api = tarn_runtime_api(runtime);
    NRT_MemInfo *small = api->allocate(10), *large = api->allocate(50000);
    CHECK(small != NULL && large != NULL);
    memset(api->get_data(large), 1, 50000);
    CHECK(!api->allocate(60000));
    CHECK_MESSAGE("runtime limited cannot allocate 60000 bytes");
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_resource_allocator_release(allocator));
    CHECK_MESSAGE("has 2 live blocks");
    api->release(small);
    api->release(large);
    tarn_runtime_trim(runtime);
    CHECK_EQUAL(0, tarn_resource_live_blocks(limiter));
    CHECK_OK(tarn_runtime_release(runtime));
    CHECK_OK(tarn_resource_allocator_release(allocator));
    CHECK_OK(tarn_resource_release(limiter));
    CHECK_OK(tarn_resource_release(host));
}

TEST(allocator_behaves_as_malloc_for_no_bytes_and_for_too_many_f28)
{
    tarn_resource *host;

    CHECK_OK(tarn_host_create(&host));
    NRT_ExternalAllocator *allocator = make_allocator(host);
    void *one = allocator->malloc(0, allocator->opaque_data);
    void *other = allocator->malloc(0, allocator->opaque_data);
    CHECK(one && other && one != other);
    CHECK_EQUAL(0, (uintptr_t)one % 16);
    CHECK(!allocator->malloc(SIZE_MAX, allocator->opaque_data));
    CHECK(!allocator->malloc(SIZE_MAX / 2, allocator->opaque_data));
    allocator->free(NULL, allocator->opaque_data);
    allocator->free(one, allocator->opaque_data);
    allocator->free(other, allocator->opaque_data);
    CHECK_OK(tarn_resource_allocator_release(allocator));
    CHECK_OK(tarn_resource_release(host));
}

TEST(one_block_may_be_pinned)
{
    tarn_resource *pinned;
    tarn_meminfo *meminfo;

    CHECK_OK(tarn_pinned_create(0, &pinned));
    NRT_ExternalAllocator *allocator = make_allocator(pinned);
    tarn_meminfo_options options = {
        .size = sizeof options, .bytes = 1000, .alignment = 4096, .allocator = allocator};
    CHECK_OK(tarn_meminfo_allocate(tarn_runtime_default(), &options, &meminfo));
    CHECK_EQUAL(0, (uintptr_t)tarn_meminfo_data(meminfo) % 4096);
    memset(tarn_meminfo_data(meminfo), 1, 1000);
    CHECK_EQUAL(1, tarn_resource_live_blocks(pinned));
    tarn_meminfo_release(meminfo);
    void *none = allocator->malloc(0, allocator->opaque_data);
    CHECK(none);
    allocator->free(none, allocator->opaque_data);
    allocator->free(NULL, allocator->opaque_data);
    CHECK_EQUAL(0, tarn_resource_live_blocks(pinned));
    CHECK_OK(tarn_resource_allocator_release(allocator));
    CHECK_OK(tarn_resource_release(pinned));
}

/* A resource of another device: its addresses are invalid here. (The simulator's are the
 * host's own.) */
static tarn_status far_allocate(void *self, size_t bytes, size_t alignment,
                                tarn_stream stream, tarn_device_ptr *out)
{
    (void)bytes;
    (void)alignment;
    (void)stream;
    ++*(int *)self;
    *out = 0x1000;
    return TARN_OK;
}

static tarn_status far_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                  size_t alignment, tarn_stream stream)
{
    (void)block;
    (void)bytes;
    (void)alignment;
    (void)stream;
    --*(int *)self;
    return TARN_OK;
}

static void far_destroy(void *self)
{
    (void)self;
}

TEST(memory_that_the_host_cannot_reach_is_rejected)
{
    static const tarn_resource_ops far = {.size = sizeof far,
                                          .name = "far",
                                          .allocate = far_allocate,
                                          .deallocate = far_deallocate,
                                          .destroy = far_destroy};
    tarn_resource *resource;
    NRT_ExternalAllocator *allocator = NULL;
    int out = 0;

    CHECK_OK(tarn_resource_create(&far, &out, TARN_DEVICE_NONE, &resource));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_allocator_create(resource, &allocator));
    CHECK_MESSAGE("resource far returns memory that the host cannot access");
    CHECK(allocator == NULL);
    CHECK_EQUAL(0, out);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_resource_allocator_create(NULL, &allocator));
    CHECK_OK(tarn_resource_allocator_release(NULL));
    CHECK_OK(tarn_resource_release(resource));
}
