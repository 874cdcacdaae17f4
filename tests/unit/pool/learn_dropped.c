/* Test which plans of a pool that learns are dropped, and which are not followed. */
#include "learn_blocks.h"

/* Make the first allocations of a step. */
static void run_beginning(tarn_resource *pool, const struct step *step)
{
    uint64_t seed = step_begin(step);
    uint32_t place;

    for (int i = 0; i < 40; i++) {
        size_t bytes = step_draw(step, &seed, &place).bytes;
        put(pool, take(pool, bytes, streams[0]), bytes, streams[0]);
    }
}

/* Run a step that begins as a learned one, and goes on as other work. */
static void run_other_work(tarn_resource *pool, const struct step *step, uint64_t seed)
{
    run_beginning(pool, step);
    step_run(pool, &(struct step){.seed = seed, .count = 300, .streams = 1}, streams);
    mark(pool);
}

/* The steps of the program change after they were learned: they begin as before, and have a few
 * large blocks that the plan lacks. */
TEST(a_plan_that_does_not_pay_is_made_anew_and_then_given_up)
{
    const struct step step = {.seed = 6, .count = 100, .streams = 1};
    size_t bytes = 64 * MIB;

    begin();
    tarn_resource *pool = learning_pool();
    for (int plans = 1; plans <= 3; plans++) {
        learn_step(pool, &step, streams);
        CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
        for (int i = 0; i < 2; i++) {
            run_beginning(pool, &step);
            for (int j = 0; j < 6; j++, bytes += 512)
                put(pool, take(pool, bytes, streams[0]), bytes, streams[0]);
            mark(pool);
        }
    }
    CHECK_EQUAL(TARN_POOL_PLAN_OFF_MISSED, statistics(pool).plan_state);
    CHECK_EQUAL(3, statistics(pool).plans_made);
    uint64_t planned = statistics(pool).planned;
    mark(pool);
    step_run(pool, &step, streams);
    CHECK_EQUAL(planned, statistics(pool).planned);
    end(pool);
}

/* They begin as before, and all else is other work. */
TEST(a_plan_with_whose_beginning_other_work_begins_is_given_up)
{
    const struct step step = {.seed = 6, .count = 100, .streams = 1};
    uint64_t seed = 100;

    begin();
    tarn_resource *pool = learning_pool();
    learn_step(pool, &step, streams);
    for (int i = 0; i < 8; i++) {
        CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
        run_other_work(pool, &step, seed++);
    }
    CHECK_EQUAL(TARN_POOL_PLAN_LEARNING, statistics(pool).plan_state);
    CHECK_EQUAL(1, statistics(pool).plans_worse);
    uint64_t planned = statistics(pool).planned;
    for (int i = 0; i < 4; i++) { /* it gets no other plan */
        step_run(pool, &step, streams);
        mark(pool);
    }
    CHECK_EQUAL(planned, statistics(pool).planned);
    CHECK_EQUAL(1, statistics(pool).plans_made);
    end(pool);
}

/* Run a step of many small blocks, one after another, and then large ones that are live at
 * once. Before these a block of another size on stream `other_stream`; NULL: none. */
static void run_large(tarn_resource *pool, tarn_stream other_stream)
{
    const size_t other = 64 * MIB;

    for (int i = 0; i < 40; i++)
        put(pool, take(pool, 512, streams[0]), 512, streams[0]);
    if (other_stream)
        put(pool, take(pool, other, other_stream), other, other_stream);
    run_equal_blocks(pool, 32 * MIB, LARGE_BLOCKS);
}

/* Have the pool learn this step. Returns the most that it reserved without a plan. */
static uint64_t learn_large(tarn_resource *pool)
{
    for (int i = 0; i < 3; i++) {
        mark(pool);
        run_large(pool, NULL);
    }
    uint64_t plain = statistics(pool).peak_reserved;
    mark(pool);
    wait_for_plans(pool, 1);
    return plain;
}

/* The plan has no place for the other block. It is freed without a stream, and the pool does
 * not wait for such frees here: its memory is of no use for the large blocks. */
TEST(a_plan_that_needs_more_than_the_pool_had_is_dropped_for_good)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .learn = true,
                                       .growth_bytes = 2 * MIB,
                                       .no_stream_limit_bytes = 1024 * MIB};

    begin();
    tarn_resource *pool = new_pool(&options);
    uint64_t plain = learn_large(pool);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
        run_large(pool, TARN_STREAM_NONE);
        mark(pool);
    }
    CHECK(statistics(pool).peak_reserved > plain);
    CHECK_EQUAL(1, statistics(pool).plans_worse);
    CHECK_EQUAL(TARN_POOL_PLAN_LEARNING, statistics(pool).plan_state);
    CHECK_EQUAL(0, statistics(pool).reserved);
    for (int i = 0; i < 4; i++) {
        run_large(pool, NULL);
        mark(pool);
    }
    CHECK_EQUAL(1, statistics(pool).plans_made);
    CHECK(statistics(pool).reserved <= plain);
    end(pool);
}

enum { MANY_STREAMS = 100, HUGE_BLOCKS = 6 };

/* Run a step of huge blocks that live for all of it, and small ones of `count` streams, of which
 * one is live at a time. The device is always done. */
static void run_on_many_streams(tarn_resource *pool, const tarn_stream *many, int count)
{
    const size_t huge = 1024 * MIB, small = 5 * MIB;
    tarn_device_ptr blocks[HUGE_BLOCKS];

    for (int i = 0; i < HUGE_BLOCKS; i++)
        blocks[i] = take(pool, huge, streams[0]);
    for (int i = 0; i < count; i++) {
        put(pool, take(pool, small, many[i]), small, many[i]);
        CU(cuCtxSynchronize());
    }
    for (int i = 0; i < HUGE_BLOCKS; i++)
        put(pool, blocks[i], huge, streams[0]);
}

/* Repeat such a step, and wait until its plan is entered or found to need too much. Then repeat it
 * further. Returns the statistics at the end, and what was reserved before. */
static tarn_pool_statistics learn_many_streams(int count, uint64_t *plain_out)
{
    const tarn_pool_options options = {
        .size = sizeof options, .learn = true, .growth_bytes = 2 * MIB};
    const struct timespec pause = {.tv_nsec = 1000000};
    tarn_stream raw[MANY_STREAMS], many[MANY_STREAMS];

    begin();
    for (int i = 0; i < count; i++) {
        raw[i] = new_stream();
        CHECK_OK(tarn_stream_register(0, raw[i], &many[i]));
    }
    tarn_resource *pool = new_pool(&options);
    for (int i = 0; i < 3; i++) {
        mark(pool);
        run_on_many_streams(pool, many, count);
    }
    *plain_out = statistics(pool).peak_reserved;
    CHECK(*plain_out < 6144 * MIB + 40 * MIB);
    for (int i = 0;
         i < 120000 && statistics(pool).plans_worse + statistics(pool).plans_made == 0;
         i++) {
        nanosleep(&pause, NULL);
        mark(pool);
    }
    for (int i = 0; i < 4; i++) { /* it is not planned again */
        mark(pool);
        run_on_many_streams(pool, many, count);
    }
    mark(pool);
    tarn_pool_statistics all = statistics(pool);
    for (int i = 0; i < count; i++) {
        CHECK_OK(tarn_stream_unregister(many[i]));
        CU(cuStreamDestroy_v2(raw[i]));
    }
    end(pool);
    return all;
}

/* The planner expects a device that is behind, so each small block has its own place. That is
 * 500 MiB more than the pool has without a plan. */
TEST(a_plan_that_is_expected_to_need_more_is_not_followed)
{
    uint64_t plain;
    tarn_pool_statistics all = learn_many_streams(MANY_STREAMS, &plain);

    CHECK_EQUAL(1, all.plans_worse);
    CHECK_EQUAL(0, all.plans_made);
    CHECK_EQUAL(0, all.planned);
    CHECK_EQUAL(TARN_POOL_PLAN_LEARNING, all.plan_state);
    CHECK_EQUAL(plain, all.peak_reserved);
}

/* Of 6 GiB 2 % are 123 MiB. The small blocks have 100 MiB. */
TEST(a_plan_that_is_expected_to_need_two_percent_more_is_followed)
{
    uint64_t plain;
    tarn_pool_statistics all = learn_many_streams(20, &plain);

    CHECK_EQUAL(0, all.plans_worse);
    CHECK_EQUAL(1, all.plans_made);
    CHECK_EQUAL(4 * (HUGE_BLOCKS + 20), all.planned);
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, all.plan_state);
}

/* A pool with plans reserves at most 2 % and 16 MiB more than without them. */
TEST(memory_moves_before_a_pool_with_plans_has_more_than_without_them)
{
    enum { STAY = 100, BYTES = 8 * MIB, FREED = 3, STEP = 100 };
    tarn_device_ptr stay[STAY], step[LARGE_BLOCKS];

    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < STAY; i++)
        stay[i] = take(pool, BYTES, streams[0]);
    learn_equal_blocks(pool, BYTES);
    mark(pool);
    for (int i = 0; i < LARGE_BLOCKS; i++)
        step[i] = take(pool, BYTES, streams[0]);
    tarn_pool_statistics before = statistics(pool);
    CHECK_EQUAL(LARGE_BLOCKS, before.planned);
    for (int i = 0; i < FREED; i++)
        put(pool, stay[10 * i], BYTES, streams[0]);
    tarn_device_ptr block = take(pool, STEP * MIB, streams[0]);
    CHECK(statistics(pool).moves > before.moves);
    put(pool, block, STEP * MIB, streams[0]);
    for (int i = 0; i < LARGE_BLOCKS; i++)
        put(pool, step[i], BYTES, streams[0]);
    for (int i = 0; i < STAY; i++)
        if (i % 10 != 0 || i >= 10 * FREED)
            put(pool, stay[i], BYTES, streams[0]);
    end(pool);
}

/* The device is behind, so no free is complete: the memory of the other block moves behind
 * its event fence. */
TEST(a_device_that_is_behind_costs_no_memory)
{
    const tarn_pool_options options = {
        .size = sizeof options, .learn = true, .growth_bytes = 2 * MIB};

    begin();
    tarn_resource *pool = new_pool(&options);
    uint64_t plain = learn_large(pool);
    for (int i = 0; i < 3; i++) {
        struct gate gate;
        hold_up(streams[0], &gate);
        run_large(pool, streams[0]);
        let_on(&gate);
        mark(pool);
    }
    CHECK(statistics(pool).peak_reserved <= plain + plain / 50 + 16 * MIB);
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    CHECK_EQUAL(0, statistics(pool).plans_worse);
    end(pool);
}

/* The pool keeps the memory of the large step in the small one. */
TEST(small_steps_between_large_ones_keep_their_plans)
{
    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < 3; i++) {
        mark(pool);
        run_equal_blocks(pool, (i % 2 ? 3 : 32) * MIB, LARGE_BLOCKS);
    }
    for (uint64_t plans = 1; plans <= 2; plans++) {
        mark(pool);
        wait_for_plans(pool, plans);
        run_equal_blocks(pool, (plans % 2 ? 3 : 32) * MIB, LARGE_BLOCKS);
    }
    uint64_t planned = statistics(pool).planned;
    for (int i = 0; i < 12; i++) {
        mark(pool);
        run_equal_blocks(pool, (i % 4 ? 3 : 32) * MIB, LARGE_BLOCKS);
    }
    CHECK_EQUAL(12 * LARGE_BLOCKS, statistics(pool).planned - planned);
    CHECK_EQUAL(0, statistics(pool).plans_worse);
    end(pool);
}

/* A plain pool would need more for it as well. */
TEST(a_larger_step_after_the_first_plan_keeps_its_plan)
{
    begin();
    tarn_resource *pool = learning_pool();
    learn_equal_blocks(pool, 3 * MIB);
    learn_equal_blocks(pool, 32 * MIB);
    uint64_t planned = statistics(pool).planned;
    repeat_equal_blocks(pool, 32 * MIB, 4);
    CHECK_EQUAL(4 * LARGE_BLOCKS, statistics(pool).planned - planned);
    CHECK_EQUAL(0, statistics(pool).plans_worse);
    end(pool);
}

/* After a plan was dropped there is no guess for the next step. */
TEST(a_shape_is_found_without_a_guess)
{
    const struct step steps[] = {{.seed = 6, .count = 100, .streams = 1},
                                 {.seed = 7, .count = 100, .streams = 1}};

    begin();
    tarn_resource *pool = learning_pool();
    learn_step(pool, &steps[0], streams);
    learn_step(pool, &steps[1], streams);
    for (uint64_t i = 0; i < 8; i++)
        run_other_work(pool, &steps[0], 100 + i);
    CHECK_EQUAL(1, statistics(pool).plans_worse);
    uint64_t planned = statistics(pool).planned;
    step_run(pool, &steps[1], streams);
    CHECK_EQUAL(100, statistics(pool).planned - planned);
    end(pool);
}
