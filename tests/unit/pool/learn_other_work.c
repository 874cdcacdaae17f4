/* Test the memory of a pool that learns where a step is not as its plan: it becomes other work, or
 * addresses of the plan are in use. */
#include "learn_blocks.h"

/* Take and free small blocks, one after another. */
static void run_small(tarn_resource *pool)
{
    for (size_t i = 1; i <= 40; i++)
        put(pool, take(pool, i * 8 * KIB, streams[0]), i * 8 * KIB, streams[0]);
}

enum { KEPT_BLOCKS = 100, OTHER_BLOCKS = 24 };

/* Run work whose sizes change: blocks that are live at once, in four rounds. */
static void run_evaluation(tarn_resource *pool)
{
    tarn_device_ptr blocks[OTHER_BLOCKS];
    size_t sizes[OTHER_BLOCKS];

    for (size_t round = 0; round < 4; round++) {
        for (size_t i = 0; i < OTHER_BLOCKS; i++) {
            sizes[i] = (2 + (i * 7 + round * 3) % 5) * MIB + (i + 1) * 4 * KIB;
            blocks[i] = take(pool, sizes[i], streams[0]);
        }
        for (size_t i = 0; i < OTHER_BLOCKS; i++)
            put(pool, blocks[i], sizes[i], streams[0]);
    }
}

/* Run a step of small blocks, and of others that are live at once. */
static void run_training(tarn_resource *pool, bool evaluates)
{
    tarn_device_ptr blocks[KEPT_BLOCKS];

    run_small(pool);
    if (evaluates)
        run_evaluation(pool);
    for (size_t i = 0; i < KEPT_BLOCKS; i++)
        blocks[i] = take(pool, (i + 1) * 32 * KIB, streams[0]);
    for (size_t i = 0; i < KEPT_BLOCKS; i++)
        put(pool, blocks[i], (i + 1) * 32 * KIB, streams[0]);
}

/* An evaluation behind the same mark, for example. The pool leaves the plan where it begins, and
 * the free memory of the area serves it. */
TEST(other_work_within_a_step_uses_the_memory_of_the_plan)
{
    begin();
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < 4; i++) {
        mark(pool);
        run_training(pool, false);
        if (i == 2)
            wait_for_plans(pool, 1);
    }
    uint64_t moves = statistics(pool).moves;
    for (int i = 0; i < 20; i++) {
        bool has_other = i % 2 == 0;
        uint64_t planned = statistics(pool).planned;
        mark(pool);
        run_training(pool, has_other);
        CHECK(has_other || statistics(pool).planned - planned == 40 + KEPT_BLOCKS);
    }
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    /* 659 if the pool stays with the plan */
    CHECK(statistics(pool).moves - moves <= 300);
    end(pool);
}

/* Run large blocks, of which the first has half of the addresses of the plan. */
static void run_large(tarn_resource *pool)
{
    const size_t first = 60 * MIB, half = 64 * MIB;

    put(pool, take(pool, first, streams[0]), first, streams[0]);
    tarn_device_ptr one = take(pool, half, streams[0]),
                    other = take(pool, half, streams[0]);
    put(pool, one, half, streams[0]);
    put(pool, other, half, streams[0]);
}

static void run_halves(tarn_resource *pool)
{
    run_small(pool);
    run_large(pool);
}

/* Learn the plan of run_halves(), and follow it. */
static tarn_resource *pool_of_halves(void)
{
    tarn_resource *pool = learning_pool();

    for (int i = 0; i < 5; i++) {
        mark(pool);
        run_halves(pool);
        if (i == 2)
            wait_for_plans(pool, 1);
    }
    mark(pool);
    return pool;
}

/* A block that stays has some of the addresses of the first large block. The other half is free,
 * and no memory moves for it. */
TEST(a_block_whose_addresses_are_in_use_gets_other_memory_of_the_plan)
{
    begin();
    tarn_resource *pool = pool_of_halves();
    tarn_device_ptr kept = take(pool, 2 * MIB, streams[0]);
    mark(pool);
    run_small(pool);
    tarn_pool_statistics before = statistics(pool);
    put(pool, take(pool, 60 * MIB, streams[0]), 60 * MIB, streams[0]);
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    CHECK_EQUAL(before.planned, statistics(pool).planned);
    CHECK_EQUAL(before.moves, statistics(pool).moves);
    CHECK_EQUAL(before.reserved, statistics(pool).reserved);
    put(pool, kept, 2 * MIB, streams[0]);
    end(pool);
}

/* Else it would be in the way of the step's next blocks. */
TEST(a_block_that_no_slot_fits_gets_no_memory_of_the_plan)
{
    begin();
    tarn_resource *pool = pool_of_halves();
    uint64_t planned = statistics(pool).planned;
    run_small(pool);
    tarn_device_ptr kept = take(pool, 50 * MIB, streams[0]);
    run_large(pool);
    CHECK_EQUAL(40 + 3, statistics(pool).planned - planned);
    put(pool, kept, 50 * MIB, streams[0]);
    end(pool);
}

/* The plan needs its memory later in the step. But the pool may not reserve that much more. */
TEST(memory_of_the_plan_moves_for_a_block_that_no_slot_fits)
{
    struct gate gate;

    begin();
    tarn_resource *pool = pool_of_halves();
    hold_up(streams[0], &gate);
    run_halves(pool);
    mark(pool);
    run_small(pool);
    tarn_pool_statistics before = statistics(pool);
    tarn_device_ptr other = take(pool, 50 * MIB, streams[0]);
    CHECK_EQUAL(before.planned, statistics(pool).planned);
    CHECK_EQUAL(before.moves + 1, statistics(pool).moves);
    CHECK_EQUAL(before.reserved, statistics(pool).reserved);
    let_on(&gate);
    put(pool, other, 50 * MIB, streams[0]);
    run_large(pool);
    CHECK_EQUAL(before.reserved, statistics(pool).reserved);
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    end(pool);
}

enum { LENT_BLOCKS = 20, LENT_BYTES = 8 * MIB, SMALLER_BYTES = 6 * MIB };

/* The plan has slots for the rest of such a step, too, but they are those of other work. Behind
 * its event fences their memory moves, and the pool does not grow. */
TEST(free_memory_of_a_borrowed_plan_moves)
{
    tarn_device_ptr blocks[LENT_BLOCKS];
    struct gate gate;

    begin();
    tarn_resource *pool = learning_pool();
    learn_equal_blocks(pool, LENT_BYTES);
    for (int i = 0; i < 2; i++) {
        run_equal_blocks(pool, LENT_BYTES, LENT_BLOCKS);
        mark(pool);
    }
    hold_up(streams[0], &gate);
    for (int i = 0; i < LENT_BLOCKS; i++)
        blocks[i] = take(pool, SMALLER_BYTES, streams[0]);
    for (int i = 0; i < LENT_BLOCKS; i += 2)
        put(pool, blocks[i], SMALLER_BYTES, streams[0]);
    tarn_pool_statistics before = statistics(pool);
    CHECK_EQUAL(LENT_BLOCKS, before.planned - 2 * LENT_BLOCKS);
    tarn_device_ptr large = take(pool, 5 * LENT_BYTES, streams[0]);
    CHECK_EQUAL(before.reserved, statistics(pool).reserved);
    CHECK_EQUAL(before.moves + 1, statistics(pool).moves);
    let_on(&gate);
    put(pool, large, 5 * LENT_BYTES, streams[0]);
    for (int i = 1; i < LENT_BLOCKS; i += 2)
        put(pool, blocks[i], SMALLER_BYTES, streams[0]);
    end(pool);
}
