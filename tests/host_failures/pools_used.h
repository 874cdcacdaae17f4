/* pools_used.h -- a pool of a scenario, and its blocks. */
#ifndef TARN_TEST_POOLS_USED_H
#define TARN_TEST_POOLS_USED_H

#include "../unit/pool/pools.h"
#include "scenario.h"

static tarn_pool_options options;
static tarn_resource *pool, *upstream;
static tarn_stream one, other;

static inline void begin_pool(void)
{
    use_driver(0);
    one = new_stream();
    other = new_stream();
    pool = new_pool(&options);
}

static inline void end_used(void)
{
    tarn_pool_statistics seen = statistics(pool);

    CHECK_EQUAL(0, seen.live);
    CHECK_EQUAL(seen.reserved, seen.cached + seen.thread_cached + seen.captured);
    /* All of its memory is available. */
    tarn_device_ptr all;
    if (options.maximum_bytes) {
        CHECK_OK(tarn_resource_allocate(pool, options.maximum_bytes, 0, one, &all));
        CHECK_OK(tarn_resource_deallocate(pool, all, options.maximum_bytes, 0, one));
    }
    end_pool(pool);
    CHECK_OK(tarn_resource_release(upstream));
    upstream = NULL;
    CU(cuStreamDestroy_v2(one));
    CU(cuStreamDestroy_v2(other));
}

/* Blocks of a scenario, so that one that fails can return them. */
static struct {
    tarn_device_ptr at[64];
    size_t bytes[64];
    int count;
} live;

static inline tarn_status get(size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block = 77;
    tarn_status status = tarn_resource_allocate(pool, bytes, 0, stream, &block);

    if (status == TARN_OK) {
        live.at[live.count] = block;
        live.bytes[live.count++] = bytes;
    } else {
        CHECK_EQUAL(77, block);
    }
    return status;
}

/* A free on a stream that the pool does not know yet needs memory. Without it the block stays
 * live, and the free succeeds later. */
static inline void drop(int which, tarn_stream stream)
{
    uint64_t blocks = statistics(pool).live_blocks;
    tarn_status status =
        tarn_resource_deallocate(pool, live.at[which], live.bytes[which], 0, stream);

    if (status != TARN_OK) {
        CHECK_EQUAL(TARN_OUT_OF_MEMORY, status);
        CHECK_EQUAL(blocks, statistics(pool).live_blocks);
        failing_end();
        CHECK_OK(
            tarn_resource_deallocate(pool, live.at[which], live.bytes[which], 0, stream));
    }
    live.at[which] = live.at[--live.count];
    live.bytes[which] = live.bytes[live.count];
}

static inline tarn_status drop_all(tarn_status status, tarn_stream stream)
{
    while (live.count > 0)
        drop(live.count - 1, stream);
    return status;
}

#endif
