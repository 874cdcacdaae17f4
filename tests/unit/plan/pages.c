/* Test the count of page moves: simple cases, and a slow count beside it. */
#include "works.h"

enum { PAGE = 4096 }; /* quanta */

static tarn_plan_moves moves_of(const tarn_plan *plan, uint64_t pages)
{
    tarn_plan_moves moves = {.size = sizeof moves};

    CHECK_OK(tarn_plan_count_moves(plan, pages * 2 * MIB_, &moves));
    return moves;
}

static tarn_plan *laid_by_hand(const struct tarn__plan_slot *slots, size_t count,
                               uint32_t operations)
{
    tarn_plan *plan;

    CHECK_OK(tarn__make_empty(count, &plan));
    for (size_t i = 0; i < count; i++) {
        plan->slots[i] = slots[i];
        if (slots[i].offset + slots[i].quanta > plan->height)
            plan->height = slots[i].offset + slots[i].quanta;
    }
    plan->count = count;
    plan->operations = operations;
    plan->streams = plan->threads = 1;
    CHECK_OK(tarn__check_plan("p", plan));
    return plan;
}

TEST(a_page_moves_where_memory_is_short)
{
    static const struct tarn__plan_slot slots[] = {
        {.start = 0, .end = 1, .quanta = PAGE, .offset = 0},
        {.start = 2, .end = 3, .quanta = PAGE, .offset = PAGE},
        {.start = 4, .end = 6, .quanta = PAGE, .offset = 0},
        {.start = 5, .end = 6 + 1, .quanta = PAGE, .offset = PAGE}};
    tarn_plan *plan = laid_by_hand(slots, 4, 8);
    tarn_plan_moves moves = moves_of(plan, 2);

    CHECK_EQUAL(0, moves.pages + moves.allocations + moves.failures);
    CHECK_EQUAL(2 * MIB_, moves.page_bytes);
    moves = moves_of(plan, 1); /* the last two are live at once */
    CHECK_EQUAL(2, moves.pages);
    CHECK_EQUAL(2, moves.allocations);
    CHECK_EQUAL(1, moves.failures);
    moves = moves_of(plan, 0);
    CHECK_EQUAL(4, moves.failures);
    CHECK_EQUAL(0, moves.pages);
    tarn_plan_release(plan);
}

/* --- the slow count ------------------------------------------------------------------------ */

enum { SLOW_PAGES = 4096 };

static bool touches(const struct tarn__plan_slot *slot, uint32_t page)
{
    return slot->offset / PAGE <= page &&
           page <= (slot->offset + slot->quanta - 1) / PAGE;
}

/* The slot that needs a page next, from an operation on. */
static size_t next_use(const tarn_plan *plan, uint32_t page, uint32_t operation)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->slots[i].start > operation && touches(&plan->slots[i], page))
            return i;
    return SIZE_MAX;
}

static bool is_idle(const tarn_plan *plan, uint32_t page, uint32_t operation)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->slots[i].start <= operation && operation < plan->slots[i].end &&
            touches(&plan->slots[i], page))
            return false;
    return true;
}

static tarn_plan_moves slow_moves(const tarn_plan *plan, uint64_t unmapped)
{
    static bool present[SLOW_PAGES];
    uint32_t count = plan->height / PAGE + 1;
    tarn_plan_moves moves = {.size = sizeof moves};

    CHECK(count < SLOW_PAGES);
    memset(present, 0, sizeof present);
    for (size_t i = 0; i < plan->count; i++) {
        bool fits = true, moved = false;
        for (uint32_t page = 0; page < count; page++) {
            uint32_t from = UINT32_MAX;
            size_t last = 0;
            if (!touches(&plan->slots[i], page) || present[page])
                continue;
            for (uint32_t other = 0; unmapped == 0 && other < count; other++) {
                if (!present[other] || !is_idle(plan, other, plan->slots[i].start))
                    continue;
                size_t next = next_use(plan, other, plan->slots[i].start);
                if (from == UINT32_MAX || next > last) {
                    from = other;
                    last = next;
                }
            }
            if (unmapped > 0) {
                unmapped--;
            } else if (from != UINT32_MAX) {
                present[from] = false;
                moves.pages++;
                moved = true;
            } else {
                fits = false;
                continue;
            }
            present[page] = true;
        }
        moves.allocations += moved;
        moves.failures += !fits;
    }
    return moves;
}

TEST(the_count_is_that_of_a_slow_one)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct work work = work_begin(seed, 1);
        uint32_t live[16];
        unsigned count = 0;
        for (int step = 0; step < 80; step++) {
            if (count == 16 || (count > 0 && below(&work, 2) == 0)) {
                unsigned which = (unsigned)below(&work, count);
                drop(&work, live[which]);
                live[which] = live[--count];
            } else {
                live[count++] = get(&work, skewed(&work, 128 * KIB, 4), 0);
            }
        }
        tarn_plan *plan = work_end(&work);
        CHECK_OK(tarn__make_layout(plan, NULL));
        uint64_t all = plan->height / PAGE + 1;
        for (uint64_t pages = all; pages > 0; pages -= pages / 3 + 1) {
            tarn_plan_moves moves = moves_of(plan, pages), slow = slow_moves(plan, pages);
            CHECK_EQUAL(slow.failures, moves.failures);
            CHECK_EQUAL(slow.pages, moves.pages);
            CHECK_EQUAL(slow.allocations, moves.allocations);
        }
        tarn_plan_release(plan);
    }
}

TEST(large_plans_have_larger_pages)
{
    struct work work = work_begin(1, 1);

    for (int i = 0; i < 400; i++)
        drop(&work, get(&work, 400ull * 1024 * MIB_, 0));
    tarn_plan *plan = work_end(&work);
    CHECK_OK(tarn__make_layout(plan, NULL));
    tarn_plan_moves moves = moves_of(plan, 400 * 512);
    CHECK(moves.page_bytes > 2 * MIB_);
    CHECK_EQUAL(0, moves.failures);
    tarn_plan_release(plan);
}

TEST(null_and_wrong_sizes_are_rejected)
{
    tarn_plan_moves moves = {.size = 8, .pages = 7};
    struct work work = work_begin(1, 1);

    get(&work, 1, 0);
    tarn_plan *plan = work_end(&work);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_plan_count_moves(NULL, 1, &moves));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_plan_count_moves(plan, 1, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_plan_count_moves(plan, 1, &moves));
    CHECK_EQUAL(7, moves.pages);
    tarn_plan_release(plan);
}
