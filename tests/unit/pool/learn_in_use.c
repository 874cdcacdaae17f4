/* Test plans of a pool that learns whose addresses other blocks have: those stay. */
#include "learn_blocks.h"

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
