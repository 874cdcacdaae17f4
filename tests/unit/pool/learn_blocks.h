/* learn_blocks.h -- a pool that learns, its streams, and steps of blocks of one size. */
#ifndef TARN_TESTS_LEARN_BLOCKS_H
#define TARN_TESTS_LEARN_BLOCKS_H

#include "learn.h"

static tarn_stream streams[STEP_STREAMS];

static inline void begin(void)
{
    use_driver(0);
    for (int i = 0; i < STEP_STREAMS; i++)
        streams[i] = new_stream();
}

static inline void end(tarn_resource *pool)
{
    adds_up(pool);
    CHECK_EQUAL(0, statistics(pool).live_blocks);
    end_pool(pool);
    for (int i = 0; i < STEP_STREAMS; i++)
        CU(cuStreamDestroy_v2(streams[i]));
}

enum { LARGE_BLOCKS = 20 };

/* Run a step of `count` blocks of one size that are live at once. */
static inline void run_equal_blocks_on(tarn_resource *pool, size_t bytes, int count,
                                       tarn_stream stream)
{
    tarn_device_ptr blocks[LARGE_BLOCKS];

    for (int i = 0; i < count; i++)
        blocks[i] = take(pool, bytes, stream);
    for (int i = 0; i < count; i++)
        put(pool, blocks[i], bytes, stream);
}

static inline void run_equal_blocks(tarn_resource *pool, size_t bytes, int count)
{
    run_equal_blocks_on(pool, bytes, count, streams[0]);
}

/* Run so many steps of equal blocks, each with a mark behind it. */
static inline void repeat_equal_blocks(tarn_resource *pool, size_t bytes, int steps)
{
    for (int i = 0; i < steps; i++) {
        run_equal_blocks(pool, bytes, LARGE_BLOCKS);
        mark(pool);
    }
}

/* Have the pool learn a step of equal blocks, as learn_step() does. */
static inline void learn_equal_blocks(tarn_resource *pool, size_t bytes)
{
    uint64_t plans = statistics(pool).plans_made;

    for (int i = 0; i < 2; i++) {
        mark(pool);
        run_equal_blocks(pool, bytes, LARGE_BLOCKS);
    }
    mark(pool);
    wait_for_plans(pool, plans + 1);
}

#endif
