/* Test the driver's pools: stream order, reuse, thresholds, attributes. */
#include "driver.h"
#include <sched.h>
#include <stdatomic.h>

enum { MIB = 1 << 20 };
#define PIECE ((size_t)32 << 20) /* the unit of a pool's growth */

static void wait_at(void *data)
{
    while (!atomic_load((atomic_bool *)data))
        sched_yield();
}

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
    uint64_t value = 0;

    CU(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static CUmemoryPool new_pool(size_t max_bytes)
{
    CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        .maxSize = max_bytes,
    };
    CUmemoryPool pool;

    CU(cuMemPoolCreate(&pool, &properties));
    return pool;
}

TEST(pool_memory_is_freed_in_stream_order)
{
    CUdeviceptr first, own, other;
    CUstream stream, second;
    atomic_bool open = false;
    CUmemoryPool pool;

    use_device(0);
    pool = new_pool(0);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CU(cuMemAllocFromPoolAsync(&first, MIB, pool, stream));
    CU(cuLaunchHostFunc(stream, wait_at, &open));
    CU(cuMemFreeAsync(first, stream));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(first, stream));
    CU(cuMemAllocFromPoolAsync(&other, MIB, pool, second));
    CHECK(other != first); /* the first stream still uses it */
    CU(cuMemAllocFromPoolAsync(&own, MIB, pool, stream));
    CHECK(own == first); /* but for that stream it is free */
    CU(cuStreamQuery(second));
    atomic_store(&open, true);
    CU(cuMemFreeAsync(own, stream));
    CU(cuMemFreeAsync(other, second));
    CU(cuCtxSynchronize());
    CU(cuMemPoolDestroy(pool));
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(second));
}

TEST(pool_full_makes_a_stream_wait_for_the_free_of_another_stream)
{
    CUstream stream, second;
    CUdeviceptr first, other;
    atomic_bool open = false;
    CUmemoryPool pool;
    int never = 0;

    use_device(0);
    pool = new_pool(2 * MIB); /* which is a unit */
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CU(cuMemAllocFromPoolAsync(&first, PIECE, pool, stream));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&other, MIB, pool, second));
    CU(cuLaunchHostFunc(stream, wait_at, &open));
    CU(cuMemFreeAsync(first, stream));
    CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                             &never));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&other, MIB, pool, second));
    never = 1;
    CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                             &never));
    CU(cuMemAllocFromPoolAsync(&other, MIB, pool, second));
    CU_IS(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
    atomic_store(&open, true);
    CU(cuStreamSynchronize(second));
    CU(cuMemFreeAsync(other, second));
    CU(cuMemPoolDestroy(pool));
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(second));
}

TEST(pool_synchronization_releases_memory_above_the_threshold)
{
    uint64_t threshold = 2 * PIECE + 1, zero = 0;
    CUdeviceptr blocks[4];
    CUmemoryPool pool;

    use_device(0);
    pool = new_pool(0);
    CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    for (int i = 0; i < 4; i++)
        CU(cuMemAllocFromPoolAsync(&blocks[i], PIECE, pool, NULL));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 4 * PIECE);
    for (int i = 0; i < 4; i++)
        CU(cuMemFreeAsync(blocks[i], NULL));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 4 * PIECE);
    CU(cuStreamSynchronize(NULL));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 3 * PIECE);
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 4 * PIECE);
    CU(cuMemPoolTrimTo(pool, 0));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero));
    CU(cuMemPoolDestroy(pool));
}

TEST(pool_reserves_and_releases_pieces)
{
    CUdeviceptr small, large, base;
    CUmemoryPool pool;
    size_t bytes;

    use_device(0);
    pool = new_pool(0);
    CU(cuMemAllocFromPoolAsync(&small, 1000, pool, NULL));
    CU(cuMemAllocFromPoolAsync(&large, 100 * MIB, pool, NULL));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 5 * PIECE);
    CU(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, small + 500));
    CU(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, small + 500));
    CHECK(base == small && bytes == PIECE);
    CU(cuMemFreeAsync(large, NULL));
    CU(cuStreamSynchronize(NULL));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == PIECE);
    CU(cuMemFreeAsync(small, NULL));
    CU(cuStreamSynchronize(NULL));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    CU(cuMemPoolDestroy(pool));
}

/* The last megabytes of a device are less than a unit, and are available. */
TEST(pool_reserves_the_rest_of_the_device_below_a_piece)
{
    CUdeviceptr first, second;
    CUmemoryPool pool;

    use_device(0);
    CHECK_EQUAL(0, driver.configure("memory=48MiB"));
    pool = new_pool(0);
    CU(cuMemAllocFromPoolAsync(&first, 20 * MIB, pool, NULL));
    CU(cuMemAllocFromPoolAsync(&second, 15 * MIB, pool, NULL));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 48 * MIB);
    CU(cuMemFreeAsync(first, NULL));
    CU(cuStreamSynchronize(NULL));
    CU(cuMemFreeAsync(second, NULL));
    CU(cuStreamSynchronize(NULL));
    CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    CU(cuMemPoolDestroy(pool));
    CHECK_EQUAL(0, driver.configure(NULL));
}

TEST(pool_that_is_destroyed_keeps_its_blocks_until_they_are_freed)
{
    size_t before, after, total;
    CUdeviceptr block;
    CUmemoryPool pool;

    use_device(0);
    CU(cuMemGetInfo_v2(&before, &total));
    pool = new_pool(0);
    CU(cuMemAllocFromPoolAsync(&block, 100, pool, NULL));
    CU(cuMemPoolDestroy(pool));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(pool, 0));
    CU(cuMemsetD8_v2(block, 1, 100));
    CU(cuMemFree_v2(block)); /* the synchronous free accepts it as well */
    CU(cuMemGetInfo_v2(&after, &total));
    CHECK_EQUAL(before, after);
}

TEST(pool_of_the_device_can_be_set_and_the_default_not_destroyed)
{
    CUmemoryPool pool, standard, got;

    use_device(0);
    pool = new_pool(0);
    CU(cuDeviceGetDefaultMemPool(&standard, 0));
    CU(cuDeviceSetMemPool(0, pool));
    CU(cuDeviceGetMemPool(&got, 0));
    CHECK(got == pool);
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(1, pool));
    CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(standard));
    CU(cuMemPoolDestroy(pool));
    CU(cuDeviceGetMemPool(&got, 0));
    CHECK(got == standard);
}

TEST(pool_access_of_other_devices_is_remembered)
{
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    CUmemAccess_flags flags;
    CUmemoryPool pool;

    use_device(0);
    pool = new_pool(0);
    CU(cuMemPoolGetAccess(&flags, pool, &access.location));
    CHECK_EQUAL(CU_MEM_ACCESS_FLAGS_PROT_NONE, flags);
    CU(cuMemPoolSetAccess(pool, &access, 1));
    CU(cuMemPoolGetAccess(&flags, pool, &access.location));
    CHECK_EQUAL(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
    access.location.id = 0;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CU_IS(CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess(pool, &access, 1));
    CU(cuMemPoolDestroy(pool));
}
