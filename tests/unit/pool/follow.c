/* Test that a pool follows a plan: matching, order, misses, its end, and bad plans. */
#include "plans_of_blocks.h"
#include "pool/compact/reclaimable.h"
#include "pool/follow/match.h"
#include "pool/follow/sequences.h"
#include "pool/order/fence.h"
#include "pool/pool.h"

/* --- matching, without a pool --- */

static uint32_t next_place_of(struct tarn__match match)
{
    tarn__match_begin(&match);
    if (!tarn__match_next(&match)) {
        tarn__match_reject(&match);
        return UINT32_MAX;
    }
    tarn__match_accept(&match);
    return match.place;
}

static uint32_t next_place(struct tarn__sequences *sequences, uint32_t quanta)
{
    return next_place_of((struct tarn__match){
        .sequences = sequences, .sequence = &sequences->all[0], .quanta = quanta});
}

/* Return the next place of a step with smaller blocks than those of the sequences. */
static uint32_t next_larger_place(struct tarn__sequences *sequences, uint32_t quanta)
{
    return next_place_of((struct tarn__match){.sequences = sequences,
                                              .sequence = &sequences->all[0],
                                              .quanta = quanta,
                                              .takes_larger = true});
}

static struct tarn__sequences *sequences_of(const uint32_t *quanta, uint32_t count)
{
    size_t sizes[SLOTS];

    for (uint32_t i = 0; i < count; i++)
        sizes[i] = (size_t)quanta[i] * QUANTUM;
    tarn_plan *plan = plan_of(sizes, count, 1, 1);
    struct tarn__sequences *sequences = tarn__sequences_new(plan, NULL);
    CHECK(sequences != NULL);
    tarn_plan_release(plan);
    return sequences;
}

TEST(an_inserted_or_left_out_allocation_costs_one_look)
{
    uint32_t quanta[200];

    for (uint32_t i = 0; i < 200; i++)
        quanta[i] = i + 1;
    struct tarn__sequences *sequences = sequences_of(quanta, 200);
    CHECK_EQUAL(0, next_place(sequences, 1));
    CHECK_EQUAL(UINT32_MAX, next_place(sequences, 999)); /* inserted */
    CHECK_EQUAL(1, next_place(sequences, 2));
    CHECK_EQUAL(5, next_place(sequences, 6)); /* three are left out */
    CHECK_EQUAL(6, next_place(sequences, 7));
    CHECK_EQUAL(3, next_place(sequences, 4)); /* one of them comes late */
    CHECK_EQUAL(4, next_place(sequences, 5));
    CHECK_EQUAL(7, next_place(sequences, 8)); /* those that were used are not again */
    for (uint32_t i = 8; i < 200; i++)
        CHECK_EQUAL(i, next_place(sequences, i + 1));
    CHECK_EQUAL(0, next_place(sequences, 1)); /* it begins anew */
    tarn__sequences_free(sequences);
}

TEST(the_last_eight_sizes_tell_the_place)
{
    uint32_t quanta[400], missed = 0;

    for (uint32_t i = 0; i < 400; i++)
        quanta[i] = i < 200 ? i + 1 : i % 7 + 1;
    struct tarn__sequences *sequences = sequences_of(quanta, 400);
    next_place(sequences, 1);
    /* 120 blocks are left out: the window of 64 places has none of them */
    for (uint32_t i = 121; i < 140; i++)
        missed += next_place(sequences, i + 1) != i;
    CHECK(missed > 0 && missed <= TARN__SEQUENCES_GRAM + TARN__SEQUENCES_GRAM_STEP);
    CHECK_EQUAL(140, next_place(sequences, 141));
    tarn__sequences_restart(sequences);
    CHECK_EQUAL(0, next_place(sequences, 1));
    tarn__sequences_free(sequences);
}

/* Have the last eight sizes lead to a place, which is not in the window of the cursor. */
static void check_leads_to(struct tarn__sequences *sequences, uint32_t cursor,
                           uint32_t place)
{
    const struct tarn__sequences_slot *slots = sequences->slots;

    tarn__sequences_restart(sequences);
    sequences->all[0].cursor = cursor;
    for (uint32_t i = TARN__SEQUENCES_GRAM - 1; i > 0; i--)
        CHECK_EQUAL(UINT32_MAX, next_place(sequences, slots[place - i].quanta));
    CHECK_EQUAL(place, next_place(sequences, slots[place].quanta));
    CHECK_EQUAL(place + 1, next_place(sequences, slots[place + 1].quanta));
}

TEST(the_last_eight_sizes_tell_each_fourth_place_ahead_and_behind)
{
    enum { FAR = 2 * TARN__MATCH_WINDOW };
    uint32_t quanta[SLOTS];

    for (uint32_t i = 0; i < SLOTS; i++)
        quanta[i] = i + 1;
    struct tarn__sequences *sequences = sequences_of(quanta, SLOTS);
    for (uint32_t place = TARN__SEQUENCES_GRAM - 1; place + 1 < SLOTS;
         place += TARN__SEQUENCES_GRAM_STEP) {
        if (place >= FAR)
            check_leads_to(sequences, place - FAR, place);
        if (place + FAR < SLOTS)
            check_leads_to(sequences, place + FAR, place);
    }
    tarn__sequences_free(sequences);
}

TEST(smaller_blocks_are_at_the_places_of_larger_ones_in_order)
{
    const uint32_t first[] = {800, 100, 1600, 200, 300, 7, 1000, 2000};
    uint32_t quanta[200];

    for (uint32_t i = 0; i < 200; i++)
        quanta[i] = i < 8 ? first[i] : 1;
    struct tarn__sequences *sequences = sequences_of(quanta, 200);
    CHECK_EQUAL(0, next_larger_place(sequences, 400));
    CHECK_EQUAL(1, next_larger_place(sequences, 100));
    CHECK_EQUAL(UINT32_MAX, next_larger_place(sequences, 6000)); /* larger than all */
    CHECK_EQUAL(2, next_larger_place(sequences, 1000)); /* though place 6 has that size */
    CHECK_EQUAL(4, next_larger_place(sequences, 250));  /* place 3 is too small */
    CHECK_EQUAL(UINT32_MAX,
                next_larger_place(sequences, 8)); /* 16 times: place 3 has more */
    CHECK_EQUAL(5, next_larger_place(sequences, 7));
    CHECK_EQUAL(7, next_larger_place(sequences, 1001));
    CHECK_EQUAL(3, next_larger_place(sequences, 200)); /* left out until now */
    tarn__sequences_free(sequences);
}

/* --- pools --- */

TEST(the_same_work_is_planned_and_takes_the_height_of_the_plan)
{
    size_t sizes[SLOTS];
    tarn_stream stream;

    use_driver(0);
    CU(cuStreamCreate(&stream, NON_BLOCKING));
    draw_sizes(sizes, SLOTS, 1);
    tarn_plan *plan = plan_of(sizes, SLOTS, 40, 1);
    tarn_plan_summary summary = {.size = sizeof summary};
    CHECK_OK(tarn_plan_summarize(plan, &summary));
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    for (int pass = 0; pass < 3; pass++)
        run(pool, sizes, SLOTS, 40, &stream, 1);
    tarn_pool_statistics all = statistics(pool);
    CHECK_EQUAL(3 * SLOTS, all.planned);
    CHECK_EQUAL(0, all.plan_missed);
    CHECK_EQUAL(0, all.cache_hits);
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, all.plan_state);
    CHECK(all.peak_reserved <= summary.height_bytes + 4 * MIB);
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(a_marked_step_begins_at_the_first_slot)
{
    size_t sizes[SLOTS];
    tarn_stream stream;

    use_driver(0);
    CU(cuStreamCreate(&stream, NON_BLOCKING));
    draw_sizes(sizes, SLOTS, 2);
    tarn_plan *plan = plan_of(sizes, SLOTS, 8, 1);
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    for (int step = 0; step < 4; step++) { /* each step ends early */
        CHECK_OK(tarn_pool_mark_step(pool));
        run(pool, sizes, 150 + 10 * (uint32_t)step, 8, &stream, 1);
    }
    CHECK_EQUAL(150 + 160 + 170 + 180, statistics(pool).planned);
    CHECK_EQUAL(0, statistics(pool).plan_missed);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(work_of_another_program_turns_the_plan_off)
{
    size_t sizes[SLOTS], others[SLOTS];
    tarn_stream stream;

    use_driver(0);
    CU(cuStreamCreate(&stream, NON_BLOCKING));
    draw_sizes(sizes, SLOTS, 3);
    for (int i = 0; i < SLOTS; i++)
        others[i] = 5 * MIB + (size_t)i * QUANTUM;
    tarn_plan *plan = plan_of(sizes, SLOTS, 8, 1);
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    for (int pass = 0; pass < 4; pass++)
        run(pool, others, SLOTS, 8, &stream, 1);
    CHECK_EQUAL(TARN_POOL_PLAN_OFF_MISSED, statistics(pool).plan_state);
    CHECK_EQUAL(0, statistics(pool).planned);
    CHECK_EQUAL(2 * SLOTS, statistics(pool).plan_missed);
    CHECK(statistics(pool).cache_hits == 0);
    run(pool, sizes, SLOTS, 1, &stream, 1);
    CHECK(statistics(pool).cache_hits + statistics(pool).same_stream > 0);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* The plan needs some MiB, and the pool has 512 MiB from the first. */
TEST(a_plan_of_far_less_than_the_pool_reserves_is_turned_off)
{
    size_t sizes[SLOTS];
    tarn_stream stream;
    tarn_resource *pool;

    use_driver(0);
    CU(cuStreamCreate(&stream, NON_BLOCKING));
    draw_sizes(sizes, SLOTS, 3);
    tarn_plan *plan = plan_of(sizes, SLOTS, 8, 1);
    const tarn_pool_options options = {
        .size = sizeof options, .initial_bytes = 512 * MIB, .plan = plan};
    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    tarn_plan_release(plan);
    for (int pass = 0; pass < 4; pass++)
        run(pool, sizes, SLOTS, 8, &stream, 1);
    CHECK_EQUAL(TARN_POOL_PLAN_OFF_MEMORY, statistics(pool).plan_state);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* The block that makes the peak of a step is part of it: the plan pays. */
TEST(a_plan_whose_largest_block_makes_the_peak_is_followed_on)
{
    size_t sizes[SLOTS];

    use_driver(0);
    tarn_stream stream = new_stream();
    for (uint32_t i = 0; i < SLOTS; i++)
        sizes[i] = 2 * MIB;
    sizes[SLOTS / 2] = 600 * MIB;
    sizes[SLOTS / 2 + 1] = 900 * MIB;
    tarn_plan *plan = plan_of(sizes, SLOTS, 2, 1);
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    for (int pass = 0; pass < 4; pass++) {
        CHECK_OK(tarn_pool_mark_step(pool));
        run(pool, sizes, SLOTS, 2, &stream, 1);
    }
    CHECK_EQUAL(TARN_POOL_PLAN_FOLLOWED, statistics(pool).plan_state);
    CHECK_EQUAL(4 * SLOTS, statistics(pool).planned);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* The plan gives two streams the same addresses, the device is far behind: the second
 * stream has to wait, or gets other addresses. */
TEST(a_planned_address_waits_for_the_stream_that_freed_it)
{
    size_t sizes[4] = {4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB};
    tarn_stream raw[2], streams[2];
    tarn_device_ptr block, other;
    struct gate gate;
    unsigned char found = 0;

    use_driver(0);
    for (int i = 0; i < 2; i++) {
        CU(cuStreamCreate(&raw[i], NON_BLOCKING));
        CHECK_OK(tarn_stream_register(0, raw[i], &streams[i]));
    }
    tarn_plan *plan = plan_of(sizes, 4, 1, 2);
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    CHECK_OK(tarn_resource_allocate(pool, 4 * MIB, 0, streams[0], &block));
    hold_up(raw[0], &gate);
    CU(cuMemsetD8Async(block, 1, 4 * MIB, raw[0]));
    CHECK_OK(tarn_resource_deallocate(pool, block, 4 * MIB, 0, streams[0]));
    CHECK_OK(tarn_resource_allocate(pool, 4 * MIB, 0, streams[1], &other));
    CHECK_EQUAL(block, other);
    CHECK_EQUAL(1, statistics(pool).stream_waits);
    CU(cuMemsetD8Async(other, 2, 4 * MIB, raw[1]));
    let_through(&gate);
    CU(cuStreamSynchronize(raw[1]));
    CU(cuMemcpyDtoH_v2(&found, other + 4 * MIB - 1, 1));
    CHECK_EQUAL(2, found);
    CHECK_OK(tarn_resource_deallocate(pool, other, 4 * MIB, 0, streams[1]));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tarn_stream_unregister(streams[i]));
        CU(cuStreamDestroy_v2(raw[i]));
    }
    end_pool(pool);
}

/* Make two raw streams, and set the sizes of large and small blocks in turn. */
static void begin_on_raw_streams(size_t *sizes, tarn_stream *streams)
{
    use_driver(0);
    for (int i = 0; i < SLOTS; i++)
        sizes[i] = i % 2 ? 1024 : 4 * MIB;
    for (int i = 0; i < 2; i++)
        streams[i] = new_stream();
}

static void end_with_all_planned(tarn_resource *pool, const tarn_stream *streams)
{
    CHECK_EQUAL(SLOTS, statistics(pool).planned);
    CHECK_EQUAL(0, statistics(pool).plan_missed);
    for (int i = 0; i < 2; i++)
        CU(cuStreamDestroy_v2(streams[i]));
    end_pool(pool);
}

/* No other thread can fence the frees of a raw stream. So it fences each free of which the
 * plan gives the memory to another stream, however small it is. */
TEST(raw_streams_hand_planned_memory_over)
{
    size_t sizes[SLOTS];
    tarn_stream streams[2];

    begin_on_raw_streams(sizes, streams);
    tarn_plan *plan = plan_of(sizes, SLOTS, 1, 2);
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    run(pool, sizes, SLOTS, 1, streams, 2);
    end_with_all_planned(pool, streams);
}

/* All blocks are allocated on one stream, and freed on another one. */
TEST(a_raw_stream_that_only_frees_hands_planned_memory_over)
{
    const tarn_plan_options options = {.size = sizeof options, .lag_operations = 1};
    size_t sizes[SLOTS];
    tarn_stream streams[2];

    begin_on_raw_streams(sizes, streams);
    tarn_plan *plan = plan_of(sizes, SLOTS, 1, 1);
    for (size_t i = 0; i < plan->count; i++)
        plan->slots[i].free_stream = 1;
    plan->streams = 2;
    CHECK_OK(tarn__make_layout(plan, &options));
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    for (int i = 0; i < SLOTS; i++)
        put(pool, take(pool, sizes[i], streams[0]), sizes[i], streams[1]);
    end_with_all_planned(pool, streams);
}

/* The stream itself has the memory next, also where no later slot of the plan has it. */
TEST(a_raw_stream_that_is_alone_in_a_plan_records_few_events)
{
    enum { COUNT = 10, PASSES = 40 };
    size_t sizes[COUNT];
    struct gate gate;

    use_driver(0);
    draw_sizes(sizes, COUNT, 6);
    tarn_stream stream = new_stream();
    tarn_plan *plan = plan_of(sizes, COUNT, COUNT, 1);
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    hold_up(stream, &gate); /* the pool needs no event of an idle stream */
    for (int pass = 0; pass < PASSES; pass++)
        run(pool, sizes, COUNT, COUNT, &stream, 1);
    let_on(&gate);
    CHECK_EQUAL(COUNT * PASSES, statistics(pool).planned);
    CHECK(statistics(pool).events_recorded < COUNT * PASSES / 8);
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}

TEST(a_live_block_at_a_planned_address_is_in_nobodys_way)
{
    size_t sizes[SLOTS];
    tarn_device_ptr kept[20];
    tarn_stream stream;

    use_driver(0);
    CU(cuStreamCreate(&stream, NON_BLOCKING));
    draw_sizes(sizes, SLOTS, 4);
    tarn_plan *plan = plan_of(sizes, SLOTS, 8, 1);
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    for (int i = 0; i < 20; i++) { /* the plan has eight at once */
        CHECK_OK(tarn_resource_allocate(pool, sizes[i], 0, stream, &kept[i]));
        for (int j = 0; j < i; j++)
            CHECK(kept[i] + sizes[i] <= kept[j] || kept[j] + sizes[j] <= kept[i]);
    }
    CHECK(statistics(pool).plan_missed > 0);
    run(pool, sizes, SLOTS, 8, &stream, 1);
    for (int i = 0; i < 20; i++)
        CHECK_OK(tarn_resource_deallocate(pool, kept[i], sizes[i], 0, stream));
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(a_maximum_below_the_height_is_followed_with_moves)
{
    size_t sizes[SLOTS];
    tarn_stream stream;

    use_driver(0);
    CU(cuStreamCreate(&stream, NON_BLOCKING));
    draw_sizes(sizes, SLOTS, 5);
    tarn_plan *plan = plan_of(sizes, SLOTS, 1, 1);
    for (size_t i = 0; i < plan->count; i++) /* each block is elsewhere */
        plan->slots[i].offset = (uint32_t)(i % 10 * 4096);
    plan->height = 10 * 4096;
    tarn_resource *pool = follow(plan, 4 * MIB);
    tarn_plan_release(plan);
    run(pool, sizes, SLOTS, 1, &stream, 1);
    CHECK_EQUAL(SLOTS, statistics(pool).planned + statistics(pool).plan_missed);
    CHECK(statistics(pool).planned > SLOTS / 2 && statistics(pool).moves > 10);
    CHECK(statistics(pool).peak_reserved <= 4 * MIB);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* Find so many bytes that the pool can reclaim. */
static void find_reclaimable(tarn_resource *resource, uint64_t wanted,
                             struct tarn__reclaimable *out)
{
    struct tarn__pool *pool = inside(resource);

    CHECK_OK(tarn__fences_wait_for_device(pool));
    CHECK_OK(tarn__pool_take_growth(pool));
    tarn__pool_assert_growth(pool);
    tarn__reclaimable_find(pool, wanted, UINT64_MAX, (struct tarn__span){0, 0}, out);
    tarn__pool_leave_growth(pool);
}

/* Its handles are smaller. */
TEST(memory_without_planned_addresses_is_reclaimed_first)
{
    const size_t bytes = 64 * MIB, other = 2 * MIB;
    static struct tarn__reclaimable found;

    use_driver(0);
    tarn_stream stream = new_stream();
    tarn_plan *plan = plan_of(&bytes, 1, 1, 1);
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    tarn_device_ptr planned = take(pool, bytes, stream),
                    outside = take(pool, other, stream);
    CHECK_EQUAL(1, statistics(pool).planned);
    put(pool, planned, bytes, stream);
    put(pool, outside, other, stream);
    find_reclaimable(pool, other, &found);
    CHECK_EQUAL(1, found.count);
    CHECK(!found.parts[0].is_planned);
    CHECK_EQUAL(outside, found.parts[0].span.address);
    find_reclaimable(pool, UINT64_MAX, &found);
    CHECK(found.count > 1 && found.parts[found.count - 1].is_planned);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* More blocks of a plan are free than the pool takes at once, and the last one is the largest.
 * Between two of them are addresses without memory. */
TEST(the_largest_free_blocks_of_a_plan_are_reclaimed)
{
    enum { MANY = TARN__RECLAIMABLE_MAX + 50 };
    static tarn_device_ptr blocks[MANY];
    static struct tarn__reclaimable found;
    static size_t sizes[MANY];
    uint32_t offset = 0;
    bool has_largest = false;

    use_driver(0);
    tarn_stream stream = new_stream();
    for (int i = 0; i < MANY; i++)
        sizes[i] = (i < MANY - 1 ? 2 : 64) * MIB;
    tarn_plan *plan = plan_of(sizes, MANY, MANY, 1);
    for (int i = 0; i < MANY; i++) {
        plan->slots[i].offset = offset;
        offset += (uint32_t)(2 * sizes[i] / QUANTUM);
    }
    plan->height = offset;
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    for (int i = 0; i < MANY; i++)
        blocks[i] = take(pool, sizes[i], stream);
    CHECK_EQUAL(MANY, statistics(pool).planned);
    for (int i = 0; i < MANY; i++)
        put(pool, blocks[i], sizes[i], stream);
    find_reclaimable(pool, UINT64_MAX, &found);
    CHECK_EQUAL(TARN__RECLAIMABLE_MAX - 1, found.count);
    for (unsigned i = 0; i < found.count; i++)
        has_largest = has_largest || found.parts[i].span.bytes > 32 * MIB;
    CHECK(has_largest);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* A pool of a plan whose slots are 2 MiB each, in a row, `live` at a time. It grows by 8
 * MiB. */
static tarn_resource *follow_in_steps(uint32_t live, tarn_pool_moves moves)
{
    enum { ROW = 10 };
    size_t sizes[ROW];
    tarn_pool_options options = {
        .size = sizeof options, .growth_bytes = 8 * MIB, .moves = moves};
    tarn_resource *pool;

    for (uint32_t i = 0; i < ROW; i++)
        sizes[i] = 2 * MIB;
    tarn_plan *plan = plan_of(sizes, ROW, live, 1);
    for (uint32_t i = 0; i < ROW; i++)
        plan->slots[i].offset = (uint32_t)(i * 2 * MIB / QUANTUM);
    plan->height = (uint32_t)(ROW * 2 * MIB / QUANTUM);
    options.plan = plan;
    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    tarn_plan_release(plan);
    return pool;
}

TEST(a_step_of_growth_at_a_planned_address_stays_below_the_maximum)
{
    enum { FIT = 3 };
    tarn_device_ptr blocks[FIT];

    use_driver(0);
    tarn_stream stream = new_stream();
    tarn_resource *pool = follow_in_steps(10, TARN_POOL_MOVES_DEFAULT);
    CHECK_OK(tarn_pool_set_maximum(pool, FIT * 2 * MIB)); /* below the step */
    for (int i = 0; i < FIT; i++)
        blocks[i] = take(pool, 2 * MIB, stream);
    CHECK_EQUAL(FIT, statistics(pool).planned);
    CHECK_EQUAL(FIT * 2 * MIB, statistics(pool).peak_reserved);
    for (int i = 0; i < FIT; i++)
        put(pool, blocks[i], 2 * MIB, stream);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* A request that would fail gets free memory of the plan, in this step alone. In the next step
 * the pool grows for such a request. */
TEST(memory_that_a_plan_lent_in_a_shortage_is_kept_for_it_from_the_next_step_on)
{
    enum { ALL = 10 };
    const size_t whole = ALL * 2 * MIB, other = 2 * MIB + 512;
    tarn_device_ptr blocks[ALL];

    use_driver(0);
    tarn_stream stream = new_stream();
    tarn_resource *pool = follow_in_steps(ALL, TARN_POOL_MOVES_NEVER);
    CHECK_OK(tarn_pool_set_maximum(pool, whole));
    for (int step = 0; step < 2; step++) {
        CHECK_OK(tarn_pool_mark_step(pool));
        tarn_device_ptr lent = step == 1 ? take(pool, other, stream) : 0;
        for (int i = 0; i < ALL; i++)
            blocks[i] = take(pool, 2 * MIB, stream);
        for (int i = 0; i < ALL; i++)
            put(pool, blocks[i], 2 * MIB, stream);
        CHECK_EQUAL((step + 1) * ALL, statistics(pool).planned);
        if (step == 0)
            lent = take(pool, other, stream);
        CHECK_EQUAL(step == 0, lent >= blocks[0] && lent < blocks[0] + whole);
        put(pool, lent, other, stream);
        CHECK_OK(tarn_pool_set_maximum(pool, 2 * whole));
    }
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* Memory of the same stream moves, which is completed, and memory of a stream that is behind. */
TEST(memory_that_moves_to_a_planned_address_waits_for_each_stream_that_used_it)
{
    const size_t sizes[] = {2 * MIB, 6 * MIB};
    tarn_stream raw[2], streams[2];
    unsigned char found = 0;
    struct gate gate;

    use_driver(0);
    for (int i = 0; i < 2; i++) {
        raw[i] = new_stream();
        CHECK_OK(tarn_stream_register(0, raw[i], &streams[i]));
    }
    tarn_plan *plan = plan_of(sizes, 2, 1, 1);
    plan->slots[1].offset = 2 * MIB / QUANTUM;
    plan->height = 8 * MIB / QUANTUM;
    tarn_resource *pool = follow(plan, 6 * MIB);
    tarn_plan_release(plan);
    tarn_device_ptr first = take(pool, 2 * MIB, streams[0]),
                    block = take(pool, 4 * MIB, streams[1]); /* outside of the plan */
    put(pool, first, 2 * MIB, streams[0]);
    hold_up(raw[1], &gate);
    CU(cuMemsetD8Async(block, 1, 4 * MIB, raw[1]));
    put(pool, block, 4 * MIB, streams[1]);
    block = take(pool, 6 * MIB, streams[0]);
    CU(cuMemsetD8Async(block, 2, 6 * MIB, raw[0]));
    let_on(&gate);
    CHECK_EQUAL(2, statistics(pool).planned);
    CHECK_EQUAL(1, statistics(pool).moves);
    CHECK_EQUAL(1, statistics(pool).stream_waits);
    for (size_t at = 0; at < 6 * MIB; at += MIB) {
        CU(cuMemcpyDtoH_v2(&found, block + at, 1));
        CHECK_EQUAL(2, found);
    }
    put(pool, block, 6 * MIB, streams[0]);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tarn_stream_unregister(streams[i]));
        CU(cuStreamDestroy_v2(raw[i]));
    }
    end_pool(pool);
}

/* The plan is higher than its peak of 2 MiB, so the pool moves memory rather than have
 * more. */
TEST(a_step_of_growth_at_a_planned_address_is_no_more_than_the_plan_needs)
{
    use_driver(0);
    tarn_stream stream = new_stream();
    tarn_resource *pool = follow_in_steps(1, TARN_POOL_MOVES_DEFAULT);
    tarn_device_ptr block = take(pool, 2 * MIB, stream);

    CHECK_EQUAL(1, statistics(pool).planned);
    CHECK_EQUAL(2 * MIB, statistics(pool).reserved);
    put(pool, block, 2 * MIB, stream);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(plans_that_cannot_be_followed_are_rejected)
{
    size_t sizes[2] = {MIB, MIB};
    tarn_resource *pool = NULL, *upstream;

    use_driver(0);
    tarn_plan *plan = plan_of(sizes, 2, 1, 1);
    tarn_pool_options options = {.size = sizeof options, .plan = plan};
    CHECK_OK(tarn_cuda_create(0, &upstream));
    CHECK_EQUAL(TARN_NOT_SUPPORTED, tarn_pool_create(0, upstream, &options, &pool));
    plan->slots[1].offset = UINT32_MAX - 5000;
    plan->height = UINT32_MAX - 5000 + plan->slots[1].quanta;
    CHECK_EQUAL(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &options, &pool));
    CHECK(pool == NULL);
    tarn_plan_release(plan);
    tarn_resource_release(upstream);
    CHECK_EQUAL(TARN_INVALID_ARGUMENT, tarn_pool_mark_step(NULL));
}

TEST(an_empty_plan_is_none)
{
    tarn_plan *plan;
    tarn_stream stream;
    size_t sizes[3] = {MIB, MIB, MIB};

    use_driver(0);
    CU(cuStreamCreate(&stream, NON_BLOCKING));
    CHECK_OK(tarn__make_empty(0, &plan));
    tarn_resource *pool = follow(plan, 0);
    tarn_plan_release(plan);
    CHECK_OK(tarn_pool_mark_step(pool));
    run(pool, sizes, 3, 1, &stream, 1);
    CHECK_EQUAL(0, statistics(pool).planned + statistics(pool).plan_missed);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}
