/* Test which memory moves in a pool that learns several plans, and that in the end none does. */
#include "learn_blocks.h"
#include "pool/backing/vmm_table.h"
#include "pool/follow/cost.h"
#include "pool/follow/learn.h"
#include "pool/pool.h"

enum { ROUNDS = 6 };

/* Have a pool learn two steps, and run them in turn. Then `planned` allocations of each are
 * planned, none misses its slot, and no memory moves. */
static void learn_in_turn(void (*run)(tarn_resource *pool, int shape), uint64_t planned)
{
    begin();
    tarn_resource *pool = learning_pool();
    for (int shape = 0; shape < 2; shape++) {
        for (int i = 0; i < 2; i++) {
            mark(pool);
            run(pool, shape);
        }
        mark(pool);
        wait_for_plans(pool, (uint64_t)shape + 1);
    }
    tarn_pool_statistics before = statistics(pool);
    for (int round = 0; round < ROUNDS; round++) {
        for (int shape = 0; shape < 2; shape++) {
            mark(pool);
            run(pool, shape);
        }
        if (round == 0)
            before = statistics(pool);
    }
    tarn_pool_statistics after = statistics(pool);
    CHECK_EQUAL((ROUNDS - 1) * 2 * planned, after.planned - before.planned);
    CHECK_EQUAL(0, after.plan_missed - before.plan_missed);
    CHECK_EQUAL(before.moves, after.moves);
    CHECK(after.reserved <= before.reserved);
    end(pool);
}

/* --- steps that begin alike --- */

/* Take a first block, which lives as long as the step, and then large ones: two halves, or one
 * that is larger than both. */
static void run_after(tarn_resource *pool, int shape, size_t first)
{
    const size_t bytes = shape ? 200 * MIB : 64 * MIB;
    tarn_device_ptr blocks[2], kept = take(pool, first, streams[0]);

    for (int i = 0; i < 2 - shape; i++)
        blocks[i] = take(pool, bytes, streams[0]);
    for (int i = 0; i < 2 - shape; i++)
        put(pool, blocks[i], bytes, streams[0]);
    for (int i = 0; i < 1 + shape; i++)
        put(pool, take(pool, 2 * MIB, streams[0]), 2 * MIB, streams[0]);
    put(pool, kept, first, streams[0]);
}

static void run_after_small(tarn_resource *pool, int shape)
{
    run_after(pool, shape, 64 * KIB);
}

/* Behind the two halves it would be in the middle of the large block. */
TEST(a_small_block_that_two_steps_begin_with_is_in_the_way_of_neither)
{
    learn_in_turn(run_after_small, 4 - 1);
}

static void run_after_large(tarn_resource *pool, int shape)
{
    run_after(pool, shape, 4 * MIB);
}

/* Its address is that of the higher plan. */
TEST(a_large_block_that_two_steps_begin_with_is_in_the_way_of_neither)
{
    learn_in_turn(run_after_large, 4);
}

/* --- what a step leaves to the next one --- */

enum { GRADIENTS = 12, MORE = 5 };

static tarn_device_ptr gradients[GRADIENTS];

static void free_gradients(tarn_resource *pool)
{
    for (size_t i = 0; i < GRADIENTS; i++) {
        if (gradients[i])
            put(pool, gradients[i], (2 + i) * MIB, streams[0]);
        gradients[i] = 0;
    }
}

/* Run a step that frees the gradients of the one before, and leaves its own. Steps of one shape
 * have more blocks than the others. */
static void run_gradients(tarn_resource *pool, int shape)
{
    free_gradients(pool);
    for (size_t i = 0; i < (size_t)(shape ? GRADIENTS + MORE : GRADIENTS); i++) {
        size_t bytes = (20 + 2 * i + (size_t)shape) * MIB;
        put(pool, take(pool, bytes, streams[0]), bytes, streams[0]);
    }
    for (size_t i = 0; i < GRADIENTS; i++)
        gradients[i] = take(pool, (2 + i) * MIB, streams[0]);
}

/* Each is recorded behind a step of the other shape. */
TEST(what_a_step_of_another_length_frees_is_planned)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < test_patience(60000) && statistics(pool).plans_made < 2; i++) {
        mark(pool);
        run_gradients(pool, i % 2);
        nanosleep(&pause, NULL);
    }
    tarn_pool_statistics before = statistics(pool);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        mark(pool);
        run_gradients(pool, i % 2);
        if (i == 1)
            before = statistics(pool);
    }
    tarn_pool_statistics after = statistics(pool);
    CHECK_EQUAL((ROUNDS - 1) * (4 * GRADIENTS + MORE), after.planned - before.planned);
    CHECK_EQUAL(before.moves, after.moves);
    CHECK(after.reserved <= before.reserved);
    free_gradients(pool);
    end(pool);
}

/* --- memory that is returned --- */

/* Return how many marks it takes until the pool returns memory. */
static int marks_until_trim(tarn_resource *pool)
{
    for (int marks = 1; marks < 100; marks++) {
        size_t reserved = statistics(pool).reserved;
        mark(pool);
        if (statistics(pool).reserved < reserved)
            return marks;
        run_equal_blocks(pool, 2 * MIB, LARGE_BLOCKS);
    }
    return 0;
}

/* Programs that get new plans now and then would have no memory most of the time. */
TEST(memory_is_returned_less_and_less_often_behind_new_plans)
{
    begin();
    tarn_resource *pool = learning_pool();
    learn_equal_blocks(pool, 2 * MIB);
    learn_equal_blocks(pool, 3 * MIB);
    for (size_t i = 0; i < 3; i++) {
        run_equal_blocks(pool, 2 * MIB, LARGE_BLOCKS);
        CHECK_EQUAL((TARN__LEARN_SETTLED << i) - 1, marks_until_trim(pool));
        learn_equal_blocks(pool, (4 + i) * MIB);
    }
    end(pool);
}

/* --- large handles --- */

/* Return the bytes of the largest handle of the pool. */
static size_t largest_handle(tarn_resource *resource)
{
    struct tarn__pool *pool = inside(resource);
    struct tarn__span handle;
    size_t cursor = 0, most = 0;

    tarn__pool_lock(pool);
    while (tarn__vmm_table_next_handle(&pool->pages->vmm, &cursor, &handle))
        most = handle.bytes > most ? handle.bytes : most;
    tarn__pool_unlock(pool);
    return most;
}

/* Return how many steps the plan is followed until the pool has handles of 32 MiB. */
static int steps_to_large(tarn_resource *pool)
{
    int steps = 0;

    for (; steps < 4 * TARN__COST_STEPS && largest_handle(pool) < 32 * MIB; steps++)
        repeat_equal_blocks(pool, 8 * MIB, 1);
    return steps;
}

/* Run the step with work on its stream: each block has its bytes until it is freed. */
static void run_written_blocks(tarn_resource *pool)
{
    tarn_device_ptr blocks[LARGE_BLOCKS];
    unsigned char first, last;

    for (int i = 0; i < LARGE_BLOCKS; i++) {
        blocks[i] = take(pool, 8 * MIB, streams[0]);
        CHECK_OK(tarn_memset_async(0, blocks[i], i + 1, 8 * MIB, streams[0]));
    }
    CU(cuStreamSynchronize(streams[0]));
    for (int i = 0; i < LARGE_BLOCKS; i++) {
        CU(cuMemcpyDtoH_v2(&first, blocks[i], 1));
        CU(cuMemcpyDtoH_v2(&last, blocks[i] + 8 * MIB - 1, 1));
        CHECK(first == i + 1 && last == i + 1);
        put(pool, blocks[i], 8 * MIB, streams[0]);
    }
}

/* The driver looks an address up among all handles. */
TEST(memory_that_plans_have_settled_in_is_mapped_anew_in_large_handles)
{
    begin();
    tarn_resource *pool = learning_pool();
    learn_equal_blocks(pool, 8 * MIB);
    int steps = steps_to_large(pool);
    CHECK(steps > TARN__COST_STEPS && steps < 3 * TARN__COST_STEPS);
    run_written_blocks(pool);
    mark(pool);
    tarn_pool_statistics before = statistics(pool);
    CHECK_EQUAL(LARGE_BLOCKS * 8 * MIB, before.reserved);
    repeat_equal_blocks(pool, 8 * MIB, 3 * TARN__COST_STEPS);
    CHECK_EQUAL(before.reserved, statistics(pool).reserved);
    CHECK_EQUAL(before.growths, statistics(pool).growths);
    CHECK_EQUAL(before.moves, statistics(pool).moves);
    end(pool);
}

/* Memory moves to the addresses of a new plan, and small handles leave less behind. */
TEST(handles_are_small_until_a_period_without_a_new_plan_has_ended)
{
    begin();
    tarn_resource *pool = learning_pool();
    for (size_t i = 0; i < 8; i++) {
        learn_equal_blocks(pool, (12 - i) * MIB);
        repeat_equal_blocks(pool, 12 * MIB, TARN__COST_STEPS * 2 / 3);
        CHECK(largest_handle(pool) <= 4 * MIB);
    }
    end(pool);
}

/* --- the budget --- */

/* Moves of a pool that learns are free: when it ends learning, it has a budget. */
TEST(moves_while_a_pool_learns_are_not_paid_later)
{
    enum { BLOCKS = 40, BYTES = 4 * MIB };
    tarn_device_ptr blocks[BLOCKS];

    begin();
    tarn_resource *resource = learning_pool();
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(resource, BYTES, streams[0]);
    for (int i = 0; i < BLOCKS; i += 2)
        put(resource, blocks[i], BYTES, streams[0]);
    CU(cuCtxSynchronize());
    tarn_device_ptr large = take(resource, 20 * MIB, streams[0]);
    CHECK(statistics(resource).moves > 0);
    struct tarn__pool *pool = inside(resource);
    tarn__pool_lock(pool);
    CHECK_EQUAL(0, pool->moves_ns);
    tarn__pool_unlock(pool);
    put(resource, large, 20 * MIB, streams[0]);
    for (int i = 1; i < BLOCKS; i += 2)
        put(resource, blocks[i], BYTES, streams[0]);
    end(resource);
}
