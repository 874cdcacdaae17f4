/* Random changes of a pool's memory beside a plain model of it: a table that says of each
 * page whether it has memory, in which handle it is, and which byte is in it. Some calls
 * of the driver fail on the way. */
#include "memory.h"
#include "base/random.h"
#include <stdlib.h>

enum { PAGES = 96, ROUNDS = 1500, MOVED_MAX = 4 };

static struct tarn__pages *pages;
static uint64_t random_state;
static struct cell {
    unsigned char value; /* 0: a hole */
    bool begins;         /* a handle begins here */
} model[PAGES];
static bool sleeps;

/* What is being done: on an H200 this test died of a signal once, which cmocka catches. */
static struct {
    uint64_t seed;
    unsigned round, what;
    size_t first, count;
} doing;

static void tell_what(void)
{
    if (doing.seed)
        fprintf(stderr, "seed %llu, round %u: choice %u at page %zu, %zu pages\n",
                (unsigned long long)doing.seed, doing.round, doing.what, doing.first,
                doing.count);
}

static size_t below(size_t limit)
{
    return (size_t)tarn__random_below(&random_state, limit);
}

static size_t count_mapped(void)
{
    size_t count = 0;

    for (size_t i = 0; i < PAGES; i++)
        count += model[i].value != 0;
    return count;
}

static void check_model(void)
{
    CHECK_EQUAL(count_mapped() * PAGE, tarn__pages_reserved(pages));
    CHECK_EQUAL(sleeps ? count_mapped() * PAGE : 0, tarn__pages_asleep(pages));
    for (size_t i = 0; i < PAGES && !sleeps; i++)
        if (model[i].value != 0)
            check_bytes(span_at(pages, i, 1), model[i].value);
}

static bool is_hole(size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        if (i >= PAGES || model[i].value != 0)
            return false;
    return true;
}

/* A span of `count` pages got memory: where its handles begin is asked of the pool. */
static void note_grown(size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        struct tarn__span rest = span_at(pages, i, first + count - i);
        model[i].value = (unsigned char)(1 + below(255));
        model[i].begins = tarn__pages_removable(pages, rest).bytes == rest.bytes;
        write_bytes(span_at(pages, i, 1), model[i].value);
    }
}

/* Whole handles from page `first` on, at most to where a random end is. */
static size_t whole_handles(size_t first)
{
    size_t end = first, limit = first + 1 + below(24);

    if (first >= PAGES || !model[first].begins)
        return 0;
    for (size_t i = first + 1; i <= PAGES && i <= limit; i++) {
        if (i == PAGES || model[i].value == 0 || model[i].begins)
            end = i;
        if (i == PAGES || model[i].value == 0)
            break;
    }
    return end - first;
}

/* As the model says it should be. */
static void check_removable(size_t first, size_t count)
{
    size_t low = first, high = first + count;

    for (size_t i = first; i < first + count; i++)
        if (model[i].value == 0)
            return; /* only what is mapped is asked about */
    while (low < high && !model[low].begins)
        low++;
    while (high > low && high < PAGES && model[high].value != 0 && !model[high].begins)
        high--;
    struct tarn__span got = tarn__pages_removable(pages, span_at(pages, first, count));
    CHECK_EQUAL((high - low) * PAGE, got.bytes);
    if (high > low)
        CHECK_EQUAL(page_at(pages, low), got.address);
}

static void change(tarn_status (*act)(void *), void *data, void (*done)(void *),
                   bool must_work)
{
    char faults[64];

    if (on_sim() && below(4) == 0)
        snprintf(faults, sizeof faults, "fail=one-in:%zu,seed=%zu", 3 + below(20),
                 below(1000000));
    else
        faults[0] = '\0';
    if (faults[0])
        sim_configure(faults);
    tarn_status status = act(data);
    if (faults[0])
        sim_configure(NULL);
    if (status == TARN_OK)
        done(data);
    else
        CHECK(faults[0] || !must_work);
}

struct plan {
    size_t first, count, target;
    struct tarn__span spans[MOVED_MAX];
    size_t span_count;
};

static tarn_status do_grow(void *data)
{
    const struct plan *plan = data;
    struct tarn__span got;

    return tarn__pages_grow(pages, page_at(pages, plan->first), plan->count * PAGE, NULL,
                            &got);
}

static void grown(void *data)
{
    const struct plan *plan = data;

    CHECK(!sleeps && is_hole(plan->first, plan->count));
    note_grown(plan->first, plan->count);
}

static tarn_status do_remove(void *data)
{
    const struct plan *plan = data;

    return tarn__pages_remove(pages, span_at(pages, plan->first, plan->count));
}

static void removed(void *data)
{
    const struct plan *plan = data;

    memset(&model[plan->first], 0, plan->count * sizeof *model);
}

static tarn_status do_move(void *data)
{
    const struct plan *plan = data;

    return tarn__pages_move(pages, plan->spans, plan->span_count, plan->span_count,
                            page_at(pages, plan->target));
}

static void moved(void *data)
{
    const struct plan *plan = data;
    size_t at = plan->target;

    CHECK(!sleeps);
    for (size_t i = 0; i < plan->span_count; i++) {
        size_t first = (plan->spans[i].address - page_at(pages, 0)) / PAGE;
        size_t count = plan->spans[i].bytes / PAGE;
        CHECK(is_hole(at, count));
        memcpy(&model[at], &model[first], count * sizeof *model);
        memset(&model[first], 0, count * sizeof *model);
        at += count;
    }
}

/* All bytes that the model knows are kept: the ends of each page. */
static tarn_status do_sleep(void *data)
{
    static struct tarn__span kept[2 * PAGES];
    size_t count = 0;

    (void)data;
    for (size_t i = 0; i < PAGES; i++)
        if (model[i].value != 0) {
            kept[count++] = (struct tarn__span){page_at(pages, i), 1};
            kept[count++] = (struct tarn__span){page_at(pages, i + 1) - 1, 1};
        }
    return tarn__pages_sleep(pages, kept, count);
}

static void asleep(void *data)
{
    (void)data;
    sleeps = true;
}

static tarn_status do_wake(void *data)
{
    (void)data;
    return tarn__pages_wake(pages);
}

static void awake(void *data)
{
    (void)data;
    sleeps = false;
}

static void plan_moves(struct plan *plan)
{
    bool taken[PAGES] = {false};

    plan->target = below(PAGES);
    for (int i = 0; i < MOVED_MAX; i++) {
        size_t first = below(PAGES), count = whole_handles(first);
        bool is_free = count > 0;
        for (size_t k = first; k < first + count; k++)
            is_free = is_free && !taken[k];
        if (!is_free)
            continue;
        for (size_t k = first; k < first + count; k++)
            taken[k] = true;
        plan->spans[plan->span_count++] = span_at(pages, first, count);
        plan->count += count;
    }
}

static void do_something(void)
{
    struct plan plan = {.first = below(PAGES), .count = 1 + below(20)};

    if (plan.count > PAGES - plan.first)
        plan.count = PAGES - plan.first;
    doing.what = (unsigned)below(8);
    doing.first = plan.first;
    doing.count = plan.count;
    switch (doing.what) {
    case 0:
    case 1:
    case 2:
        change(do_grow, &plan, grown, false);
        break;
    case 3:
    case 4:
        plan.count = whole_handles(plan.first);
        if (plan.count > 0)
            change(do_remove, &plan, removed, true);
        break;
    case 5:
        plan.count = 0;
        plan_moves(&plan);
        if (plan.count > 0 && plan.target + plan.count <= PAGES)
            change(do_move, &plan, moved, false);
        break;
    case 6:
        if (sleeps)
            change(do_wake, NULL, awake, true);
        else if (below(4) == 0)
            change(do_sleep, NULL, asleep, true);
        break;
    default:
        check_removable(plan.first, plan.count);
    }
}

TEST(pages_are_as_a_plain_model_whatever_is_done)
{
    atexit(tell_what);
    test_may_leave_memory(); /* two tries for one call may fail */
    for (uint64_t seed = 1; seed <= 3; seed++) {
        doing.seed = random_state = seed;
        sleeps = false;
        memset(model, 0, sizeof model);
        /* Steps of 16 MiB, so that handles of more than a page come. */
        CHECK_OK(tarn__pages_open(0, NULL, 16 * MIB, &pages));
        for (unsigned i = 0; i < ROUNDS; i++) {
            doing.round = i;
            do_something();
            doing.what = 99; /* a look */
            if (i % 8 == 0 || sleeps)
                check_model();
        }
        tarn__pages_close(pages);
    }
    doing.seed = 0;
}
