/* Test rows: blocks of one size and one stream, one after another. */
#include "works.h"
#include "plan/rows.h"

enum { ONE = 0, OTHER = 1 };

static void add(struct work *work, uint32_t start, uint32_t end, uint32_t quanta,
                uint32_t stream, uint32_t free_stream)
{
    work->plan->slots[work->plan->count++] =
        (struct tarn__plan_slot){.start = start,
                                 .end = end,
                                 .quanta = quanta,
                                 .stream = stream,
                                 .free_stream = free_stream};
    work->plan->operations = end > work->plan->operations ? end : work->plan->operations;
}

/* The items of some work, in rows; the caller frees them. */
static struct tarn__boxes rows_of(const struct work *work)
{
    const struct tarn__boxing no_boxes = {.quanta = 0};
    struct tarn__boxes boxes;

    CHECK(tarn__boxes_make(&boxes, work->plan, no_boxes));
    CHECK(tarn__rows_join(&boxes));
    return boxes;
}

static void end(struct work *work, struct tarn__boxes *boxes)
{
    tarn__boxes_free(boxes);
    tarn_plan_release(work->plan);
}

TEST(equal_blocks_that_follow_one_another_are_one_item)
{
    struct work work = work_begin(1, 1);

    add(&work, 0, 4, 8, ONE, ONE);
    add(&work, 5, 9, 8, ONE, ONE);
    add(&work, 10, 12, 8, ONE, ONE);
    struct tarn__boxes boxes = rows_of(&work);
    CHECK_EQUAL(1, boxes.count);
    CHECK(boxes.items[0].is_row);
    CHECK_EQUAL(0, boxes.items[0].start);
    CHECK_EQUAL(12, boxes.items[0].end);
    CHECK_EQUAL(8, boxes.items[0].quanta);
    CHECK_EQUAL(1, boxes.next[0]);
    CHECK_EQUAL(2, boxes.next[1]);
    CHECK_EQUAL(TARN__PLAN_NO_SLOT, boxes.next[2]);
    end(&work, &boxes);
}

TEST(other_blocks_are_not_joined)
{
    struct work work = work_begin(1, 2);

    add(&work, 0, 2, 8, ONE, ONE);
    add(&work, 1, 20, 8, ONE, ONE);    /* overlaps */
    add(&work, 3, 5, 9, ONE, ONE);     /* of another size */
    add(&work, 4, 6, 8, OTHER, OTHER); /* of another stream */
    add(&work, 7, 8, 9, ONE, OTHER);   /* freed on another stream */
    add(&work, 9, 10, 8, OTHER, ONE);
    add(&work, 11, 12, 3, TARN__PLAN_NO_STREAM, TARN__PLAN_NO_STREAM);
    add(&work, 13, 14, 3, TARN__PLAN_NO_STREAM, TARN__PLAN_NO_STREAM);
    struct tarn__boxes boxes = rows_of(&work);
    CHECK_EQUAL(8, boxes.count);
    for (size_t i = 0; i < boxes.count; i++)
        CHECK(!boxes.items[i].is_row);
    end(&work, &boxes);
}

/* The time between two blocks is at most eight times the life of the second. */
TEST(a_long_time_between_two_blocks_ends_a_row)
{
    struct work work = work_begin(1, 1);

    add(&work, 0, 2, 8, ONE, ONE);
    add(&work, 2 + 8 * 3, 5 + 8 * 3, 8, ONE, ONE);
    add(&work, 5 + 8 * 3 + 8 * 2 + 2, 7 + 8 * 3 + 8 * 2 + 2, 8, ONE, ONE);
    struct tarn__boxes boxes = rows_of(&work);
    CHECK_EQUAL(2, boxes.count);
    CHECK_EQUAL(29, boxes.items[0].end);
    CHECK_EQUAL(TARN__PLAN_NO_SLOT, boxes.next[boxes.items[1].first]);
    end(&work, &boxes);
}

TEST(the_block_that_was_freed_last_is_followed)
{
    struct work work = work_begin(1, 1);

    add(&work, 0, 3, 8, ONE, ONE);
    add(&work, 1, 4, 8, ONE, ONE);
    add(&work, 5, 9, 8, ONE, ONE);
    add(&work, 6, 8, 8, ONE, ONE);
    struct tarn__boxes boxes = rows_of(&work);
    CHECK_EQUAL(2, boxes.count);
    CHECK_EQUAL(3, boxes.next[0]);
    CHECK_EQUAL(2, boxes.next[1]);
    end(&work, &boxes);
}

/* Boxes are no part of rows: their slots lie side by side. */
TEST(boxes_stay_as_they_are)
{
    struct work work = work_begin(1, 1);
    struct tarn__boxes boxes;

    for (uint32_t i = 0; i < 8; i++)
        add(&work, i, 1000 + i, 1, ONE, ONE);
    add(&work, 1100, 1200, 4, ONE, ONE);
    add(&work, 1201, 1300, 4, ONE, ONE);
    CHECK(tarn__boxes_make(&boxes, work.plan,
                           (struct tarn__boxing){.quanta = 1, .alike = 3}));
    size_t before = boxes.count;
    CHECK(tarn__rows_join(&boxes));
    CHECK_EQUAL(before - 1, boxes.count);
    for (size_t i = 0; i < boxes.count; i++)
        CHECK_EQUAL(i == boxes.count - 1, boxes.items[i].is_row);
    end(&work, &boxes);
}

/* All slots are in one item each, and a row has no two at one time. */
static void check_items(const tarn_plan *plan, const struct tarn__boxes *boxes)
{
    size_t slots = 0;

    for (size_t i = 0; i < boxes->count; i++) {
        const struct tarn__item *item = &boxes->items[i];
        uint32_t last = item->first;
        CHECK_EQUAL(plan->slots[last].start, item->start);
        for (uint32_t slot = boxes->next[last]; slot != TARN__PLAN_NO_SLOT;
             slot = boxes->next[slot]) {
            CHECK(item->is_row);
            CHECK(plan->slots[slot].start >= plan->slots[last].end);
            CHECK_EQUAL(item->quanta, plan->slots[slot].quanta);
            CHECK_EQUAL(item->stream, plan->slots[slot].stream);
            CHECK_EQUAL(item->stream, plan->slots[slot].free_stream);
            last = slot;
            slots++;
        }
        CHECK_EQUAL(plan->slots[last].end, item->end);
        slots++;
    }
    CHECK_EQUAL(plan->count, slots);
}

TEST(rows_of_all_kinds_of_work_have_no_two_blocks_at_one_time)
{
    for (int i = 0; i < KINDS; i++) {
        struct work work = work_begin(7, 4);
        kinds[i].make(&work);
        work_end(&work);
        struct tarn__boxes boxes = rows_of(&work);
        check_items(work.plan, &boxes);
        for (size_t j = 1; j < boxes.count; j++)
            CHECK(boxes.items[j - 1].start < boxes.items[j].start);
        end(&work, &boxes);
    }
}
