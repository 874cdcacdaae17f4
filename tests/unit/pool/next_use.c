/* Test when a plan needs its addresses again, and that pages move in that order. */
#include "pool/follow/next_use.h"
#include "plans_of_blocks.h"
#include "pool/follow/sequences.h"
#include "pool/order/fence.h"

/* --- the table --- */

enum { COUNT = 300, PAGE_QUANTA = 4096, PAGES = 64 };

/* Return the distance as it is defined. */
static uint32_t expected(const tarn_plan *plan, uint64_t offset, uint64_t quanta,
                         uint32_t now)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < COUNT; i++) {
        const struct tarn__plan_slot *slot = &plan->slots[i];
        uint32_t distance = (i + COUNT - now) % COUNT;
        uint64_t begin = slot->offset / PAGE_QUANTA * PAGE_QUANTA;
        uint64_t end = (uint64_t)slot->offset + slot->quanta;
        if (slot->offset != TARN__SEQUENCES_OUTSIDE && begin < offset + quanta &&
            offset < (end + PAGE_QUANTA - 1) / PAGE_QUANTA * PAGE_QUANTA)
            least = distance < least ? distance : least;
    }
    return least;
}

/* Make a plan of slots of less than a page, some of them outside of the layout. */
static tarn_plan *plan_of_small(uint64_t *seed)
{
    tarn_plan *plan;

    CHECK_OK(tarn__make_empty(COUNT, &plan));
    for (uint32_t i = 0; i < COUNT; i++) {
        plan->slots[i].quanta = 1 + random_plan_below(seed, PAGE_QUANTA);
        plan->slots[i].offset = random_plan_below(seed, (PAGES - 2) * PAGE_QUANTA);
        if (i % 10 == 9)
            plan->slots[i].offset = TARN__SEQUENCES_OUTSIDE;
    }
    plan->count = COUNT;
    plan->height = PAGES * PAGE_QUANTA;
    return plan;
}

static void make_table(struct tarn__next_uses *uses, const tarn_plan *plan)
{
    uint32_t *times = calloc(COUNT, sizeof *times);

    CHECK(times != NULL);
    CHECK(tarn__next_uses_init(uses, plan, times));
}

TEST(the_next_use_is_that_of_the_first_slot_with_some_of_the_pages)
{
    struct tarn__next_uses uses;
    uint64_t seed = 1;

    for (int round = 0; round < 5; round++) {
        tarn_plan *plan = plan_of_small(&seed);
        make_table(&uses, plan);
        CHECK(tarn__next_uses_bytes(&uses) <= 12 * COUNT + 4 * (PAGES + 1));
        for (int i = 0; i < 2000; i++) {
            uint64_t page = random_plan_below(&seed, PAGES + 3);
            uint64_t pages = 1 + random_plan_below(&seed, 3);
            uint32_t now = random_plan_below(&seed, COUNT);
            CHECK_EQUAL(expected(plan, page * PAGE_QUANTA, pages * PAGE_QUANTA, now),
                        tarn__next_uses_distance(&uses, page * PAGE_QUANTA,
                                                 pages * PAGE_QUANTA, now));
        }
        tarn__next_uses_free(&uses);
        tarn_plan_release(plan);
    }
}

TEST(large_blocks_make_no_large_table)
{
    struct tarn__next_uses uses;
    tarn_plan *plan;

    CHECK_OK(tarn__make_empty(COUNT, &plan));
    for (uint32_t i = 0; i < COUNT; i++)
        plan->slots[i] = (struct tarn__plan_slot){.quanta = 100 * PAGE_QUANTA,
                                                  .offset = i % 7 * 512 * PAGE_QUANTA};
    plan->count = COUNT;
    plan->height = 7 * 512 * PAGE_QUANTA;
    make_table(&uses, plan);
    CHECK(tarn__next_uses_bytes(&uses) <= 16 * COUNT);
    CHECK_EQUAL(3, tarn__next_uses_distance(&uses, (3 * 512 + 50) * PAGE_QUANTA, 1, 0));
    CHECK_EQUAL(5, tarn__next_uses_distance(&uses, (512 + 50) * PAGE_QUANTA, 1, 3));
    tarn__next_uses_free(&uses);
    tarn_plan_release(plan);
}

/* Threads and streams in turn: the slots of the sequences are in another order than those of
 * the plan. */
TEST(each_slot_of_the_sequences_knows_its_number_in_the_plan)
{
    size_t sizes[SLOTS];

    draw_sizes(sizes, SLOTS, 3);
    tarn_plan *plan = plan_of(sizes, COUNT, 20, 3);
    plan->peak_live_bytes /= 2; /* the plan is far higher */
    struct tarn__sequences *sequences = tarn__sequences_new(plan, NULL);
    CHECK(sequences != NULL && sequences->next_uses.pages.count > 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct tarn__plan_slot *slot = &plan->slots[sequences->next_uses.times[i]];
        CHECK_EQUAL(slot->offset, sequences->slots[i].offset);
        CHECK_EQUAL(slot->quanta, sequences->slots[i].quanta);
        CHECK_EQUAL(i / (COUNT / 3), slot->stream);
    }
    tarn__sequences_free(sequences);
    tarn_plan_release(plan);
}

/* --- pools --- */

enum { BLOCK = 8 << 20, TURNS = 10, STEP = 1 + 2 * TURNS + 2 };

/* A step of three blocks with addresses of their own, of which two are live at once at its end:
 * one block once, then two in turn. */
static tarn_plan *plan_of_three(uint32_t turns)
{
    const uint32_t quanta = BLOCK / QUANTUM, step = 1 + 2 * turns + 2;
    tarn_plan *plan;

    CHECK_OK(tarn__make_empty(step, &plan));
    for (uint32_t i = 0; i < step; i++)
        plan->slots[i] =
            (struct tarn__plan_slot){.start = 2 * i,
                                     .end = 2 * i + 1,
                                     .quanta = quanta,
                                     .offset = i == 0 ? 2 * quanta : i % 2 * quanta};
    plan->slots[step - 1].start--;
    plan->slots[step - 2].end++;
    plan->count = step;
    plan->operations = 2 * step;
    plan->streams = plan->threads = 1;
    plan->height = 3 * quanta;
    plan->peak_live_bytes = 2 * BLOCK;
    return plan;
}

static void run_three(tarn_resource *pool, size_t first, tarn_stream stream)
{
    put(pool, take(pool, first, stream), first, stream);
    for (int i = 0; i < 2 * TURNS; i++)
        put(pool, take(pool, BLOCK, stream), BLOCK, stream);
    tarn_device_ptr last[2] = {take(pool, BLOCK, stream), take(pool, BLOCK, stream)};
    put(pool, last[0], BLOCK, stream);
    put(pool, last[1], BLOCK, stream);
}

/* Have the pool know that the device has done all its work. */
static void complete(tarn_resource *pool)
{
    CHECK_OK(tarn__fences_wait_for_device(inside(pool)));
}

/* Follow the plan in some steps, with a first block of so many bytes. If `is_behind`, the device
 * does the work of a step behind the mark of the next one. */
static void follow_three(size_t first, bool is_behind)
{
    enum { STEPS = 6 };
    struct gate gate;

    use_driver(0);
    tarn_stream stream = new_stream();
    tarn_plan *plan = plan_of_three(TURNS);
    plan->slots[0].quanta = (uint32_t)(first / QUANTUM);
    plan->height = plan->slots[0].offset + plan->slots[0].quanta;
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    for (int step = 0; step < STEPS; step++) {
        CHECK_OK(tarn_pool_mark_step(pool));
        if (is_behind && step > 0)
            let_on(&gate);
        complete(pool);
        if (is_behind)
            hold_up(stream, &gate);
        run_three(pool, first, stream);
    }
    if (is_behind)
        let_on(&gate);
    CHECK_EQUAL(STEPS * STEP, statistics(pool).planned);
    CHECK(statistics(pool).peak_reserved <= 2 * BLOCK + 2 * MIB);
    CHECK(statistics(pool).moves <= 2 * STEPS);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* The memory of the first block moves to the others, and not theirs to each other. */
TEST(the_pages_that_are_needed_last_move)
{
    follow_three(BLOCK, false);
}

/* The old addresses of the first block stay in use until the step ends, and are free again in
 * the next one. The memory of the other blocks stays where it is, even if that of the first one
 * is not enough. */
TEST(behind_event_fences_pages_move_that_the_step_needs_no_more)
{
    follow_three(BLOCK, true);
    follow_three(BLOCK / 2, true);
}

static uint32_t aim_part_of(const tarn_plan *plan, bool is_whole)
{
    const struct tarn__sequences_memory memory = {plan->peak_live_bytes, 0};
    struct tarn__sequences *sequences =
        tarn__sequences_new(plan, is_whole ? NULL : &memory);

    CHECK(sequences != NULL);
    uint32_t part = sequences->aim_part;
    CHECK_EQUAL(sequences->height > sequences->peak_live + sequences->peak_live / part,
                sequences->next_uses.pages.count > 0);
    tarn__sequences_free(sequences);
    return part;
}

/* Return true if the sequences have a table where a pool has such a peak, and half of the
 * plan's peak outside of the layout. */
static bool has_table(const tarn_plan *plan, uint64_t peak)
{
    const struct tarn__sequences_memory memory = {peak, plan->peak_live_bytes / 2};
    struct tarn__sequences *sequences = tarn__sequences_new(plan, &memory);

    CHECK(sequences != NULL);
    bool has = sequences->next_uses.pages.count > 0;
    tarn__sequences_free(sequences);
    return has;
}

/* The first block's memory moves to the others, and back in the next step. */
TEST(the_aim_is_the_lowest_one_that_takes_few_moves)
{
    const size_t sizes[4] = {MIB, MIB, MIB, MIB};

    tarn_plan *plan = plan_of_three(1000);
    CHECK_EQUAL(118, aim_part_of(plan, true));
    CHECK_EQUAL(66, aim_part_of(plan, false));
    CHECK(has_table(plan, 3 * plan->peak_live_bytes / 2));
    CHECK(!has_table(plan, 2 * plan->peak_live_bytes));
    tarn_plan_release(plan);
    plan = plan_of_three(TURNS);
    CHECK_EQUAL(52, aim_part_of(plan, true));
    plan->slots[0].quanta = 2 * (BLOCK / QUANTUM) / 70;
    plan->height = plan->slots[0].offset + plan->slots[0].quanta;
    CHECK_EQUAL(66, aim_part_of(plan, true)); /* the plan is no higher */
    tarn_plan_release(plan);
    plan = plan_of(sizes, 4, 1, 2);
    CHECK_EQUAL(33, aim_part_of(plan, true));
    tarn_plan_release(plan);
}
