/* Test planned allocations that are cache hits: the plan has the addresses of the block that
 * its thread freed last as the next ones. */
#include "learn.h"
#include "plans_of_blocks.h"

enum { PAIRS = 60, BYTES = 256 * 1024 };

static tarn_stream raw, stream; /* the same, not registered and registered */

static void open_stream(tarn_stream *raw_out, tarn_stream *registered_out)
{
    CU(cuStreamCreate(raw_out, NON_BLOCKING));
    CHECK_OK(tarn_stream_register(0, *raw_out, registered_out));
}

static void close_stream(tarn_stream its_raw, tarn_stream registered)
{
    CHECK_OK(tarn_stream_unregister(registered));
    CU(cuStreamDestroy_v2(its_raw));
}

static void begin(void)
{
    use_driver(0);
    open_stream(&raw, &stream);
}

static void end(tarn_resource *pool)
{
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    adds_up(pool);
    close_stream(raw, stream);
    end_pool(pool);
}

/* The pool counted so many allocations at planned addresses, and no other ones. */
static void end_with_planned(tarn_resource *pool, uint64_t count)
{
    CHECK_EQUAL(count, statistics(pool).planned);
    CHECK_EQUAL(0, statistics(pool).plan_missed);
    end(pool);
}

static void set_sizes(size_t *sizes, uint32_t count, size_t bytes)
{
    for (uint32_t i = 0; i < count; i++)
        sizes[i] = bytes;
}

/* Make a pool that follows pairs of an allocation and a free. */
static tarn_resource *pool_of_pairs(const size_t *sizes, uint32_t count)
{
    tarn_plan *plan = plan_of(sizes, count, 1, 1);
    tarn_resource *pool = follow(plan, 0);

    tarn_plan_release(plan);
    return pool;
}

static void run_pairs(tarn_resource *pool, size_t bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        put(pool, take(pool, bytes, stream), bytes, stream);
}

TEST(pairs_of_one_size_are_planned_and_hits)
{
    size_t sizes[PAIRS];

    begin();
    set_sizes(sizes, PAIRS, BYTES);
    tarn_resource *pool = pool_of_pairs(sizes, PAIRS);
    run_pairs(pool, BYTES, 1); /* it maps memory */
    uint64_t calls = statistics(pool).driver_calls;
    run_pairs(pool, BYTES, 3 * PAIRS - 1);
    CHECK_EQUAL(3 * PAIRS - 1, statistics(pool).cache_hits);
    CHECK_EQUAL(calls, statistics(pool).driver_calls);
    end_with_planned(pool, 3 * PAIRS);
}

TEST(pairs_on_a_raw_stream_are_planned_and_hits)
{
    size_t sizes[PAIRS];

    begin();
    set_sizes(sizes, PAIRS, BYTES);
    tarn_resource *pool = pool_of_pairs(sizes, PAIRS);
    for (int i = 0; i < PAIRS; i++)
        put(pool, take(pool, BYTES, raw), BYTES, raw);
    CHECK_EQUAL(PAIRS - 1, statistics(pool).cache_hits);
    end_with_planned(pool, PAIRS);
}

/* The next slot may begin at the same address and be larger or smaller, or lie across the
 * border of several. */
TEST(slots_of_other_sizes_get_the_memory_of_a_repeated_block)
{
    enum { SIZES = 12 };
    const size_t units[SIZES] = {1, 1, 1, 4, 4, 2, 2, 1, 1, 8, 8, 1};
    size_t sizes[SIZES];

    begin();
    for (int i = 0; i < SIZES; i++)
        sizes[i] = units[i] * BYTES;
    tarn_resource *pool = pool_of_pairs(sizes, SIZES);
    for (int pass = 0; pass < 4; pass++)
        run(pool, sizes, SIZES, 1, &stream, 1);
    /* 6 repeats in a pass, and the first of a pass repeats the last of the one before */
    CHECK_EQUAL(4 * 6 + 3, statistics(pool).cache_hits);
    CHECK(statistics(pool).peak_reserved <= 4 * MIB);
    end_with_planned(pool, 4 * SIZES);
}

/* Frees of other blocks, before and after the block is allocated again. */
TEST(frees_of_other_blocks_do_not_end_a_repeat)
{
    enum { COUNT = 8, PASSES = 5 };
    size_t sizes[COUNT];
    tarn_device_ptr kept, one;

    begin();
    set_sizes(sizes, COUNT, BYTES);
    tarn_plan *plan = plan_of(sizes, COUNT, COUNT, 1);
    /* the first block lives on; all others have the same address, one after the other */
    for (uint32_t i = 1; i < COUNT; i++)
        plan->slots[i] = (struct tarn__plan_slot){.start = 2 * i - 1,
                                                  .end = 2 * i,
                                                  .quanta = BYTES / QUANTUM,
                                                  .offset = BYTES / QUANTUM};
    plan->slots[0].end = 2 * COUNT - 1;
    plan->operations = 2 * COUNT;
    const tarn_plan_options options = {.size = sizeof options, .lag_operations = 1};
    CHECK_OK(tarn__make_layout(plan, &options));
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    for (int pass = 0; pass < PASSES; pass++) {
        CHECK_OK(tarn_pool_mark_step(pool));
        kept = take(pool, BYTES, stream);
        one = take(pool, BYTES, stream);
        put(pool, one, BYTES, stream);
        put(pool, kept, BYTES, stream); /* while the other one is in the thread cache */
        run_pairs(pool, BYTES, COUNT - 2);
    }
    CHECK_EQUAL(PASSES * (COUNT - 2), statistics(pool).cache_hits);
    end_with_planned(pool, PASSES * COUNT);
}

/* The program leaves repeats out, and adds some: those alone are missed. */
TEST(other_numbers_of_repeats_are_realigned)
{
    enum { RUNS = 30, LENGTH = 6, PASSES = 20 };
    size_t sizes[RUNS * LENGTH];
    uint64_t seed = 3, all = 0, more = 0;

    begin();
    for (int i = 0; i < RUNS * LENGTH; i++)
        sizes[i] = (size_t)(1 + i / LENGTH) * 4096;
    tarn_resource *pool = pool_of_pairs(sizes, RUNS * LENGTH);
    for (int pass = 0; pass < PASSES; pass++) {
        CHECK_OK(tarn_pool_mark_step(pool));
        for (uint32_t i = 0; i < RUNS; i++) {
            uint32_t count = LENGTH - 1 + random_plan_below(&seed, 3);
            run_pairs(pool, sizes[i * LENGTH], count);
            all += count;
            more += count > LENGTH;
        }
    }
    CHECK_EQUAL(more, statistics(pool).plan_missed);
    CHECK_EQUAL(all - more, statistics(pool).planned);
    CHECK(statistics(pool).cache_hits >= all - more - 2 * RUNS * PASSES);
    end(pool);
}

/* The plan is turned off while a block of another stream is repeated. */
TEST(hits_without_a_plan_are_not_planned)
{
    size_t sizes[PAIRS];
    tarn_stream other_raw, other;

    begin();
    open_stream(&other_raw, &other);
    set_sizes(sizes, PAIRS, BYTES);
    tarn_resource *pool = pool_of_pairs(sizes, PAIRS);
    run_pairs(pool, BYTES, PAIRS);
    for (int i = 0; i < 2000; i++)
        put(pool, take(pool, (size_t)(i + 7) * 512, other), (size_t)(i + 7) * 512, other);
    CHECK_EQUAL(TARN_POOL_PLAN_OFF_MISSED, statistics(pool).plan_state);
    uint64_t planned = statistics(pool).planned, hits = statistics(pool).cache_hits;
    CHECK(planned >= PAIRS);
    run_pairs(pool, BYTES, PAIRS);
    CHECK(statistics(pool).cache_hits - hits > PAIRS / 2);
    CHECK_EQUAL(planned, statistics(pool).planned);
    adds_up(pool);
    close_stream(other_raw, other);
    close_stream(raw, stream);
    end_pool(pool);
}

/* --- other threads --- */

static void *run_some(void *data)
{
    run_pairs(data, BYTES, 10);
    return NULL;
}

TEST(repeats_of_a_thread_that_ended_are_counted)
{
    size_t sizes[PAIRS];
    pthread_t thread;

    begin();
    set_sizes(sizes, PAIRS, BYTES);
    tarn_resource *pool = pool_of_pairs(sizes, PAIRS);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, run_some, pool));
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    CHECK_EQUAL(9, statistics(pool).cache_hits);
    end_with_planned(pool, 10);
}

/* The plan gives the memory to another stream, which finds it in a thread cache. */
TEST(another_stream_gets_the_memory_of_a_repeated_block)
{
    enum { COUNT = 12 };
    size_t sizes[COUNT];
    tarn_stream other_raw, other;

    begin();
    open_stream(&other_raw, &other);
    set_sizes(sizes, COUNT, BYTES);
    tarn_plan *plan = plan_of(sizes, COUNT, 1, 1);
    for (uint32_t i = COUNT / 2; i < COUNT; i++)
        plan->slots[i].stream = plan->slots[i].free_stream = 1;
    plan->streams = 2;
    const tarn_plan_options options = {.size = sizeof options, .lag_operations = 1};
    CHECK_OK(tarn__make_layout(plan, &options));
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    for (int pass = 0; pass < 3; pass++) {
        CHECK_OK(tarn_pool_mark_step(pool));
        run_pairs(pool, BYTES, COUNT / 2);
        for (int i = 0; i < COUNT / 2; i++)
            put(pool, take(pool, BYTES, other), BYTES, other);
    }
    CHECK(statistics(pool).cache_hits >= 3 * (COUNT - 2));
    CHECK(statistics(pool).peak_reserved <= 2 * MIB);
    close_stream(other_raw, other);
    end_with_planned(pool, 3 * COUNT);
}

static atomic_bool is_over;

static void *mark_often(void *data)
{
    while (!atomic_load(&is_over))
        CHECK_OK(tarn_pool_mark_step(data));
    return NULL;
}

TEST(marks_of_another_thread_end_repeats)
{
    enum { ROUNDS = 300 };
    size_t sizes[PAIRS];
    pthread_t thread;

    begin();
    set_sizes(sizes, PAIRS, BYTES);
    tarn_resource *pool = pool_of_pairs(sizes, PAIRS);
    run_pairs(pool, BYTES, PAIRS); /* it maps memory */
    atomic_store(&is_over, false);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, mark_often, pool));
    for (int i = 0; i < ROUNDS; i++)
        run_pairs(pool, BYTES, PAIRS);
    atomic_store(&is_over, true);
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    end_with_planned(pool, (ROUNDS + 1) * PAIRS);
}

/* --- pools that learn --- */

/* A step: blocks that live on, pairs in between, and blocks that the next step frees. */
static void run_step(tarn_resource *pool, tarn_device_ptr gradients[4])
{
    tarn_device_ptr blocks[40];

    for (int i = 0; i < 40; i++) {
        blocks[i] = take(pool, (size_t)(i + 1) * 8192, stream);
        run_pairs(pool, BYTES, 3);
    }
    for (int i = 0; i < 4; i++) {
        if (gradients[i])
            put(pool, gradients[i], MIB, stream);
        run_pairs(pool, BYTES / 2, 3);
        gradients[i] = take(pool, MIB, stream);
    }
    for (int i = 40; i-- > 0;)
        put(pool, blocks[i], (size_t)(i + 1) * 8192, stream);
}

TEST(a_step_that_was_learned_has_repeats)
{
    enum { STEP = 40 * 4 + 4 * 3, FIRST = 32, STEPS = 6 };
    tarn_device_ptr gradients[4] = {0};

    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < 4; i++) {
        run_step(pool, gradients);
        mark(pool);
    }
    wait_for_plans(pool, 1);
    mark(pool);
    uint64_t planned = statistics(pool).planned, hits = statistics(pool).cache_hits;
    for (int i = 0; i < STEPS; i++) {
        run_step(pool, gradients);
        mark(pool);
    }
    CHECK_EQUAL(0, statistics(pool).plan_missed);
    CHECK_EQUAL(STEPS * STEP, statistics(pool).planned - planned);
    /* the first requests of a step tell its shape; of three pairs two are hits */
    CHECK(statistics(pool).cache_hits - hits >= STEPS * 2 * (44 - FIRST / 4 - 1));
    CHECK_EQUAL(1, statistics(pool).plans_made);
    for (int i = 0; i < 4; i++)
        put(pool, gradients[i], MIB, stream);
    end_with_planned(pool, planned + STEPS * STEP);
}
