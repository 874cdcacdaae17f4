/* Test that a pool finds the steps of a program that marks none. */
#include "learn.h"
#include "pool/follow/detect.h"
#include "pool/follow/signature.h"

#define GIB (1024 * MIB)

/* --- the search alone --- */

/* A program of `steps` repeated inner steps. Each has 20 allocations of its own sizes; their
 * live bytes rise from `base` to its peak and fall again. */
static bool note(struct tarn__detect *detect, uint64_t base, uint32_t inner, uint32_t i)
{
    uint64_t live = base + (uint64_t)(i < 10 ? i : 20 - i) * MIB;

    return tarn__detect_note(detect, live, 100 + inner * 20 + i);
}

static uint32_t run_inner(struct tarn__detect *detect, uint64_t base, uint32_t inner,
                          uint32_t *first_out)
{
    uint32_t marks = 0;

    for (uint32_t i = 0; i < 20; i++)
        if (note(detect, base, inner, i)) {
            *first_out = i;
            marks++;
        }
    return marks;
}

TEST(a_step_begins_where_the_fewest_bytes_are_live)
{
    struct tarn__detect detect;
    uint32_t first = 0;

    tarn__detect_init(&detect);
    for (int i = 0; i < 100; i++)
        run_inner(&detect, GIB, 0, &first);
    for (int i = 0; i < 100; i++) {
        first = 99;
        CHECK_EQUAL(1, run_inner(&detect, GIB, 0, &first));
        CHECK_EQUAL(0, first);
    }
}

TEST(steps_of_different_shapes_are_marked_in_any_order)
{
    struct tarn__detect detect;
    uint32_t first = 0;
    uint64_t seed = 3;

    tarn__detect_init(&detect);
    for (int i = 0; i < 200; i++)
        run_inner(&detect, GIB, random_plan_below(&seed, 8), &first);
    for (int i = 0; i < 200; i++)
        CHECK_EQUAL(1, run_inner(&detect, GIB, random_plan_below(&seed, 8), &first));
}

/* Of twelve shapes two have places beside each other in the table of known steps in one of some
 * fifteen programs. They are twelve shapes for all that, and are all marked. */
TEST(shapes_of_any_signature_are_marked_for_long)
{
    struct tarn__detect detect;
    uint32_t first = 0;
    uint64_t seed = 9;

    for (uint32_t program = 0; program < 64; program++) {
        tarn__detect_init(&detect);
        for (int i = 0; i < 400; i++) {
            uint32_t shape = program * 12 + random_plan_below(&seed, 12);
            uint32_t marks = run_inner(&detect, GIB, shape, &first);
            CHECK(marks == 1 || i < 200);
        }
        CHECK(detect.shapes <= 12);
    }
}

static uint64_t signature_of(uint32_t inner)
{
    uint64_t signature = 0;

    for (uint32_t i = 0; i < 20; i++)
        signature = tarn__signature_add(signature, 100 + inner * 20 + i);
    return signature;
}

/* Find steps that have the same place in the table of known steps, however many places there
 * are for one. */
static void find_colliding(uint32_t *inner_out, uint32_t count)
{
    uint32_t found = 0;

    for (uint32_t inner = 1000; found < count; inner++)
        if (signature_of(inner) % TARN__DETECT_KNOWN == 77)
            inner_out[found++] = inner;
}

/* Run steps that never come again, until their live bytes are known. */
static void run_unrepeated(struct tarn__detect *detect, uint64_t base)
{
    uint32_t first;

    for (uint32_t i = 0; i < 30; i++)
        CHECK_EQUAL(0, run_inner(detect, base, i, &first));
}

/* Each block is freed before the next one: that tells nothing about the live bytes of steps. */
TEST(steps_are_found_after_work_whose_live_bytes_do_not_change)
{
    struct tarn__detect detect;
    uint32_t first = 0;

    tarn__detect_init(&detect);
    for (int i = 0; i < 1000; i++)
        CHECK(!tarn__detect_note(&detect, GIB, 7));
    for (int i = 0; i < 200; i++)
        run_inner(&detect, GIB, 0, &first);
    for (int i = 0; i < 100; i++)
        CHECK_EQUAL(1, run_inner(&detect, GIB, 0, &first));
}

/* Four steps that never come again have the places first. Of `count` ones in turn each is known
 * when it comes again, so all are marked from the second end of the first one on. */
static void check_colliding(uint32_t count)
{
    enum { ONCE = 4, MOST = 8 };
    struct tarn__detect detect;
    uint32_t colliding[MOST], first = 0;

    find_colliding(colliding, ONCE + count);
    tarn__detect_init(&detect);
    run_unrepeated(&detect, GIB);
    for (uint32_t i = 0; i < ONCE; i++)
        CHECK_EQUAL(0, run_inner(&detect, GIB, colliding[i], &first));
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQUAL(i > count,
                    run_inner(&detect, GIB, colliding[ONCE + i % count], &first));
        CHECK(i <= 2 * count || detect.shapes == count);
    }
}

TEST(two_steps_whose_signatures_collide_are_both_found)
{
    check_colliding(2);
}

TEST(four_steps_whose_signatures_collide_are_all_found)
{
    check_colliding(4);
}

/* These sizes have the signature 0, which an unused place of the table has, too. */
TEST(a_step_of_any_signature_is_new_when_it_comes_first)
{
    enum { COUNT = 16 };
    static const uint32_t last[] = {1187961, 3459365, 3808946};
    struct tarn__detect detect;
    uint64_t signature = 0;
    uint32_t first = 0;

    tarn__detect_init(&detect);
    run_unrepeated(&detect, GIB);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            uint64_t live = GIB + (uint64_t)(i < 10 ? i : COUNT - i) * MIB;
            uint32_t quanta = i < COUNT - 3 ? 100 + i : last[i - (COUNT - 3)];
            signature = tarn__signature_add(signature, quanta);
            CHECK_EQUAL(round == 2 && i == 0, tarn__detect_note(&detect, live, quanta));
        }
        CHECK_EQUAL(0, signature);
    }
    CHECK_EQUAL(1, run_inner(&detect, GIB, 0, &first));
}

/* A window has eight steps of 32 allocations. Nothing is live as one begins, so the ninth is
 * a whole one, and the tenth is equal to it. */
TEST(allocations_before_the_search_are_in_no_step)
{
    enum { COUNT = 32, BEFORE = TARN__DETECT_WINDOW / COUNT };
    struct tarn__detect detect;

    tarn__detect_init(&detect);
    for (uint32_t step = 0; step < BEFORE + 20; step++)
        for (uint32_t i = 0; i < COUNT; i++) {
            uint64_t live = (uint64_t)(i < COUNT / 2 ? i : COUNT - i) * MIB;
            bool begins = tarn__detect_note(&detect, live, 1 + i);
            CHECK_EQUAL(step >= BEFORE + 2 && i == 0, begins);
        }
}

/* A pool plans a marked step at once if it was seen before. */
TEST(a_marked_step_is_a_repeated_one_if_it_was_seen_before)
{
    struct tarn__detect detect;
    uint32_t first = 0, marks = 0;

    tarn__detect_init(&detect);
    while (marks == 0) {
        CHECK(!detect.is_repeated);
        marks = run_inner(&detect, GIB, 0, &first);
    }
    CHECK(!detect.is_repeated); /* the step before began without a mark */
    run_inner(&detect, GIB, 1, &first);
    CHECK(detect.is_repeated);
    for (int i = 0; i < 3; i++) {
        run_inner(&detect, GIB, 0, &first);
        CHECK_EQUAL(i > 0,
                    detect.is_repeated); /* the step before: 1 for the first time */
        run_inner(&detect, GIB, 1, &first);
        CHECK(detect.is_repeated);
    }
}

TEST(sixteen_shapes_are_all_marked)
{
    struct tarn__detect detect;
    uint32_t first = 0;

    tarn__detect_init(&detect);
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t marks = run_inner(&detect, GIB, i * 7 % TARN__DETECT_SHAPES, &first);
        CHECK(marks == 1 || i < 200);
    }
    CHECK_EQUAL(TARN__DETECT_SHAPES, detect.shapes);
}

/* Run steps of eight shapes, and check that they begin with their own first allocation. 40
 * allocations rise to 40 MiB, and as many of other steps' sizes find 1 MiB: an optimizer. The
 * last allocation's batch is live when the next step begins. */
static void check_optimizer(struct tarn__detect *detect)
{
    enum { RISE = 40, OPTIMIZER = 40 };
    uint64_t seed = 4, batch = 0;

    for (int step = 0; step < 100; step++) {
        uint32_t shape = random_plan_below(&seed, 8), marks = 0;
        for (uint32_t i = 0; i < RISE; i++) {
            uint64_t live = GIB + (i == 0 ? batch : (uint64_t)i * MIB);
            bool begins = tarn__detect_note(detect, live, 100 + shape * RISE + i);
            CHECK(!begins || i == 0 || step < 20);
            marks += begins;
        }
        for (uint32_t i = 0; i < OPTIMIZER; i++)
            CHECK(!tarn__detect_note(detect, GIB + MIB, 1 + i) || step < 20);
        CHECK(marks == 1 || step < 60);
        batch = shape * 4096;
    }
}

TEST(a_step_does_not_begin_with_the_end_that_it_has_in_common_with_others)
{
    struct tarn__detect detect;

    tarn__detect_init(&detect);
    check_optimizer(&detect);
}

/* The steps before had more live bytes, so each of their begins found more. */
TEST(the_begin_of_a_step_is_looked_for_anew_where_fewer_bytes_are_live)
{
    struct tarn__detect detect;
    uint32_t first = 0;

    tarn__detect_init(&detect);
    for (int i = 0; i < 100; i++)
        run_inner(&detect, 3 * GIB, 0, &first);
    check_optimizer(&detect);
}

/* Live bytes rise to 32 MiB twice, and fall to 3 MiB between. That is more than 1/32 of what a
 * step has, and less than 1/32 of all that is live. */
TEST(a_dip_in_the_middle_of_a_step_begins_none)
{
    enum { HALF = 24 };
    struct tarn__detect detect;

    tarn__detect_init(&detect);
    for (int step = 0; step < 60; step++)
        for (uint32_t i = 0; i < 2 * HALF; i++) {
            uint64_t live = i == 0 ? 0 : i == HALF ? 3 * MIB : 32 * MIB;
            bool begins = tarn__detect_note(&detect, GIB + live, 1 + i);
            CHECK(begins == (i == 0) || (step < 30 && !begins));
        }
}

/* The program has read its data with 100 GiB, and never needs as much again. */
TEST(a_peak_before_the_first_step_does_not_hide_the_steps)
{
    struct tarn__detect detect;
    uint32_t first = 0;

    tarn__detect_init(&detect);
    tarn__detect_note(&detect, 0, 1);
    tarn__detect_note(&detect, 100 * GIB, 2);
    for (int i = 0; i < 100; i++)
        run_inner(&detect, GIB, 0, &first);
    for (int i = 0; i < 100; i++)
        CHECK_EQUAL(1, run_inner(&detect, GIB, 0, &first));
}

/* A step of 100 different parts is one step: its parts are too many to have plans. */
TEST(a_step_of_many_parts_is_one_step)
{
    struct tarn__detect detect;
    uint32_t first = 0, marks = 0;

    tarn__detect_init(&detect);
    for (uint32_t i = 0; i < 800; i++)
        run_inner(&detect, GIB, i % 100, &first);
    for (uint32_t i = 0; i < 1000; i++)
        marks += run_inner(&detect, GIB, i % 100, &first);
    CHECK_EQUAL(10, marks);
}

/* Run `count` shapes of steps, in a new order each time. Returns how many marks the last ten
 * rounds have. */
static uint32_t run_shuffled(struct tarn__detect *detect, uint32_t count, uint32_t rounds)
{
    uint32_t order[100], first = 0, marks = 0;
    uint64_t seed = count;

    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < count; i++) {
            uint32_t other = i + random_plan_below(&seed, count - i),
                     shape = order[other];
            order[other] = order[i];
            order[i] = shape;
            uint32_t begins = run_inner(detect, GIB, shape, &first);
            marks += round + 10 >= rounds ? begins : 0;
        }
    return marks;
}

/* Each size of a batch comes once in each round. No sequence of these steps repeats. */
TEST(shapes_in_random_order_are_all_marked_however_many_they_are)
{
    for (uint32_t count = 17; count <= 97; count += 20) {
        struct tarn__detect detect;
        tarn__detect_init(&detect);
        CHECK_EQUAL(10 * count, run_shuffled(&detect, count, 14));
    }
}

/* The parts come in random order, then in one order, then in random order again. */
TEST(parts_become_one_step_when_they_come_in_order)
{
    struct tarn__detect detect;
    uint32_t first = 0, marks = 0;

    tarn__detect_init(&detect);
    run_shuffled(&detect, 20, 14);
    for (uint32_t i = 0; i < 100; i++)
        run_inner(&detect, GIB, i % 20, &first);
    for (uint32_t i = 0; i < 100; i++)
        marks += run_inner(&detect, GIB, i % 20, &first);
    CHECK_EQUAL(5, marks);
    CHECK_EQUAL(200, run_shuffled(&detect, 20, 14));
}

/* The live bytes have grown by 2 GiB, so no allocation finds as few as before. */
static void check_lost_step(uint32_t inner)
{
    struct tarn__detect detect;
    uint32_t first = 0;

    tarn__detect_init(&detect);
    for (int i = 0; i < 100; i++)
        run_inner(&detect, GIB, 0, &first);
    for (int i = 0; i < 200; i++)
        run_inner(&detect, 3 * GIB, inner, &first);
    for (int i = 0; i < 100; i++)
        CHECK_EQUAL(1, run_inner(&detect, 3 * GIB, inner, &first));
    CHECK_EQUAL(20, detect.distance);
}

TEST(a_lost_step_is_looked_for_again)
{
    check_lost_step(1);
}

/* What was known before the loss is forgotten: else the distance would be that to it. */
TEST(a_step_that_is_lost_and_found_again_has_its_own_distance)
{
    check_lost_step(0);
}

/* A loop is found first. Later fewer bytes are live: the step is longer than the loop. */
TEST(fewer_live_bytes_begin_a_longer_step)
{
    struct tarn__detect detect;
    uint32_t first = 0, marks = 0, last = 0;

    tarn__detect_init(&detect);
    for (uint32_t i = 0; i < 400; i++) {
        last = marks;
        marks = 0;
        for (int j = 0; j < 60; j++) /* of one shape, with a part of its own before it */
            marks += run_inner(&detect, GIB, 0, &first);
        for (uint32_t j = 0; j < 30; j++)
            marks += run_inner(&detect, 64 * MIB, 1 + j, &first);
    }
    CHECK(marks >= 1);
    CHECK_EQUAL(last, marks);
}

/* The first window has none of the few live bytes in the middle of the long step, and the second
 * one has. */
TEST(a_long_step_begins_where_the_fewest_bytes_are_live)
{
    enum { PARTS = 60, LOW = 20, LEARNED = 5 };
    struct tarn__detect detect;
    uint32_t first = 0;

    tarn__detect_init(&detect);
    for (uint32_t step = 0; step < 20; step++)
        for (uint32_t part = 0; part < PARTS; part++) {
            uint32_t marks =
                run_inner(&detect, part == LOW ? 64 * MIB : GIB, part, &first);
            CHECK(marks == (part == LOW) || (marks == 0 && step < LEARNED));
            CHECK(marks == 0 || first == 0);
        }
}

TEST(work_that_does_not_repeat_has_no_steps)
{
    struct tarn__detect detect;
    uint64_t seed = 5;
    uint32_t marks = 0;

    tarn__detect_init(&detect);
    for (uint32_t i = 0; i < TARN__DETECT_MOST; i++) {
        CHECK(atomic_load(&detect.is_on));
        marks +=
            tarn__detect_note(&detect, (uint64_t)random_plan_below(&seed, 4096) * MIB,
                              1 + random_plan_below(&seed, 1 << 20));
    }
    CHECK_EQUAL(0, marks);
    CHECK(!atomic_load(&detect.is_on));
}

/* Note allocations that do not repeat. */
static void note_random(struct tarn__detect *detect, uint64_t *seed, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        tarn__detect_note(detect, (uint64_t)random_plan_below(seed, 4096) * MIB,
                          1 + random_plan_below(seed, 1 << 20));
}

/* Each search has as many allocations, counted from the end of the steps before. */
TEST(a_search_after_steps_is_as_long_as_the_first_one)
{
    enum { SHORT = 20000 };
    struct tarn__detect detect;
    uint32_t marks = 0;
    uint64_t seed = 6;

    tarn__detect_init(&detect);
    note_random(&detect, &seed, TARN__DETECT_MOST - SHORT);
    for (uint32_t i = 0; i < SHORT / 2 && marks == 0; i++) {
        uint32_t at = i % 20;
        uint64_t live = (uint64_t)(at < 10 ? at : 20 - at) * 400 * MIB;
        marks += tarn__detect_note(&detect, live, 100 + at);
    }
    CHECK_EQUAL(1, marks);
    note_random(&detect, &seed, TARN__DETECT_MOST - SHORT);
    CHECK(atomic_load(&detect.is_on));
    note_random(&detect, &seed, 2 * SHORT);
    CHECK(!atomic_load(&detect.is_on));
}

/* --- pools --- */

static tarn_stream streams[STEP_STREAMS];

static tarn_resource *begin(void)
{
    const tarn_pool_options options = {
        .size = sizeof options, .learn = true, .detect_steps = true};

    use_driver(0);
    for (int i = 0; i < STEP_STREAMS; i++)
        streams[i] = new_stream();
    return new_pool(&options);
}

static void end(tarn_resource *pool)
{
    adds_up(pool);
    CHECK_EQUAL(0, statistics(pool).live_blocks);
    end_pool(pool);
    for (int i = 0; i < STEP_STREAMS; i++)
        CU(cuStreamDestroy_v2(streams[i]));
}

/* Repeat steps in turn until so many plans were made, and three rounds more. Returns the
 * planned allocations of these. */
static uint64_t planned_of(tarn_resource *pool, const struct step *steps, int count,
                           uint64_t plans, const tarn_stream *on)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    uint64_t before = 0;

    for (int round = 0; round < 20000 && statistics(pool).plans_made < plans; round++) {
        for (int i = 0; i < count; i++)
            step_run(pool, &steps[i], on);
        nanosleep(&pause, NULL);
    }
    CHECK_EQUAL(plans, statistics(pool).plans_made);
    for (int round = 0; round < 4; round++) {
        if (round == 1)
            before = statistics(pool).planned;
        for (int i = 0; i < count; i++) {
            step_run(pool, &steps[i], on);
            CU(cuCtxSynchronize());
        }
    }
    return statistics(pool).planned - before;
}

TEST(steps_without_marks_are_planned)
{
    const struct step step = {.seed = 1, .count = 300, .streams = 1};
    tarn_resource *pool = begin();

    CHECK_EQUAL(3 * 300, planned_of(pool, &step, 1, 1, streams));
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    end(pool);
}

TEST(steps_on_several_streams_are_planned_without_marks)
{
    const struct step step = {.seed = 2, .count = 200, .streams = STEP_STREAMS};
    tarn_resource *pool = begin();

    CHECK(planned_of(pool, &step, 1, 1, streams) >= 3 * 200 * 9 / 10);
    end(pool);
}

TEST(steps_without_a_stream_are_planned_without_marks)
{
    const tarn_stream no_stream[1] = {TARN_STREAM_NONE};
    const struct step step = {.seed = 3, .count = 150, .streams = 1, .quantum = 64 * KIB};
    tarn_resource *pool = begin();

    CHECK(planned_of(pool, &step, 1, 1, no_stream) >= 3 * 150 * 9 / 10);
    end(pool);
}

TEST(three_shapes_in_turn_are_planned_without_marks)
{
    const struct step steps[] = {{.seed = 4, .count = 250, .streams = 2},
                                 {.seed = 5, .count = 300, .streams = 2},
                                 {.seed = 6, .count = 200, .streams = 2}};
    tarn_resource *pool = begin();

    CHECK(planned_of(pool, steps, 3, 3, streams) >= 3 * 750 * 9 / 10);
    end(pool);
}

TEST(another_program_is_planned_after_the_first)
{
    const struct step steps[] = {{.seed = 7, .count = 250, .streams = 1},
                                 {.seed = 8, .count = 300, .streams = 1}};
    tarn_resource *pool = begin();

    CHECK_EQUAL(3 * 250, planned_of(pool, &steps[0], 1, 1, streams));
    CHECK_EQUAL(3 * 300, planned_of(pool, &steps[1], 1, 2, streams));
    end(pool);
}

/* A large block stays live, so no step seems to begin. */
TEST(a_pool_that_has_lost_the_steps_follows_no_plan_until_it_finds_them_again)
{
    const struct step step = {.seed = 7, .count = 250, .streams = 1};
    tarn_resource *pool = begin();

    CHECK_EQUAL(3 * 250, planned_of(pool, &step, 1, 1, streams));
    tarn_device_ptr held = take(pool, GIB, streams[0]);
    for (uint64_t i = 0; i < 20; i++)
        step_run(pool, &(struct step){.seed = 100 + i, .count = 250, .streams = 1},
                 streams);
    uint64_t planned = statistics(pool).planned;
    step_run(pool, &step, streams);
    CHECK_EQUAL(planned, statistics(pool).planned);
    put(pool, held, GIB, streams[0]);
    for (int i = 0; i < 1000 && statistics(pool).planned < planned + 250; i++)
        step_run(pool, &step, streams);
    CHECK(statistics(pool).planned >= planned + 250);
    end(pool);
}

/* The captured blocks are in no plan. */
TEST(a_capture_between_two_steps_harms_nothing)
{
    const struct step step = {.seed = 9, .count = 200, .streams = 1};
    void *graph;
    tarn_resource *pool = begin();

    planned_of(pool, &step, 1, 1, streams);
    for (int i = 0; i < 4; i++) {
        CU(cuStreamBeginCapture_v2(streams[1], CAPTURE_RELAXED));
        tarn_device_ptr block = take(pool, MIB, streams[1]);
        step_run(pool, &step, streams);
        put(pool, block, MIB, streams[1]);
        CU(cuStreamEndCapture(streams[1], &graph));
        CU(cuGraphDestroy(graph));
    }
    CHECK_EQUAL(3 * 200, planned_of(pool, &step, 1, 1, streams));
    end(pool);
}

struct worker {
    tarn_resource *pool;
    const tarn_stream *stream;
};

static void *run_steps(void *data)
{
    const struct step step = {.seed = 10, .count = 40, .streams = 1};
    const struct worker *worker = data;

    for (int i = 0; i < 200; i++)
        step_run(worker->pool, &step, worker->stream);
    return NULL;
}

TEST(threads_that_run_freely_share_a_pool_that_looks_for_steps)
{
    struct worker workers[STEP_STREAMS];
    pthread_t threads[STEP_STREAMS];
    tarn_resource *pool = begin();

    for (int i = 0; i < STEP_STREAMS; i++) {
        workers[i] = (struct worker){pool, &streams[i]};
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, run_steps, &workers[i]));
    }
    for (int i = 0; i < STEP_STREAMS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    end(pool);
}

TEST(a_mark_of_the_program_ends_the_guesses)
{
    const struct step step = {.seed = 11, .count = 100, .streams = 1};
    tarn_resource *pool = begin();

    mark(pool);
    for (int i = 0; i < 30; i++)
        step_run(pool, &step, streams);
    CHECK_EQUAL(0, statistics(pool).steps_learned);
    mark(pool);
    CHECK_EQUAL(1, statistics(pool).steps_learned);
    end(pool);
}

/* Then it is a plain pool, whose thread caches keep blocks. */
TEST(a_search_in_vain_ends)
{
    tarn_resource *pool = begin();
    uint64_t seed = 12;

    for (uint32_t i = 0; i < TARN__DETECT_MOST; i++) {
        size_t bytes = 512 * (1 + (size_t)random_plan_below(&seed, 100000));
        if (i % 4096 == 0)
            CHECK_EQUAL(TARN_POOL_PLAN_LEARNING, statistics(pool).plan_state);
        put(pool, take(pool, bytes, streams[0]), bytes, streams[0]);
    }
    CHECK_EQUAL(TARN_POOL_PLAN_OFF_UNREPEATED, statistics(pool).plan_state);
    use_caches(pool);
    uint64_t hits = statistics(pool).cache_hits;
    for (int i = 0; i < 100; i++)
        put(pool, take(pool, 4 * KIB, streams[0]), 4 * KIB, streams[0]);
    CHECK(statistics(pool).cache_hits - hits > 90);
    end(pool);
}

TEST(steps_are_looked_for_in_a_pool_that_learns_alone)
{
    const tarn_pool_options options = {.size = sizeof options, .detect_steps = true};
    tarn_resource *pool = NULL;

    use_driver(0);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &options, &pool));
    CHECK_MESSAGE("detect_steps");
    CHECK(pool == NULL);
}
