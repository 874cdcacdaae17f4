/* Test moves of idle memory within the range: with its bytes, completely or not at all.
 */
#include "memory.h"

TEST(pages_move_with_their_bytes_to_one_place)
{
    unsigned long long live;
    struct tarn__pages *pages = open_pages();
    struct tarn__span spans[3];

    CHECK_OK(grow_at(pages, 0, 7)); /* handles of one page each */
    live = live_bytes();
    for (size_t i = 0; i < 7; i++)
        write_bytes(span_at(pages, i, 1), (unsigned char)(10 + i));
    spans[0] = span_at(pages, 5, 1);
    spans[1] = span_at(pages, 0, 2);
    spans[2] = span_at(pages, 3, 1);
    CHECK_OK(tarn__pages_move(pages, spans, 3, 3, page_at(pages, 100)));
    CHECK_EQUAL(live, live_bytes());
    CHECK_EQUAL(7 * PAGE, tarn__pages_reserved(pages));
    check_bytes(span_at(pages, 100, 1), 15);
    check_bytes(span_at(pages, 101, 1), 10);
    check_bytes(span_at(pages, 102, 1), 11);
    check_bytes(span_at(pages, 103, 1), 13);
    check_bytes(span_at(pages, 2, 1), 12);       /* and the rest stays */
    CHECK_OK(grow_at(pages, 0, 2));              /* the source addresses are unmapped */
    CHECK(is_usable(0, span_at(pages, 100, 4))); /* one block over all of it */
    CHECK_OK(tarn__pages_remove(pages, span_at(pages, 100, 4)));
    CHECK(!on_sim() || live - 2 * PAGE == live_bytes());
    tarn__pages_close(pages);
}

TEST(pages_move_keeps_the_shape_of_handles)
{
    struct tarn__pages *pages;
    struct tarn__span idle, span;

    CHECK_OK(tarn__pages_open(0, NULL, 32 * MIB, &pages));
    CHECK_OK(grow_at(pages, 0, 256));
    CHECK_OK(grow_at(pages, 1000, 24)); /* 32 and 16 MiB */
    span = span_at(pages, 1000, 24);
    CHECK_OK(tarn__pages_move(pages, &span, 1, 1, page_at(pages, 2000)));
    idle = tarn__pages_removable(pages, span_at(pages, 2001, 23));
    CHECK_EQUAL(page_at(pages, 2016), idle.address);
    CHECK_EQUAL(8 * PAGE, idle.bytes);
    tarn__pages_close(pages);
}

TEST(pages_move_only_whole_handles_into_holes)
{
    struct tarn__pages *pages = open_pages();
    struct tarn__span span = span_at(pages, 0, 4), hole = span_at(pages, 50, 1);

    CHECK_OK(grow_at(pages, 0, 8));
    CHECK_STATUS(TARN_STILL_IN_USE,
                 tarn__pages_move(pages, &span, 1, 1, page_at(pages, 5)));
    CHECK_STATUS(TARN_STILL_IN_USE,
                 tarn__pages_move(pages, &span, 1, 1, page_at(pages, 1)));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__pages_move(pages, &hole, 1, 1, page_at(pages, 60)));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn__pages_move(pages, &span, 1, 1, page_at(pages, 60) + 512));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__pages_move(pages, &span, 0, 0, 0));
    CHECK(is_usable(0, span_at(pages, 0, 8)));
    tarn__pages_close(pages);
}
