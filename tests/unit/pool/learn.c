/* Test that a pool learns the marked steps of its program, and what wrong marks do. */
#include "learn_blocks.h"
#include "plan/check.h"
#include "plan/make.h"
#include "pool/follow/learn.h"

/* --- what is learned --- */

TEST(the_third_of_three_equal_steps_is_planned)
{
    const struct step step = {.seed = 1, .count = 300, .streams = 1};

    begin();
    tarn_resource *pool = learning_pool();
    CHECK_EQUAL(TARN_POOL_PLAN_LEARNING, statistics(pool).plan_state);
    learn_step(pool, &step, streams);
    CHECK_EQUAL(2, statistics(pool).steps_learned);
    CHECK_EQUAL(0, statistics(pool).planned);
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    for (int i = 0; i < 3; i++) {
        step_run(pool, &step, streams);
        mark(pool);
    }
    CHECK_EQUAL(3 * 300, statistics(pool).planned);
    CHECK_EQUAL(0, statistics(pool).plan_missed);
    CHECK(statistics(pool).planned_share == 1.0);
    CHECK_EQUAL(2, statistics(pool).steps_learned);
    end(pool);
}

TEST(steps_on_several_streams_are_planned)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        const struct step step = {.seed = seed, .count = 200, .streams = STEP_STREAMS};
        begin();
        tarn_resource *pool = learning_pool();
        learn_step(pool, &step, streams);
        for (int i = 0; i < 3; i++) {
            step_run(pool, &step, streams);
            CU(cuCtxSynchronize());
            mark(pool);
        }
        CHECK(statistics(pool).planned >= 3 * 200 * 9 / 10);
        CHECK_EQUAL(3 * 200, statistics(pool).planned + statistics(pool).plan_missed);
        CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
        end(pool);
    }
}

/* Begin a turn of a step that is repeated: the fourth one is the first to follow a plan. */
static void mark_turn(tarn_resource *pool, int turn)
{
    mark(pool);
    if (turn == 3)
        wait_for_plans(pool, 1);
}

/* What lives for more than a step is no part of the plan: weights that stay, and blocks that
 * the second step after theirs frees. */
TEST(what_lives_across_a_mark_stays_where_it_is)
{
    const struct step step = {.seed = 3, .count = 200, .streams = 1};
    tarn_device_ptr weights, gradient[2] = {0, 0};

    begin();
    tarn_resource *pool = learning_pool();
    weights = take(pool, 40 * MIB, streams[0]);
    for (int i = 0; i < 8; i++) {
        mark_turn(pool, i);
        uint64_t planned = statistics(pool).planned,
                 missed = statistics(pool).plan_missed;
        if (gradient[0])
            put(pool, gradient[0], 10 * MIB, streams[0]);
        gradient[0] = gradient[1];
        step_run(pool, &step, streams);
        gradient[1] = take(pool, 10 * MIB, streams[0]);
        if (i >= 3) {
            CHECK_EQUAL(200, statistics(pool).planned - planned);
            CHECK_EQUAL(0, statistics(pool).plan_missed - missed);
        }
    }
    mark(pool);
    CHECK(statistics(pool).planned_share > 0.9 && statistics(pool).planned_share < 1.0);
    put(pool, gradient[0], 10 * MIB, streams[0]);
    put(pool, gradient[1], 10 * MIB, streams[0]);
    put(pool, weights, 40 * MIB, streams[0]);
    end(pool);
}

/* Time is a circle: gradients of a step are freed in the next one, before their addresses are
 * needed. */
TEST(what_the_next_step_frees_is_planned)
{
    tarn_device_ptr gradients[20], block[2];

    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < 8; i++) {
        mark_turn(pool, i);
        for (size_t j = 0; i > 0 && j < 20; j++)
            put(pool, gradients[j], (j + 1) * MIB, streams[0]);
        for (size_t j = 0; j < 20; j++) {
            block[j % 2] = take(pool, (21 - j) * MIB, streams[0]);
            if (j % 2)
                put(pool, block[0], (22 - j) * MIB, streams[0]);
            if (j % 2)
                put(pool, block[1], (21 - j) * MIB, streams[0]);
        }
        for (size_t j = 0; j < 20; j++)
            gradients[j] = take(pool, (j + 1) * MIB, streams[0]);
        if (i == 4)
            CHECK_OK(tarn_pool_reset_peaks(pool));
    }
    mark(pool);
    CHECK_EQUAL(5 * 40, statistics(pool).planned);
    CHECK(statistics(pool).planned_share == 1.0);
    CHECK(statistics(pool).recent_peak_reserved <= 230 * MIB); /* 210 are live */
    for (size_t j = 0; j < 20; j++)
        put(pool, gradients[j], (j + 1) * MIB, streams[0]);
    end(pool);
}

/* Blocks of 1.25 MiB stay, and each leaves 0.75 MiB of its page. The small blocks of a step have
 * room there, so the layout has the large ones alone. */
TEST(small_blocks_are_beside_blocks_that_stay)
{
    enum { COUNT = 40, STAY = 5 * MIB / 4, HOLE = 2 * MIB - STAY, SMALL = 64 << 10 };
    tarn_device_ptr stay[COUNT], hole[COUNT], large[COUNT], small[COUNT];

    begin();
    tarn_resource *pool = learning_pool();
    for (size_t j = 0; j < COUNT; j++) {
        stay[j] = take(pool, STAY, streams[0]);
        hole[j] = take(pool, HOLE, streams[0]);
    }
    for (size_t j = 0; j < COUNT; j++)
        put(pool, hole[j], HOLE, streams[0]);
    for (int i = 0; i < 8; i++) {
        mark_turn(pool, i);
        uint64_t planned = statistics(pool).planned,
                 missed = statistics(pool).plan_missed;
        for (size_t j = 0; j < COUNT; j++) {
            large[j] = take(pool, 12 * MIB, streams[0]);
            small[j] = take(pool, SMALL, streams[0]);
        }
        for (size_t j = 0; j < COUNT; j++) {
            put(pool, large[j], 12 * MIB, streams[0]);
            put(pool, small[j], SMALL, streams[0]);
        }
        if (i > 3) {
            CHECK_EQUAL(COUNT, statistics(pool).planned - planned);
            CHECK_EQUAL(0, statistics(pool).plan_missed - missed);
        }
        if (i == 4)
            CHECK_OK(tarn_pool_reset_peaks(pool));
    }
    CHECK_EQUAL((12 + 2) * COUNT * MIB, statistics(pool).recent_peak_reserved);
    for (size_t j = 0; j < COUNT; j++)
        put(pool, stay[j], STAY, streams[0]);
    end(pool);
}

TEST(each_shape_has_its_plan_from_its_first_allocation_on)
{
    struct step shapes[3];

    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < 3; i++) {
        shapes[i] = (struct step){.seed = 10 + (uint64_t)i, .count = 250, .streams = 2};
        learn_step(pool, &shapes[i], streams);
    }
    uint64_t planned = statistics(pool).planned, missed = statistics(pool).plan_missed;
    for (int i = 0; i < 12; i++) {
        mark(pool);
        step_run(pool, &shapes[i * i % 3], streams);
        CU(cuCtxSynchronize());
    }
    CHECK_EQUAL(12 * 250, statistics(pool).planned - planned +
                              statistics(pool).plan_missed - missed);
    CHECK(statistics(pool).planned - planned >= 12 * 250 * 95 / 100);
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    CHECK_EQUAL(3, statistics(pool).plans_made);
    end(pool);
}

/* A stream that frees, and allocates nothing, changes the number of no other stream. */
TEST(a_block_that_another_stream_frees_hides_no_stream)
{
    enum { COUNT = 40 };

    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < 6; i++) {
        tarn_device_ptr blocks[COUNT];
        mark(pool);
        if (i == 3)
            wait_for_plans(pool, 1);
        uint64_t planned = statistics(pool).planned;
        put(pool, take(pool, MIB, streams[0]), MIB, streams[2]);
        for (int j = 0; j < COUNT; j++)
            blocks[j] = take(pool, (1 + j) * 64 * KIB, streams[1]);
        for (int j = 0; j < COUNT; j++)
            put(pool, blocks[j], (1 + j) * 64 * KIB, streams[1]);
        CHECK(i < 3 || statistics(pool).planned - planned == COUNT + 1);
    }
    end(pool);
}

/* Run a program of several shapes until the pool has a plan for each, and three times
 * more: then at least so many allocations of each step are planned. */
static void learn_rounds(void (*run)(tarn_resource *pool, int shape), int shapes,
                         const uint64_t *least)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    begin();
    tarn_resource *pool = learning_pool();
    for (int round = 0, more = 0; round < 50000 && more < 4; round++) {
        bool learned = statistics(pool).plans_made == (uint64_t)shapes;
        for (int shape = 0; shape < shapes; shape++) {
            uint64_t planned = statistics(pool).planned;
            mark(pool);
            run(pool, shape);
            if (more > 0)
                CHECK(statistics(pool).planned - planned >= least[shape]);
        }
        more += learned;
        if (!learned)
            nanosleep(&pause, NULL);
    }
    CHECK_EQUAL(shapes, statistics(pool).plans_made);
    end(pool);
}

static void run_alike(tarn_resource *pool, int shape)
{
    for (size_t i = 0; i < 200; i++) {
        size_t bytes = (i + 1) * KIB + (i >= 10 ? (size_t)shape * MIB : 0);
        put(pool, take(pool, bytes, streams[0]), bytes, streams[0]);
    }
}

/* The wrong plan is followed up to the first size that differs. Until then small blocks are
 * outside of both plans. */
TEST(shapes_that_begin_alike_are_told_apart_where_they_differ)
{
    learn_rounds(run_alike, 2, (const uint64_t[]){190, 190});
}

/* The steps are run faster than they are planned. Empty steps enter the plans. */
TEST(steps_that_are_repeated_while_another_is_planned_wait_for_their_turn)
{
    begin();
    tarn_resource *pool = learning_pool();
    for (uint64_t i = 0; i < 2 * TARN__LEARN_JOBS; i++) {
        mark(pool);
        step_run(pool, &(struct step){.seed = i / 2 + 1, .count = 1000, .streams = 4},
                 streams);
    }
    mark(pool);
    wait_for_plans(pool, TARN__LEARN_JOBS);
    CHECK_EQUAL(2 * TARN__LEARN_JOBS, statistics(pool).steps_learned);
    end(pool);
}

TEST(a_pool_can_be_released_while_steps_wait_to_be_planned)
{
    begin();
    tarn_resource *pool = learning_pool();
    for (uint64_t i = 0; i < 8; i++) {
        mark(pool);
        step_run(pool, &(struct step){.seed = i / 2 + 1, .count = 1500, .streams = 4},
                 streams);
    }
    mark(pool);
    end(pool);
}

TEST(at_most_eight_shapes_have_plans)
{
    begin();
    tarn_resource *pool = learning_pool();
    for (uint64_t i = 0; i < 8; i++)
        learn_step(
            pool,
            &(struct step){.seed = i + 1, .count = 40, .streams = 1, .quantum = 2048},
            streams);
    for (int i = 0; i < 6; i++) {
        mark(pool);
        step_run(pool, &(struct step){.seed = 99, .count = 40, .streams = 1}, streams);
    }
    mark(pool);
    CHECK_EQUAL(8, statistics(pool).plans_made);
    uint64_t planned = statistics(pool).planned;
    step_run(pool, &(struct step){.seed = 4, .count = 40, .streams = 1, .quantum = 2048},
             streams);
    CHECK_EQUAL(40, statistics(pool).planned - planned);
    end(pool);
}

enum { SIZES = 12 };

TEST(larger_shapes_get_the_places_of_smaller_ones)
{
    begin();
    tarn_resource *pool = learning_pool();
    for (size_t i = 0; i < SIZES; i++)
        learn_equal_blocks(pool, (4 + i) * MIB);
    for (size_t i = 0; i < SIZES; i++) {
        uint64_t planned = statistics(pool).planned;
        run_equal_blocks(pool, (4 + i) * MIB, LARGE_BLOCKS);
        mark(pool);
        CHECK_EQUAL(LARGE_BLOCKS, statistics(pool).planned - planned);
    }
    CHECK_EQUAL(SIZES, statistics(pool).plans_made); /* the first four are gone */
    CHECK_EQUAL(0, statistics(pool).plans_worse);
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    end(pool);
}

/* --- what is not learned --- */

TEST(without_marks_it_is_a_plain_pool)
{
    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < 100; i++)
        put(pool, take(pool, 4 * KIB, streams[0]), 4 * KIB, streams[0]);
    CHECK(statistics(pool).cache_hits > 90);
    CHECK_EQUAL(0, statistics(pool).steps_learned);
    mark(pool); /* from now on frees are recorded */
    uint64_t hits = statistics(pool).cache_hits;
    for (int i = 0; i < 100; i++)
        put(pool, take(pool, 4 * KIB, streams[0]), 4 * KIB, streams[0]);
    CHECK_EQUAL(hits, statistics(pool).cache_hits);
    end(pool);
}

TEST(a_step_with_nothing_changes_nothing)
{
    const struct step step = {.seed = 5, .count = 100, .streams = 1};

    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < 200; i++)
        mark(pool);
    CHECK_EQUAL(TARN_POOL_PLAN_LEARNING, statistics(pool).plan_state);
    CHECK_EQUAL(0, statistics(pool).steps_learned);
    learn_step(pool, &step, streams);
    for (int i = 0; i < 200; i++)
        mark(pool);
    step_run(pool, &step, streams);
    CHECK_EQUAL(100, statistics(pool).planned);
    end(pool);
}

static void run_half(tarn_resource *pool, int half)
{
    static tarn_device_ptr kept[10];

    for (size_t i = 0; i < 60; i++) {
        size_t bytes = (i + 1 + 60 * (size_t)half) * 8 * KIB;
        if (half && i < 10)
            put(pool, kept[i], (51 + i) * 8 * KIB, streams[0]);
        tarn_device_ptr block = take(pool, bytes, streams[0]);
        if (half || i < 50)
            put(pool, block, bytes, streams[0]);
        else
            kept[i - 50] = block;
    }
}

/* Both are learned. Ten blocks of the first half live across the mark. */
TEST(marks_in_the_middle_of_a_step_make_two_steps)
{
    learn_rounds(run_half, 2, (const uint64_t[]){50, 50});
}

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
    const size_t bytes = 32 * MIB, other = 64 * MIB;
    tarn_device_ptr blocks[LARGE_BLOCKS];

    for (int i = 0; i < 40; i++)
        put(pool, take(pool, 512, streams[0]), 512, streams[0]);
    if (other_stream)
        put(pool, take(pool, other, other_stream), other, other_stream);
    for (int i = 0; i < LARGE_BLOCKS; i++)
        blocks[i] = take(pool, bytes, streams[0]);
    for (int i = 0; i < LARGE_BLOCKS; i++)
        put(pool, blocks[i], bytes, streams[0]);
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
    for (int i = 0; i < 3; i++) {
        mark(pool);
        run_large(pool, NULL);
    }
    uint64_t plain = statistics(pool).peak_reserved;
    mark(pool);
    wait_for_plans(pool, 1);
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
    for (int i = 0; i < 3; i++) {
        mark(pool);
        run_large(pool, NULL);
    }
    uint64_t plain = statistics(pool).peak_reserved;
    mark(pool);
    wait_for_plans(pool, 1);
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
    for (int i = 0; i < 4; i++) {
        run_equal_blocks(pool, 32 * MIB, LARGE_BLOCKS);
        mark(pool);
    }
    CHECK_EQUAL(4 * LARGE_BLOCKS, statistics(pool).planned - planned);
    CHECK_EQUAL(0, statistics(pool).plans_worse);
    end(pool);
}

enum { KEPT = 12 };

/* Take the first blocks of a step, which stay. */
static void take_first_blocks(tarn_resource *pool, const struct step *step,
                              struct step_block *kept)
{
    uint64_t seed = step_begin(step);
    uint32_t place;

    for (int i = 0; i < KEPT; i++) {
        kept[i] = step_draw(step, &seed, &place);
        kept[i].address = take(pool, kept[i].bytes, streams[0]);
    }
}

/* Blocks of the sizes of a step get its addresses, and stay. Then the layout begins
 * elsewhere: no plan is dropped. What is free at the old addresses is returned. */
TEST(what_stays_at_planned_addresses_is_planned_around)
{
    const struct step step = {.seed = 1, .count = 200, .streams = 1, .quantum = 32 * KIB};
    struct step_block kept[4][KEPT];

    begin();
    tarn_resource *pool = learning_pool();
    learn_step(pool, &step, streams);
    for (int i = 0; i < 4; i++) {
        take_first_blocks(pool, &step, kept[i]);
        bool has_returned = false;
        for (int j = 0; j < 4; j++) {
            uint64_t reserved = statistics(pool).reserved;
            mark(pool);
            has_returned = has_returned || statistics(pool).reserved < reserved;
            step_run(pool, &step, streams);
        }
        CHECK(has_returned);
        uint64_t planned = statistics(pool).planned;
        mark(pool);
        step_run(pool, &step, streams);
        CHECK_EQUAL(200, statistics(pool).planned - planned);
        mark(pool);
    }
    CHECK_EQUAL(1, statistics(pool).plans_made);
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < KEPT; j++)
            step_drop(pool, &kept[i][j], streams);
    end(pool);
}

/* The pool has a bounded number of places for its layouts. The memory of the larger layout was
 * returned, and its addresses stay free for it. */
TEST(a_layout_returns_to_addresses_that_are_free_again)
{
    const struct step step = {.seed = 1, .count = 200, .streams = 1},
                      large = {.seed = 13, .count = 100, .streams = 1, .quantum = 4096};
    struct step_block kept[KEPT];

    begin();
    tarn_resource *pool = learning_pool();
    learn_step(pool, &large, streams);
    learn_step(pool, &step, streams);
    CHECK_OK(tarn_resource_trim(pool, 0, NULL));
    for (int i = 0; i < 12; i++) {
        take_first_blocks(pool, &step, kept);
        for (int j = 0; j < 4; j++) {
            mark(pool);
            step_run(pool, &step, streams);
        }
        uint64_t planned = statistics(pool).planned;
        mark(pool);
        step_run(pool, &step, streams);
        CHECK_EQUAL(200, statistics(pool).planned - planned);
        mark(pool);
        for (int j = 0; j < KEPT; j++)
            step_drop(pool, &kept[j], streams);
    }
    CHECK_EQUAL(2, statistics(pool).plans_made);
    end(pool);
}

/* No address of the plan has the alignment, and none of another place: it is dropped. */
TEST(a_plan_that_no_place_helps_is_dropped)
{
    const size_t bytes = 64 * MIB, alignment = (size_t)1 << 31;

    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < 400; i++) {
        tarn_device_ptr blocks[3];
        mark(pool);
        for (int j = 0; j < 3; j++)
            CHECK_OK(
                tarn_resource_allocate(pool, bytes, alignment, streams[0], &blocks[j]));
        for (int j = 0; j < 3; j++)
            CHECK_OK(
                tarn_resource_deallocate(pool, blocks[j], bytes, alignment, streams[0]));
        if (i == 2)
            wait_for_plans(pool, 1);
    }
    CHECK(statistics(pool).planned + statistics(pool).plan_missed < 3 * 50);
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

/* --- threads, and the end --- */

static atomic_bool ends;

static void *mark_often(void *data)
{
    while (!atomic_load(&ends))
        if (tarn_pool_mark_step(data) != TARN_OK)
            return data;
    return NULL;
}

TEST(marks_of_another_thread_harm_nothing)
{
    const struct step step = {.seed = 7, .count = 60, .streams = 2};
    pthread_t thread;
    void *failed;

    begin();
    tarn_resource *pool = learning_pool();
    atomic_store(&ends, false);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, mark_often, pool));
    for (int i = 0; i < 300; i++)
        step_run(pool, &step, streams);
    atomic_store(&ends, true);
    CHECK_EQUAL(0, pthread_join(thread, &failed));
    CHECK(failed == NULL);
    end(pool);
}

struct worker {
    tarn_resource *pool;
    tarn_stream stream;
    bool marks;
};

static void *work(void *data)
{
    const struct worker *worker = data;
    const struct step step = {.seed = 8, .count = 40, .streams = 1};

    for (int i = 0; i < 60; i++) {
        if (worker->marks)
            mark(worker->pool);
        step_run(worker->pool, &step, &worker->stream);
    }
    return NULL;
}

TEST(threads_that_run_freely_share_a_pool_that_learns)
{
    struct worker workers[STEP_STREAMS];
    pthread_t threads[STEP_STREAMS];

    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < STEP_STREAMS; i++) {
        workers[i] = (struct worker){pool, streams[i], i == 0};
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, work, &workers[i]));
    }
    for (int i = 0; i < STEP_STREAMS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    end(pool);
}

TEST(a_pool_can_be_released_while_its_step_is_planned)
{
    const struct step step = {.seed = 9, .count = 20000, .streams = 4};

    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < 2; i++) {
        mark(pool);
        step_run(pool, &step, streams);
    }
    mark(pool);
    end(pool);
}

TEST(a_captured_block_is_in_no_plan)
{
    const struct step step = {.seed = 10, .count = 100, .streams = 1};
    void *graph;

    begin();
    tarn_resource *pool = learning_pool();
    learn_step(pool, &step, streams);
    step_run(pool, &step, streams);
    mark(pool);
    CU(cuStreamBeginCapture_v2(streams[1], CAPTURE_RELAXED));
    uint64_t planned = statistics(pool).planned;
    put(pool, take(pool, MIB, streams[1]), MIB, streams[1]);
    CHECK_EQUAL(planned, statistics(pool).planned);
    CU(cuStreamEndCapture(streams[1], &graph));
    step_run(pool, &step, streams);
    CHECK_EQUAL(100, statistics(pool).planned - planned);
    CU(cuGraphDestroy(graph));
    end(pool);
}

/* --- long steps --- */

/* More blocks than the pool records. */
TEST(steps_after_one_that_is_too_long_are_planned)
{
    const struct step step = {.seed = 14, .count = 100, .streams = 1};

    begin();
    tarn_resource *pool = learning_pool();
    mark(pool);
    for (uint32_t i = 0; i <= TARN__RECORD_MOST; i++)
        put(pool, take(pool, 512, streams[0]), 512, streams[0]);
    learn_step(pool, &step, streams);
    step_run(pool, &step, streams);
    CHECK_EQUAL(100, statistics(pool).planned);
    CHECK_EQUAL(2, statistics(pool).steps_learned);
    end(pool);
}

/* --- options --- */

TEST(options_that_exclude_each_other_are_rejected)
{
    tarn_resource *pool = NULL, *upstream;
    tarn_plan *plan;

    use_driver(0);
    CHECK_OK(tarn__make_empty(0, &plan));
    tarn_pool_options options = {.size = sizeof options, .learn = true, .plan = plan};
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &options, &pool));
    CHECK_MESSAGE("learn");
    options.plan = NULL;
    options.moves = TARN_POOL_MOVES_NEVER;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &options, &pool));
    options.moves = TARN_POOL_MOVES_DEFAULT;
    CHECK_OK(tarn_cuda_create(0, &upstream));
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn_pool_create(0, upstream, &options, &pool));
    CHECK(pool == NULL);
    tarn_plan_release(plan);
    CHECK_OK(tarn_resource_release(upstream));
}
