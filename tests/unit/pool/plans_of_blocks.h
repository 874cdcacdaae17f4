/* plans_of_blocks.h -- plans of blocks that live one after another, and pools that follow
 * them. */
#ifndef TARN_TESTS_PLANS_OF_BLOCKS_H
#define TARN_TESTS_PLANS_OF_BLOCKS_H

#include "pools.h"
#include "random_plan.h"
#include "plan/make.h"
#include "plan/plan.h"

enum { QUANTUM = 512, SLOTS = 400 };

/* A plan of blocks that live one after another, `live` at a time. */
static inline tarn_plan *plan_of(const size_t *sizes, uint32_t count, uint32_t live,
                                 uint32_t streams)
{
    tarn_plan *plan;
    uint64_t bytes = 0;

    CHECK_OK(tarn__make_empty(count, &plan));
    for (uint32_t i = 0, operation = 0; i < count; i++) {
        if (i >= live) {
            plan->slots[i - live].end = operation++;
            bytes -= sizes[i - live];
        }
        plan->slots[i] = (struct tarn__plan_slot){
            .start = operation++,
            .quanta = (uint32_t)((sizes[i] + QUANTUM - 1) / QUANTUM),
            .stream = i % streams,
            .free_stream = i % streams};
        plan->operations = operation;
        bytes += sizes[i];
        if (bytes > plan->peak_live_bytes)
            plan->peak_live_bytes = bytes;
    }
    for (uint32_t i = count - live; i < count; i++)
        plan->slots[i].end = plan->operations;
    plan->count = count;
    plan->streams = streams;
    plan->threads = 1;
    const tarn_plan_options options = {.size = sizeof options, .lag_operations = 1};
    CHECK_OK(tarn__make_layout(plan, &options));
    return plan;
}

static inline void draw_sizes(size_t *sizes, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++)
        sizes[i] = QUANTUM * (1 + random_plan_below(&seed, 4000));
}

static inline tarn_resource *follow(const tarn_plan *plan, size_t maximum)
{
    const tarn_pool_options options = {
        .size = sizeof options, .maximum_bytes = maximum, .plan = plan};
    tarn_resource *pool;

    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    return pool;
}

/* Allocate all blocks in order, `live` at a time, and free them. A size of 0 is left out. */
static inline void run(tarn_resource *pool, const size_t *sizes, uint32_t count,
                       uint32_t live, const tarn_stream *streams, uint32_t stream_count)
{
    tarn_device_ptr blocks[SLOTS + 1];

    for (uint32_t i = 0; i < count + live; i++) {
        if (i >= live && sizes[i - live])
            CHECK_OK(tarn_resource_deallocate(pool, blocks[i - live], sizes[i - live], 0,
                                              streams[(i - live) % stream_count]));
        if (i < count && sizes[i])
            CHECK_OK(tarn_resource_allocate(pool, sizes[i], 0, streams[i % stream_count],
                                            &blocks[i]));
    }
}

#endif
