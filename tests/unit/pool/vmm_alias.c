/* Test retired mappings: moved memory stays mapped at its old address until the pool
 * needs the address or releases the memory. */
#include "memory.h"

static void move(struct tarn__pages *pages, size_t from, size_t count, size_t to)
{
    struct tarn__span span = span_at(pages, from, count);

    CHECK_OK(tarn__pages_move(pages, &span, 1, 1, page_at(pages, to)));
}

/* Pages from `at` on are no alias of those from `other` on. */
static void are_apart(struct tarn__pages *pages, size_t at, size_t other, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        write_bytes(span_at(pages, at + i, 1), (unsigned char)(1 + i));
        write_bytes(span_at(pages, other + i, 1), (unsigned char)(101 + i));
    }
    for (size_t i = 0; i < count; i++) {
        check_bytes(span_at(pages, at + i, 1), (unsigned char)(1 + i));
        check_bytes(span_at(pages, other + i, 1), (unsigned char)(101 + i));
    }
}

TEST(memory_that_moves_costs_no_unmapping)
{
    struct tarn__pages *pages = open_pages();

    CHECK_OK(grow_at(pages, 0, 4));
    move(pages, 0, 2, 100);
    write_bytes(span_at(pages, 100, 1), 42);
    check_bytes(span_at(pages, 0, 1), 42); /* the same memory */
    tarn__pages_close(pages);
}

TEST(place_that_was_left_takes_other_memory)
{
    struct tarn__pages *pages = open_pages();

    CHECK_OK(grow_at(pages, 0, 8));
    move(pages, 0, 6, 100);
    CHECK_OK(grow_at(pages, 1, 2)); /* new */
    are_apart(pages, 1, 101, 2);
    move(pages, 6, 2, 4); /* moved there */
    are_apart(pages, 4, 104, 2);
    move(pages, 104, 2, 6); /* back to the address of another one */
    are_apart(pages, 4, 6, 2);
    tarn__pages_close(pages);
}

TEST(part_of_a_place_that_was_left_takes_other_memory)
{
    struct tarn__pages *pages;

    CHECK_OK(tarn__pages_open(0, NULL, 32 * MIB, &pages));
    CHECK_OK(grow_at(pages, 0, 256));
    CHECK_OK(grow_at(pages, 1000, 32)); /* two handles */
    move(pages, 1000, 32, 2000);
    CHECK_OK(grow_at(pages, 1012, 8)); /* over their border */
    are_apart(pages, 1012, 2012, 8);
    CHECK_OK(grow_at(pages, 1000, 12));
    are_apart(pages, 1000, 2000, 12);
    tarn__pages_close(pages);
}

TEST(memory_goes_to_the_driver_from_all_of_its_places)
{
    struct tarn__pages *pages = open_pages();

    CHECK_OK(grow_at(pages, 0, 8));
    unsigned long long live = live_bytes();
    move(pages, 0, 4, 100);
    move(pages, 100, 4, 200);
    move(pages, 203, 1, 300);
    move(pages, 200, 3, 301);
    CHECK_EQUAL(live, live_bytes());
    CHECK_OK(tarn__pages_remove(pages, span_at(pages, 302, 1)));
    CHECK(!on_sim() || live - PAGE == live_bytes());
    CHECK_OK(tarn__pages_remove(pages, span_at(pages, 300, 2)));
    CHECK_OK(tarn__pages_remove(pages, span_at(pages, 303, 1)));
    CHECK(!on_sim() || live - 4 * PAGE == live_bytes());
    CHECK(!is_usable(0, span_at(pages, 0, 1)) && !is_usable(0, span_at(pages, 103, 1)));
    CHECK(is_usable(0, span_at(pages, 4, 4)));
    tarn__pages_close(pages);
}

TEST(memory_that_moves_all_the_time_leaves_only_its_last_places)
{
    struct tarn__pages *pages = open_pages();
    unsigned usable = 0;

    CHECK_OK(grow_at(pages, 0, 1));
    for (size_t i = 0; i < 100; i++)
        move(pages, i, 1, i + 1);
    for (size_t i = 0; i < 100; i++)
        usable += is_usable(0, span_at(pages, i, 1));
    CHECK(usable > 0 && usable <= 16);
    CHECK(is_usable(0, span_at(pages, 99, 1)) && !is_usable(0, span_at(pages, 83, 1)));
    CHECK_OK(grow_at(pages, 0, 100));
    are_apart(pages, 50, 100, 1);
    are_apart(pages, 99, 100, 1);
    tarn__pages_close(pages);
}

/* Queued work uses the old address. The memory stays until that work is done, and is
 * released then. */
TEST(memory_that_was_given_back_goes_when_its_last_place_is_left)
{
    struct tarn__pages *pages = open_pages();
    struct tarn__span old = span_at(pages, 0, 2);

    CHECK_OK(grow_at(pages, 0, 4));
    unsigned long long live = live_bytes();
    CHECK_OK(tarn__pages_move(pages, &old, 1, 0, page_at(pages, 100)));
    move(pages, 100, 2, 200);
    CHECK_OK(tarn__pages_remove(pages, span_at(pages, 200, 2)));
    CHECK_EQUAL(live, live_bytes());
    tarn__pages_end_retired(pages, old);
    CHECK(!on_sim() || live - 2 * PAGE == live_bytes());
    CHECK_OK(grow_at(pages, 0, 2));
    tarn__pages_close(pages);
}

TEST(place_of_queued_work_is_left_like_any_other)
{
    struct tarn__pages *pages = open_pages();
    struct tarn__span old = span_at(pages, 0, 2);

    CHECK_OK(grow_at(pages, 0, 4));
    CHECK_OK(tarn__pages_move(pages, &old, 1, 0, page_at(pages, 100)));
    CHECK_STATUS(TARN_STILL_IN_USE, grow_at(pages, 0, 2));
    tarn__pages_end_retired(pages, old);
    CHECK_OK(grow_at(pages, 0, 2));
    are_apart(pages, 0, 100, 2);
    tarn__pages_close(pages);
}

/* The same for an address that the memory left later: its queued work may use that to the
 * end alone. */
TEST(peer_without_access_has_none_through_old_places)
{
    struct tarn__pages *pages = open_pages();
    struct tarn__span old = span_at(pages, 0, 2);

    if (!has_second_device()) {
        tarn__pages_close(pages);
        skip();
    }
    CHECK_OK(grow_at(pages, 0, 4));
    CHECK_OK(tarn__pages_set_peer(pages, 1, true));
    move(pages, 2, 2, 50);
    CHECK_OK(tarn__pages_move(pages, &old, 1, 0, page_at(pages, 100)));
    CHECK(is_usable(1, span_at(pages, 2, 1)) && is_usable(1, old));
    CHECK_OK(tarn__pages_set_peer(pages, 1, false));
    CHECK(!is_usable(1, span_at(pages, 2, 1)) && !is_usable(1, span_at(pages, 100, 1)));
    tarn__pages_end_retired(pages, old);
    CHECK(!is_usable(1, span_at(pages, 0, 1)) && !is_usable(1, span_at(pages, 1, 1)));
    CHECK(is_usable(0, span_at(pages, 100, 2)));
    tarn__pages_close(pages);
}

TEST(pages_sleep_with_the_places_that_they_left)
{
    struct tarn__pages *pages = open_pages();
    unsigned long long live = live_bytes();

    CHECK_OK(grow_at(pages, 0, 4));
    move(pages, 0, 4, 100);
    CHECK_OK(tarn__pages_suspend(pages, NULL, 0));
    CHECK_EQUAL(live, live_bytes());
    CHECK_OK(tarn__pages_resume(pages));
    CHECK(is_usable(0, span_at(pages, 100, 4)));
    CHECK_OK(grow_at(pages, 0, 4));
    are_apart(pages, 0, 100, 4);
    tarn__pages_close(pages);
}
