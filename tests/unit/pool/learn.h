/* learn.h -- helpers of the tests of pools that learn: steps of a program, and plans. */
#ifndef TARN_TESTS_LEARN_H
#define TARN_TESTS_LEARN_H

#include "pools.h"
#include "random_plan.h"
#include <time.h>

enum { STEP_LIVE = 24, STEP_STREAMS = 4 };

/* A step: allocations of drawn sizes on drawn streams, each freed on its stream after a
 * drawn number of further allocations, or at the end. The same seed is the same step. */
struct step {
    uint64_t seed;
    uint32_t count, streams;
    size_t quantum; /* each size is a multiple of it; 0: 512 */
};

struct step_block {
    tarn_device_ptr address;
    size_t bytes;
    uint32_t stream;
};

/* Return false if two live blocks share memory. */
static inline bool step_is_apart(const struct step_block *live,
                                 const struct step_block *block)
{
    for (int i = 0; i < STEP_LIVE; i++)
        if (live[i].bytes > 0 && live[i].address < block->address + block->bytes &&
            block->address < live[i].address + live[i].bytes)
            return false;
    return true;
}

static inline void step_drop(tarn_resource *pool, struct step_block *block,
                             const tarn_stream *streams)
{
    if (block->bytes > 0)
        put(pool, block->address, block->bytes, streams[block->stream]);
    block->bytes = 0;
}

/* Return the seed from which the blocks of a step are drawn. */
static inline uint64_t step_begin(const struct step *step)
{
    return step->seed * 0x9e3779b97f4a7c15u + 1;
}

/* Draw the next block of a step, and the place of the one that is freed before it. */
static inline struct step_block step_draw(const struct step *step, uint64_t *seed,
                                          uint32_t *place_out)
{
    size_t quantum = step->quantum ? step->quantum : 512;
    struct step_block block = {0};

    *place_out = random_plan_below(seed, STEP_LIVE);
    block.bytes = quantum * (1 + random_plan_below(seed, 4000));
    block.stream = random_plan_below(seed, step->streams);
    return block;
}

static inline void step_run(tarn_resource *pool, const struct step *step,
                            const tarn_stream *streams)
{
    struct step_block live[STEP_LIVE] = {{0}};
    uint64_t seed = step_begin(step);
    uint32_t place;

    for (uint32_t i = 0; i < step->count; i++) {
        struct step_block block = step_draw(step, &seed, &place), *at = &live[place];
        step_drop(pool, at, streams);
        block.address = take(pool, block.bytes, streams[block.stream]);
        CHECK(step_is_apart(live, &block));
        *at = block;
    }
    for (int i = 0; i < STEP_LIVE; i++)
        step_drop(pool, &live[i], streams);
}

static inline tarn_resource *learning_pool(void)
{
    const tarn_pool_options options = {.size = sizeof options, .learn = true};

    return new_pool(&options);
}

static inline void mark(tarn_resource *pool)
{
    CHECK_OK(tarn_pool_mark_step(pool));
}

/* Wait until the pool has made so many plans: a mark enters what the thread has laid out. */
static inline void wait_for_plans(tarn_resource *pool, uint64_t plans)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    for (int i = 0; i < test_patience(120000) && statistics(pool).plans_made < plans;
         i++) {
        nanosleep(&pause, NULL);
        mark(pool);
    }
    CHECK_EQUAL(plans, statistics(pool).plans_made);
}

/* Have the pool learn a step; the next one is followed. */
static inline void learn_step(tarn_resource *pool, const struct step *step,
                              const tarn_stream *streams)
{
    uint64_t plans = statistics(pool).plans_made;

    for (int i = 0; i < 2; i++) {
        mark(pool);
        step_run(pool, step, streams);
    }
    mark(pool);
    wait_for_plans(pool, plans + 1);
}

#endif
