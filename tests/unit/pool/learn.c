/* Test that a pool learns the marked steps of its program, and what wrong marks do. */
#include "learn_blocks.h"
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
