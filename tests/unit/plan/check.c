/* Test the verifier of plans: what a comparison of all pairs says, and each invariant. */
#include "works.h"
#include "plan/owners.h"
#include "plan/waits.h"

/* Slots for a test: small numbers, so that many plans are invalid. */
static tarn_plan *random_plan(uint64_t *seed)
{
    uint32_t count = 1 + (uint32_t)tarn__random_below(seed, 12), operations[24];
    tarn_plan *plan;

    CHECK_OK(tarn__make_empty(count, &plan));
    for (uint32_t i = 0; i < 2 * count; i++)
        operations[i] = i;
    for (uint32_t i = 2 * count - 1; i > 0; i--) {
        uint32_t j = (uint32_t)tarn__random_below(seed, i + 1), kept = operations[i];
        operations[i] = operations[j];
        operations[j] = kept;
    }
    for (uint32_t operation = 0; operation < 2 * count; operation++)
        for (uint32_t i = 0; i < count; i++) {
            uint32_t a = operations[2 * i], b = operations[2 * i + 1];
            if ((a < b ? a : b) != operation)
                continue;
            plan->slots[plan->count++] = (struct tarn__plan_slot){
                .start = operation,
                .end = a < b ? b : a,
                .quanta = 1 + (uint32_t)tarn__random_below(seed, 6),
                .offset = (uint32_t)tarn__random_below(seed, 24),
                .stream = (uint32_t)tarn__random_below(seed, 2),
                .free_stream = tarn__random_below(seed, 8) == 0
                                   ? TARN__PLAN_NO_STREAM
                                   : (uint32_t)tarn__random_below(seed, 2)};
        }
    plan->operations = 2 * count;
    plan->streams = 2;
    plan->threads = 1;
    plan->height = 30;
    plan->rules =
        (struct tarn__plan_rules){.lag = 1 + (uint32_t)tarn__random_below(seed, 6),
                                  .price = (uint32_t)tarn__random_below(seed, 8)};
    return plan;
}

/* The last slot before `to` that had a quantum of it. */
static const struct tarn__plan_slot *owner_of(const tarn_plan *plan, uint32_t quantum,
                                              const struct tarn__plan_slot *to)
{
    const struct tarn__plan_slot *owner = NULL;

    for (const struct tarn__plan_slot *slot = plan->slots; slot < to; slot++)
        if (slot->offset <= quantum && quantum < slot->offset + slot->quanta)
            owner = slot;
    return owner;
}

/* The last rule, quantum by quantum. */
static bool obeys(const tarn_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct tarn__plan_slot *to = &plan->slots[i];
        for (uint32_t q = to->offset; q < to->offset + to->quanta; q++) {
            const struct tarn__plan_slot *from = owner_of(plan, q, to);
            if (from &&
                from->end + tarn__plan_margin(&plan->rules, from->free_stream, to->stream,
                                              to->quanta < plan->rules.price) >
                    to->start)
                return false;
        }
    }
    return true;
}

TEST(the_verifier_agrees_with_a_comparison_of_all_pairs)
{
    unsigned valid = 0, invalid = 0;
    uint64_t seed = 7;

    for (int i = 0; i < 20000; i++) {
        tarn_plan *plan = random_plan(&seed);
        bool wanted = obeys(plan);
        CHECK_STATUS(wanted ? TARN_OK : TARN_BAD_FORMAT, tarn__check_plan("p", plan));
        wanted ? valid++ : invalid++;
        tarn_plan_release(plan);
    }
    CHECK(valid > 1000 && invalid > 1000);
}

/* A valid layout, one of whose blocks moves to where it was not. */
TEST(a_moved_block_is_found)
{
    struct work work = work_begin(4, 4);
    uint32_t live[16];
    uint64_t seed = 3;
    unsigned found = 0;

    for (int i = 0; i < 16; i++)
        live[i] = get(&work, skewed(&work, 512, 4), (uint32_t)i % 4);
    for (int i = 0; i < 150; i++) {
        unsigned which = (unsigned)below(&work, 16);
        drop(&work, live[which]);
        live[which] = get(&work, skewed(&work, 512, 4), which % 4);
    }
    tarn_plan *plan = work_end(&work);
    CHECK_OK(tarn__make_layout(plan, NULL));
    for (int i = 0; i < 300; i++) {
        struct tarn__plan_slot *slot =
            &plan->slots[tarn__random_below(&seed, plan->count)];
        uint32_t kept = slot->offset;
        slot->offset = (uint32_t)tarn__random_below(&seed, plan->height - slot->quanta);
        bool wanted = obeys(plan);
        CHECK_STATUS(wanted ? TARN_OK : TARN_BAD_FORMAT, tarn__check_plan("p", plan));
        found += !wanted;
        slot->offset = kept;
    }
    CHECK(found > 100);
    CHECK_OK(tarn__check_plan("p", plan));
    tarn_plan_release(plan);
}

static tarn_plan *two_blocks(void)
{
    tarn_plan *plan;

    CHECK_OK(tarn__make_empty(2, &plan));
    plan->slots[0] = (struct tarn__plan_slot){.start = 0, .end = 2, .quanta = 4};
    plan->slots[1] =
        (struct tarn__plan_slot){.start = 1, .end = 3, .quanta = 4, .offset = 4};
    plan->count = 2;
    plan->operations = 4;
    plan->streams = plan->threads = 1;
    plan->height = 8;
    return plan;
}

static void check_rejected(tarn_plan *plan, const char *message)
{
    CHECK_STATUS(TARN_BAD_FORMAT, tarn__check_plan("a.plan", plan));
    CHECK_MESSAGE(message);
    tarn_plan_release(plan);
}

TEST(each_broken_invariant_is_named)
{
    tarn_plan *plan = two_blocks();

    CHECK_OK(tarn__check_plan("a.plan", plan));
    plan->slots[1].offset = 3;
    check_rejected(plan, "a.plan: the blocks of operations 0 to 2 and 1 to 3 share "
                         "address 3");
    plan = two_blocks();
    plan->slots[1].start = 0;
    check_rejected(plan, "a.plan: block 1 begins at operation 0, not after 0");
    plan = two_blocks();
    plan->slots[1].end = 1;
    check_rejected(plan, "a.plan: block 1 lives from operation 1 to 1 of 4");
    plan = two_blocks();
    plan->slots[1].end = 5;
    check_rejected(plan, "a.plan: block 1 lives from operation 1 to 5 of 4");
    plan = two_blocks();
    plan->slots[1].end = 2;
    check_rejected(plan, "a.plan: block 1 ends at operation 2, which belongs to");
    plan = two_blocks();
    plan->slots[1].quanta = 0;
    check_rejected(plan, "a.plan: block 1 of 0 quanta at 4, of 8");
    plan = two_blocks();
    plan->slots[1].offset = UINT32_MAX - 1;
    check_rejected(plan, "a.plan: block 1 of 4 quanta at 4294967294, of 8");
    plan = two_blocks();
    plan->slots[0].free_stream = 1;
    check_rejected(plan, "a.plan: block 0 has streams 0 and 1 of 1, thread 0 of 1");
    plan = two_blocks();
    plan->slots[0].thread = 1;
    check_rejected(plan, "a.plan: block 0 has streams 0 and 0 of 1, thread 1 of 1");
    plan = two_blocks();
    plan->operations = 5;
    check_rejected(plan, "a.plan: 5 operations, 1 streams and 1 threads with 2 blocks");
}

/* --- waits ------------------------------------------------------------------------------- */

/* Blocks one after another at one place, on these streams, each freed before the next. */
static tarn_plan *relay(const uint32_t *streams, size_t count, uint32_t lag)
{
    tarn_plan *plan;

    CHECK_OK(tarn__make_empty(count, &plan));
    for (uint32_t i = 0; i < count; i++)
        plan->slots[plan->count++] = (struct tarn__plan_slot){.start = 2 * i,
                                                              .end = 2 * i + 1,
                                                              .quanta = 1,
                                                              .stream = streams[i],
                                                              .free_stream = streams[i]};
    plan->operations = 2 * (uint32_t)count;
    plan->streams = 3;
    plan->threads = plan->height = 1;
    plan->rules.lag = lag;
    return plan;
}

TEST(a_wait_is_expected_for_another_streams_late_free)
{
    static const uint32_t streams[] = {0, 0, 1, 1, 0};
    tarn_plan *plan = relay(streams, 5, 100);

    CHECK_OK(tarn__waits_count(plan));
    CHECK_EQUAL(2, plan->handovers);
    CHECK_EQUAL(2, plan->waits);
    plan->rules.lag = 1; /* all frees are done by then */
    CHECK_OK(tarn__waits_count(plan));
    CHECK_EQUAL(2, plan->handovers);
    CHECK_EQUAL(0, plan->waits);
    tarn_plan_release(plan);
}

TEST(the_next_stream_at_the_addresses_is_known)
{
    static const uint32_t streams[] = {0, 0, 1, 1, 0};
    static const enum tarn__plan_next expected[] = {
        TARN__PLAN_NEXT_SAME, TARN__PLAN_NEXT_OTHER, TARN__PLAN_NEXT_SAME,
        TARN__PLAN_NEXT_OTHER, TARN__PLAN_NEXT_NOBODY};
    tarn_plan *plan = relay(streams, 5, 100);

    plan->slots[4].next = TARN__PLAN_NEXT_OTHER; /* of an earlier count */
    CHECK_OK(tarn__waits_count(plan));
    for (int i = 0; i < 5; i++)
        CHECK_EQUAL(expected[i], plan->slots[i].next);
    tarn_plan_release(plan);
}

/* Two blocks of stream 0 are freed; stream 1 takes both, and waits once. */
TEST(a_wait_covers_earlier_frees)
{
    tarn_plan *plan;

    CHECK_OK(tarn__make_empty(4, &plan));
    for (uint32_t i = 0; i < 4; i++)
        plan->slots[plan->count++] = (struct tarn__plan_slot){.start = i < 2 ? i : 2 + i,
                                                              .end = i < 2 ? 2 + i : 6,
                                                              .quanta = 1,
                                                              .offset = i % 2,
                                                              .stream = i / 2,
                                                              .free_stream = i / 2};
    plan->operations = 6;
    plan->streams = plan->height = 2;
    plan->threads = 1;
    plan->rules.lag = 100;
    CHECK_OK(tarn__check_plan("p", plan));
    CHECK_OK(tarn__waits_count(plan));
    CHECK_EQUAL(2, plan->handovers);
    CHECK_EQUAL(1, plan->waits);
    tarn_plan_release(plan);
}
