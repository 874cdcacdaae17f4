/* Test the steps of a pool that learns which have no plan: they borrow one, leave small blocks, or
 * end learning. */
#include "learn_blocks.h"
#include "pool/follow/cost.h"

/* --- borrowed plans --- */

/* Batches of any size below the largest one: no two steps are equal, and none needs memory. */
TEST(steps_with_smaller_blocks_use_the_plan_of_the_largest)
{
    begin();
    tarn_resource *pool = learning_pool();
    learn_equal_blocks(pool, 8 * MIB);
    mark(pool);
    run_equal_blocks(pool, 8 * MIB, LARGE_BLOCKS);
    tarn_pool_statistics before = statistics(pool);
    for (size_t i = 1; i <= 100; i++) {
        mark(pool);
        run_equal_blocks(pool, 8 * MIB - i * 64 * KIB, LARGE_BLOCKS);
        CHECK_EQUAL(i * LARGE_BLOCKS, statistics(pool).planned - before.planned);
    }
    CHECK_EQUAL(before.reserved, statistics(pool).reserved);
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    CHECK_EQUAL(1, statistics(pool).plans_made);
    end(pool);
}

/* A larger batch shares what is free at planned addresses. When it comes again it has the plan
 * that smaller ones use, and the smallest of eight shapes gives up its place. */
TEST(a_step_that_requests_most_has_a_plan_whatever_the_others_are)
{
    begin();
    tarn_resource *pool = learning_pool();
    for (size_t i = 0; i < 8; i++)
        learn_equal_blocks(pool, 64 * MIB + i * 64 * KIB);
    learn_equal_blocks(pool, 65 * MIB);
    uint64_t planned = statistics(pool).planned;
    mark(pool);
    run_equal_blocks(pool, 65 * MIB, LARGE_BLOCKS);
    mark(pool);
    run_equal_blocks(pool, 65 * MIB - 512, LARGE_BLOCKS);
    CHECK_EQUAL(2 * LARGE_BLOCKS, statistics(pool).planned - planned);
    CHECK_EQUAL(9, statistics(pool).plans_made);
    end(pool);
}

/* Too small for a place of the plan, but the first time. Behind the others the step has left the
 * plan. */
static void run_other_work(tarn_resource *pool, size_t i)
{
    run_equal_blocks(pool, MIB + i * 512, 4);
    for (int j = 0; j < 4; j++)
        run_equal_blocks(pool, 64 * KIB + i * 512, 4);
}

/* Two steps that get few addresses of a plan are enough to see that it is of other work. */
TEST(steps_of_other_work_leave_the_plan_alone)
{
    begin();
    tarn_resource *pool = learning_pool();
    learn_equal_blocks(pool, 8 * MIB);
    for (size_t i = 0; i < 6; i++) {
        uint64_t planned = statistics(pool).planned;
        mark(pool);
        run_other_work(pool, i);
        CHECK_EQUAL(i < 2 ? 4 : 0, statistics(pool).planned - planned);
    }
    mark(pool);
    uint64_t planned = statistics(pool).planned;
    run_equal_blocks(pool, 8 * MIB, LARGE_BLOCKS);
    CHECK_EQUAL(LARGE_BLOCKS, statistics(pool).planned - planned);
    end(pool);
}

/* Steps of other work are not in a row. */
TEST(steps_of_other_work_between_others_leave_these_the_plan)
{
    begin();
    tarn_resource *pool = learning_pool();
    learn_equal_blocks(pool, 8 * MIB);
    for (size_t i = 0; i < 6; i++) {
        mark(pool);
        run_other_work(pool, i);
        uint64_t planned = statistics(pool).planned;
        mark(pool);
        run_equal_blocks(pool, 7 * MIB - i * 64 * KIB, LARGE_BLOCKS);
        CHECK_EQUAL(LARGE_BLOCKS, statistics(pool).planned - planned);
    }
    end(pool);
}

/* --- small blocks --- */

/* A step without a plan uses memory at planned addresses. What stays of it is small, as a
 * loss is, and lies elsewhere: the next step of a plan is planned as a whole. */
TEST(small_blocks_that_a_step_without_a_plan_leaves_are_in_the_way_of_no_plan)
{
    const size_t sizes[] = {512, 64 << 10, MIB - 512};

    begin();
    tarn_resource *pool = learning_pool();
    learn_equal_blocks(pool, 32 * MIB);
    for (int i = 0; i < 3; i++) {
        tarn_device_ptr large[LARGE_BLOCKS], small[LARGE_BLOCKS];
        mark(pool);
        for (int j = 0; j < LARGE_BLOCKS; j++) {
            large[j] = take(pool, (28 + i) * MIB, streams[0]);
            small[j] = take(pool, sizes[i], streams[0]);
        }
        for (int j = 0; j < LARGE_BLOCKS; j++)
            put(pool, large[j], (28 + i) * MIB, streams[0]);
        uint64_t planned = statistics(pool).planned;
        mark(pool);
        run_equal_blocks(pool, 32 * MIB, LARGE_BLOCKS);
        CHECK_EQUAL(LARGE_BLOCKS, statistics(pool).planned - planned);
        for (int j = 0; j < LARGE_BLOCKS; j++)
            put(pool, small[j], sizes[i], streams[0]);
    }
    end(pool);
}

/* Such blocks use that memory, too, where the pool may have no more. */
TEST(small_blocks_of_a_step_without_a_plan_use_all_memory_before_they_fail)
{
    enum { SMALL = 512 << 10, COUNT = LARGE_BLOCKS * 8 * MIB / SMALL };
    const tarn_pool_options options = {
        .size = sizeof options, .learn = true, .maximum_bytes = LARGE_BLOCKS * 8 * MIB};
    tarn_device_ptr blocks[COUNT];

    begin();
    tarn_resource *pool = new_pool(&options);
    learn_equal_blocks(pool, 8 * MIB);
    mark(pool);
    for (int i = 0; i < COUNT; i++)
        blocks[i] = take(pool, SMALL, streams[0]);
    for (int i = 0; i < COUNT; i++)
        put(pool, blocks[i], SMALL, streams[0]);
    end(pool);
}

/* --- the end of learning --- */

TEST(endless_shapes_are_left_to_the_plain_pool)
{
    begin();
    tarn_resource *pool = learning_pool();
    for (uint64_t i = 0; i < 66; i++) {
        mark(pool);
        CHECK_EQUAL(i % 64 == 0, statistics(pool).reserved == 0); /* small handles go */
        step_run(pool, &(struct step){.seed = i + 1, .count = 30, .streams = 1}, streams);
    }
    CHECK_EQUAL(TARN_POOL_PLAN_OFF_UNREPEATED, statistics(pool).plan_state);
    CHECK_EQUAL(64, statistics(pool).steps_learned);
    use_caches(pool);
    uint64_t hits = statistics(pool).cache_hits;
    for (int i = 0; i < 100; i++) {
        mark(pool);
        put(pool, take(pool, 4 * KIB, streams[0]), 4 * KIB, streams[0]);
    }
    CHECK(statistics(pool).cache_hits - hits > 90);
    put(pool, take(pool, 100 * MIB, streams[1]), 100 * MIB, streams[1]); /* grows */
    CHECK_EQUAL(0, statistics(pool).plans_made);
    end(pool);
}

/* Follow a plan for some steps. The program has the pool return its memory before each one. */
static void follow_and_trim(tarn_resource *pool, int steps, bool trims)
{
    size_t released;

    for (int i = 0; i < steps; i++) {
        if (trims)
            CHECK_OK(tarn_resource_trim(pool, 0, &released));
        repeat_equal_blocks(pool, 8 * MIB, 1);
    }
}

/* Each such step makes several calls for each handle. */
TEST(learning_ends_after_too_many_driver_calls)
{
    begin();
    tarn_resource *pool = learning_pool();
    learn_equal_blocks(pool, 8 * MIB);
    follow_and_trim(pool, 2 * TARN__COST_STEPS - 8, true);
    follow_and_trim(pool, 2 * TARN__COST_STEPS, false); /* the count begins anew */
    follow_and_trim(pool, (TARN__COST_PERIODS - 1) * TARN__COST_STEPS, true);
    int more = 0;
    for (; more < 2 * TARN__COST_STEPS && statistics(pool).reserved > 0; more++)
        follow_and_trim(pool, 1, true);
    CHECK(more > 1);
    CHECK_EQUAL(TARN_POOL_PLAN_OFF_MOVES, statistics(pool).plan_state);
    CHECK_EQUAL(0, statistics(pool).reserved);
    follow_and_trim(pool, 1, false);
    end(pool);
}

/* Streams that hand blocks over make calls about events. */
TEST(calls_about_events_do_not_end_learning)
{
    const struct step step = {.seed = 3, .count = 60, .streams = STEP_STREAMS};

    begin();
    tarn_resource *pool = learning_pool();
    learn_step(pool, &step, streams);
    tarn_pool_statistics before = statistics(pool);
    for (int i = 0; i < (TARN__COST_PERIODS + 1) * TARN__COST_STEPS; i++) {
        step_run(pool, &step, streams);
        mark(pool);
    }
    tarn_pool_statistics after = statistics(pool);
    CHECK(after.driver_calls - before.driver_calls >
          (after.allocations - before.allocations) / TARN__COST_PART);
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, after.plan_state);
    end(pool);
}

/* The count of steps without a plan begins anew where a step is to be planned. */
TEST(a_repeated_step_among_endless_shapes_is_learned)
{
    const struct step repeated = {.seed = 1000, .count = 100, .streams = 1};

    begin();
    tarn_resource *pool = learning_pool();
    for (uint64_t i = 0; i < 100; i++) {
        bool is_repeated = i == 50 || i == 51;
        const struct step other = {.seed = i + 1, .count = 30, .streams = 1};
        mark(pool);
        step_run(pool, is_repeated ? &repeated : &other, streams);
    }
    mark(pool);
    wait_for_plans(pool, 1);
    step_run(pool, &repeated, streams);
    CHECK_EQUAL(100, statistics(pool).planned);
    end(pool);
}

/* A stream that is behind has the large step reserve twice what is live in it. It has no
 * plan, and the small steps do not need that memory. */
TEST(memory_of_a_step_without_a_plan_is_not_held_against_a_plan)
{
    struct gate gate;

    begin();
    tarn_resource *pool = learning_pool();
    learn_equal_blocks(pool, 3 * MIB);
    for (int round = 0; round < 3; round++) {
        hold_up(streams[0], &gate);
        for (int i = 0; i < 2; i++)
            run_equal_blocks_on(pool, (32 + round) * MIB, LARGE_BLOCKS, streams[i]);
        let_on(&gate);
        mark(pool);
        for (int i = 0; i < 2; i++) {
            uint64_t planned = statistics(pool).planned;
            run_equal_blocks(pool, 3 * MIB, LARGE_BLOCKS);
            mark(pool);
            CHECK_EQUAL(LARGE_BLOCKS, statistics(pool).planned - planned);
        }
    }
    CHECK_EQUAL(0, statistics(pool).plans_worse);
    end(pool);
}

/* Two such steps in a row: the plans do not help the program. The memory is returned. */
TEST(learning_ends_if_steps_without_a_plan_reserve_more_than_a_plain_pool)
{
    const tarn_pool_options options = {
        .size = sizeof options, .learn = true, .grow_first = true};
    struct gate gate;

    begin();
    tarn_resource *pool = new_pool(&options);
    learn_equal_blocks(pool, 3 * MIB);
    for (int round = 0; round < 2; round++) {
        CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
        hold_up(streams[2 * round], &gate);
        for (int i = 0; i < 2; i++)
            run_equal_blocks_on(pool, (32 + round) * MIB, LARGE_BLOCKS,
                                streams[2 * round + i]);
        let_on(&gate);
        mark(pool);
        CHECK_EQUAL(0, statistics(pool).reserved);
    }
    CHECK_EQUAL(TARN_POOL_PLAN_OFF_MEMORY, statistics(pool).plan_state);
    end(pool);
}
