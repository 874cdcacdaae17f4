/* Test suspend, peer access and generations through the public API of a pool. */
#include "memory.h"
#include "pools.h"

static struct tarn__span span_of(tarn_device_ptr block, size_t bytes)
{
    return (struct tarn__span){block, bytes};
}

TEST(pool_that_wakes_is_its_peers_as_before)
{
    if (!has_second_device())
        skip();
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_device_ptr before = take(pool, 4 * MIB, NULL);

    CHECK(!is_usable(1, span_of(before, 4 * MIB)));
    CHECK_OK(tarn_pool_set_peer_access(pool, 1, true));
    CHECK_OK(tarn_pool_set_peer_access(pool, 1, true)); /* it is already */
    tarn_device_ptr after = take(pool, 40 * MIB, NULL);
    CHECK(is_usable(1, span_of(before, 4 * MIB)) &&
          is_usable(1, span_of(after, 40 * MIB)));
    for (int mode = 0; mode < 2; mode++) {
        CHECK_OK(tarn_pool_suspend(pool, mode));
        CHECK_OK(tarn_pool_resume(pool));
        CHECK(is_usable(1, span_of(before, 4 * MIB)));
        CHECK(is_usable(1, span_of(after, 40 * MIB)));
    }
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
    CHECK_OK(tarn_pool_set_peer_access(pool, 1, false)); /* set while it is suspended */
    CHECK_OK(tarn_pool_resume(pool));
    CHECK(!is_usable(1, span_of(before, 4 * MIB)));
    CHECK(is_usable(0, span_of(before, 4 * MIB)));
    put(pool, before, 4 * MIB, NULL);
    put(pool, after, 40 * MIB, NULL);
    end_pool(pool);
}

TEST(peer_that_is_none_is_refused)
{
    tarn_resource *cuda, *on_cuda;

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_set_peer_access(pool, 0, true));
    CHECK_MESSAGE("owns the pool");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_set_peer_access(pool, 99, true));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_set_peer_access(pool, -1, false));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_set_peer_access(NULL, 1, true));
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_set_peer_access(cuda, 1, true));
    CHECK_OK(tarn_pool_create(0, cuda, NULL, &on_cuda));
    if (has_second_device())
        CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_pool_set_peer_access(on_cuda, 1, true));
    CHECK_OK(tarn_resource_release(cuda));
    end_pool(on_cuda);
    end_pool(pool);
}

/* Another user of the device takes the pool's memory while the pool is suspended. Until
 * it frees that memory, the pool cannot be resumed. */
TEST(pool_that_sleeps_leaves_its_memory_to_others)
{
    size_t free_bytes, total_bytes;
    tarn_device_ptr theirs = 0;
    tarn_resource *cuda;

    if (!on_sim())
        skip(); /* a GPU has other users */
    use_driver(0);
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_resource_memory_info(cuda, NULL, &free_bytes, &total_bytes));
    size_t most = free_bytes / 4 * 3;
    tarn_resource *pool = new_pool(NULL);
    tarn_device_ptr kept = take(pool, MIB, NULL), block = 77;
    put(pool, take(pool, most, NULL), most, NULL);
    CU(cuMemsetD8_v2(kept, 42, MIB));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(cuda, most, 0, NULL, &theirs));
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_KEEP));
    theirs = take(cuda, most, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_pool_resume(pool));
        CHECK_EQUAL(statistics(pool).reserved, statistics(pool).suspended);
        CHECK_STATUS(TARN_SUSPENDED, tarn_resource_allocate(pool, MIB, 0, NULL, &block));
    }
    put(cuda, theirs, most, NULL);
    CHECK_OK(tarn_pool_resume(pool));
    CHECK_EQUAL(42, byte_at(kept));
    CHECK_EQUAL(42, byte_at(kept + MIB - 1));
    put(pool, kept, MIB, NULL);
    end_pool(pool);
    CHECK_OK(tarn_resource_release(cuda));
}

/* A user that shared an address can see that it has other memory now. */
TEST(generation_counts_whenever_memory_goes_from_under_addresses)
{
    uint64_t first = 77, same = 77, trimmed = 77, slept = 77;
    size_t released = 0;

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    CHECK_OK(tarn_pool_generation(pool, &first));
    put(pool, take(pool, 4 * MIB, NULL), 4 * MIB, NULL);
    put(pool, take(pool, 8 * MIB, NULL), 8 * MIB, NULL);
    CHECK_OK(tarn_pool_generation(pool, &same));
    CHECK_EQUAL(first, same);
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    CHECK(released > 0);
    CHECK_OK(tarn_pool_generation(pool, &trimmed));
    CHECK(trimmed > same);
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
    CHECK_OK(tarn_pool_resume(pool));
    CHECK_OK(tarn_pool_generation(pool, &slept));
    CHECK_EQUAL(trimmed + 1, slept);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_generation(pool, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_generation(NULL, &slept));
    end_pool(pool);
}
