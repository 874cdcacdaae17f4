/* Memory that comes and goes without a stream: who promises what, when it is waited for,
 * and that none of it is lost. */
#include "pools.h"

static size_t serves(tarn_resource *resource)
{
    bool so = tarn_resource_serves_no_stream(resource);

    CHECK_OK(tarn_resource_release(resource));
    return so;
}

static tarn_resource *pool_on(tarn_resource *upstream)
{
    tarn_resource *pool;

    CHECK_OK(tarn_pool_create(0, upstream, NULL, &pool));
    CHECK_OK(tarn_resource_release(upstream));
    return pool;
}

static tarn_resource *slab_on(tarn_resource *upstream)
{
    tarn_resource *slab;

    CHECK_OK(tarn_slab_create(0, upstream, NULL, &slab));
    tarn_resource_release(upstream);
    return slab;
}

static tarn_resource *binning_on(tarn_resource *upstream)
{
    const tarn_binning_options options = {sizeof options, 18, 20};
    tarn_resource *binning;

    CHECK_OK(tarn_binning_create(upstream, &options, &binning));
    CHECK_OK(tarn_resource_release(upstream));
    return binning;
}

static tarn_resource *async(void)
{
    tarn_resource *resource;

    CHECK_OK(tarn_async_create(0, NULL, &resource));
    return resource;
}

static tarn_resource *cuda(void)
{
    tarn_resource *resource;

    CHECK_OK(tarn_cuda_create(0, &resource));
    return resource;
}

static tarn_resource *limited(tarn_resource *upstream)
{
    tarn_resource *limiter;

    CHECK_OK(tarn_limiter_create(upstream, 64 * MIB, &limiter));
    CHECK_OK(tarn_resource_release(upstream));
    return limiter;
}

TEST(resources_say_whether_they_serve_those_without_a_stream)
{
    use_driver(0);
    CHECK(!tarn_resource_serves_no_stream(NULL));
    CHECK(serves(cuda()));
    CHECK(!serves(async()));
    CHECK(serves(new_pool(NULL)));
    CHECK(serves(pool_on(cuda())));
    CHECK(serves(pool_on(async())));
    CHECK(serves(slab_on(NULL)));
    CHECK(serves(slab_on(new_pool(NULL))));
    CHECK(serves(binning_on(new_pool(NULL))));
    CHECK(!serves(binning_on(async())));
    CHECK(serves(limited(new_pool(NULL))));
    CHECK(!serves(limited(async())));
}

/* An upstream that orders by stream gives what it has in the order of the default stream to
 * those who name none. The stream that used it is another one. */
TEST(pool_waits_for_what_an_upstream_in_order_gives_without_a_stream)
{
    use_driver(0);
    tarn_resource *upstream = async(), *pool = pool_on(tarn_resource_retain(upstream));
    uint64_t before = statistics(pool).reserved;

    put(pool, take(pool, 3 * MIB, TARN_STREAM_NONE), 3 * MIB, TARN_STREAM_NONE);
    CHECK(statistics(pool).reserved > before);
    adds_up(pool);
    end_pool(pool);
    CHECK_OK(tarn_resource_release(upstream));
}

TEST(memory_freed_without_a_stream_is_had_before_memory_is_out)
{
    use_driver(0);
    tarn_resource *strict = strict_pool(4 * MIB);
    tarn_device_ptr block = take(strict, 3 * MIB, NULL);

    put(strict, block, 3 * MIB, TARN_STREAM_NONE);
    CHECK_EQUAL(0, statistics(strict).barriers);
    put(strict, take(strict, 3 * MIB, NULL), 3 * MIB, TARN_STREAM_NONE);
    CHECK_EQUAL(1, statistics(strict).barriers);
    put(strict, take(strict, 3 * MIB, TARN_STREAM_NONE), 3 * MIB, NULL);
    CHECK_EQUAL(2, statistics(strict).barriers);
    CHECK_EQUAL(0, statistics(strict).failures);
    adds_up(strict);
    end_pool(strict);
}

TEST(trim_gives_back_what_was_freed_without_a_stream)
{
    use_driver(0);
    tarn_resource *strict = strict_pool(64 * MIB);
    size_t released;

    put(strict, take(strict, 8 * MIB, NULL), 8 * MIB, TARN_STREAM_NONE);
    CHECK_OK(tarn_resource_trim(strict, 0, &released));
    CHECK_EQUAL(8 * MIB, released);
    end_pool(strict);
}

/* The work of a stream that is gone is not over with it. */
TEST(memory_freed_without_a_stream_waits_for_streams_that_are_gone)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_stream stream = new_stream(), other = new_stream();
    tarn_device_ptr block = take(pool, 3 * MIB, TARN_STREAM_NONE), witness;
    unsigned char seen = 0;

    CU(cuMemsetD8Async(block, 1, 3 * MIB, stream));
    witness = take(pool, MIB, TARN_STREAM_NONE);
    for (int i = 0; i < 8; i++)
        CHECK_OK(tarn_copy(0, witness, block, MIB, stream));
    CU(cuStreamDestroy_v2(stream));
    put(pool, block, 3 * MIB, TARN_STREAM_NONE);
    block = take(pool, 3 * MIB, other);
    CU(cuMemsetD8Async(block, 2, 3 * MIB, other));
    CU(cuCtxSynchronize());
    CU(cuMemcpyDtoH_v2(&seen, witness, 1));
    CHECK_EQUAL(1, seen);
    put(pool, block, 3 * MIB, other);
    put(pool, witness, MIB, other);
    CU(cuStreamDestroy_v2(other));
    end_pool(pool);
}
