/* Test layouts of generated work: every one is valid, and none is far from the bound. */
#include "works.h"
#include "plan/waits.h"

/* Do two slots break the rules? The verifier says so without comparing all pairs. */
static bool is_broken(const tarn_plan *plan, const struct tarn__plan_slot *a,
                      const struct tarn__plan_slot *b)
{
    if (a->offset >= b->offset + b->quanta || b->offset >= a->offset + a->quanta)
        return false;
    return a->start < b->end && b->start < a->end && plan->height > 0;
}

static void check_each_pair(const tarn_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(!is_broken(plan, &plan->slots[i], &plan->slots[j]));
}

static double ratio_of(const tarn_plan *plan)
{
    uint64_t bound;

    CHECK(tarn__layout_bound(plan, &bound));
    CHECK(plan->height >= bound);
    return bound ? (double)plan->height / (double)bound : 1;
}

/* The worst ratio of some seeds. TARN_TEST_SEEDS sets their number, and adds 32 streams. */
static double worst_of(const struct kind *kind, unsigned streams)
{
    const char *more = getenv("TARN_TEST_SEEDS");
    unsigned seeds = more ? (unsigned)atoi(more) : 1;
    double worst = 1, sum = 0;
    uint64_t waits = 0, blocks = 0;

    for (unsigned seed = 1; seed <= seeds; seed++) {
        tarn_plan *plan = laid_out(kind, seed, streams, NULL);
        CHECK_OK(tarn__check_plan("plan", plan));
        double ratio = ratio_of(plan);
        worst = ratio > worst ? ratio : worst;
        sum += ratio;
        waits += plan->waits;
        blocks += plan->count;
        tarn_plan_release(plan);
    }
    print_message("%-14s %2u streams: mean %.4f, worst %.4f, waits %.1f in 1,000 of %u "
                  "plans\n",
                  kind->name, streams, sum / seeds, worst,
                  1000.0 * (double)waits / (double)blocks, seeds);
    return worst;
}

TEST(layouts_are_valid_and_near_the_bound)
{
    for (int i = 0; i < KINDS; i++)
        CHECK(worst_of(&kinds[i], 1) <= kinds[i].one / 1000.0);
}

TEST(layouts_of_several_streams_are_valid_and_near_the_bound)
{
    static const unsigned streams[] = {4, 32};

    for (int i = 0; i < KINDS; i++)
        for (int j = 0; j < (getenv("TARN_TEST_SEEDS") ? 2 : 1); j++)
            CHECK(worst_of(&kinds[i], streams[j]) <= kinds[i].several / 1000.0);
}

TEST(no_two_blocks_of_a_layout_share_memory_at_one_time)
{
    for (int i = 1; i < KINDS; i += 2) {
        tarn_plan *plan = laid_out(&kinds[i], 5, i % 4 == 1 ? 4 : 1, NULL);
        plan->count = plan->count < 4000 ? plan->count : 4000;
        check_each_pair(plan);
        tarn_plan_release(plan);
    }
}

TEST(the_same_work_has_the_same_layout)
{
    tarn_plan *one = laid_out(&kinds[1], 3, 8, NULL);
    tarn_plan *other = laid_out(&kinds[1], 3, 8, NULL);

    CHECK_EQUAL(one->height, other->height);
    CHECK(memcmp(one->slots, other->slots, one->count * sizeof *one->slots) == 0);
    tarn_plan_release(one);
    tarn_plan_release(other);
}

TEST(more_effort_is_never_worse)
{
    const tarn_plan_options more = {.size = sizeof more, .effort = 2};

    for (int i = 1; i < KINDS; i += 3) {
        tarn_plan *one = laid_out(&kinds[i], 9, 4, NULL);
        tarn_plan *other = laid_out(&kinds[i], 9, 4, &more);
        CHECK(other->height <= one->height);
        tarn_plan_release(one);
        tarn_plan_release(other);
    }
}

TEST(a_price_trades_waits_for_memory)
{
    const tarn_plan_options free_waits = {.size = sizeof free_waits,
                                          .wait_price_bytes = 1};
    const tarn_plan_options no_waits = {.size = sizeof no_waits,
                                        .wait_price_bytes = UINT64_MAX};
    tarn_plan *many = laid_out(&kinds[1], 3, 8, &free_waits);
    tarn_plan *usual = laid_out(&kinds[1], 3, 8, NULL);
    tarn_plan *none = laid_out(&kinds[1], 3, 8, &no_waits);

    CHECK(many->waits > usual->waits);
    CHECK(usual->waits > 0);
    CHECK_EQUAL(0, none->waits);
    CHECK(many->height < none->height);
    CHECK_OK(tarn__check_plan("plan", none));
    tarn_plan_release(many);
    tarn_plan_release(usual);
    tarn_plan_release(none);
}

TEST(a_longer_lag_expects_more_waits)
{
    const tarn_plan_options little = {
        .size = sizeof little, .wait_price_bytes = 1, .lag_operations = 20};
    const tarn_plan_options much = {
        .size = sizeof much, .wait_price_bytes = 1, .lag_operations = 5000};
    tarn_plan *behind = laid_out(&kinds[1], 3, 8, &much);
    tarn_plan *near = laid_out(&kinds[1], 3, 8, &little);

    CHECK(near->waits < behind->waits);
    CHECK_EQUAL(near->height, behind->height);
    tarn_plan_release(behind);
    tarn_plan_release(near);
}

/* The lower bound is reached where nothing is in the way. */
TEST(simple_work_has_a_perfect_layout)
{
    struct work work = work_begin(1, 1);
    uint32_t first = get(&work, 3 * 512, 0), second = get(&work, 5 * 512, 0);

    drop(&work, first);
    uint32_t third = get(&work, 2 * 512, 0);
    drop(&work, second);
    get(&work, 6 * 512, 0);
    drop(&work, third);
    tarn_plan *plan = work_end(&work);
    CHECK_OK(tarn__make_layout(plan, NULL));
    CHECK_OK(tarn__check_plan("plan", plan));
    CHECK_EQUAL(8, plan->height);
    tarn_plan_release(plan);
}

TEST(no_work_has_an_empty_plan)
{
    struct work work = work_begin(1, 0);
    tarn_plan *plan = work_end(&work);
    tarn_plan_summary summary = {.size = sizeof summary};

    plan->threads = 0;
    CHECK_OK(tarn__make_layout(plan, NULL));
    CHECK_OK(tarn__check_plan("plan", plan));
    CHECK_OK(tarn_plan_summarize(plan, &summary));
    CHECK_EQUAL(0, summary.height_bytes);
    CHECK_EQUAL(0, summary.waits);
    tarn_plan_release(plan);
    tarn_plan_release(NULL);
}

/* 2 TiB do not fit into 32 bits of quanta. */
TEST(work_of_two_tebibytes_is_rejected)
{
    struct work work = work_begin(1, 1);

    for (int i = 0; i < 3; i++)
        get(&work, 700ull * 1024 * MIB_, 0);
    tarn_plan *plan = work_end(&work);
    CHECK_STATUS(TARN_NOT_SUPPORTED, tarn__make_layout(plan, NULL));
    CHECK_MESSAGE("plan: 3 blocks need more than 2 TiB of addresses");
    tarn_plan_release(plan);
}

TEST(options_out_of_range_are_rejected)
{
    tarn_plan_options options = {.size = sizeof options, .effort = 1001};
    struct work work = work_begin(1, 1);

    get(&work, 512, 0);
    tarn_plan *plan = work_end(&work);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__make_layout(plan, &options));
    CHECK_MESSAGE("plan: an effort of 1001, the maximum is 1000");
    options =
        (tarn_plan_options){.size = sizeof options, .lag_operations = (1u << 30) + 1};
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__make_layout(plan, &options));
    CHECK_MESSAGE("plan: a lag of 1073741825 operations");
    options = (tarn_plan_options){.size = 4};
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__make_layout(plan, &options));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_plan_summarize(NULL, NULL));
    tarn_plan_release(plan);
}
