/* Test suspend and resume: a pool's physical memory is released and restored at the same
 * addresses. */
#include "memory.h"

TEST(pages_that_sleep_give_all_memory_back)
{
    unsigned long long before = live_bytes();
    struct tarn__pages *pages = open_pages();
    struct tarn__span range = tarn__pages_range(pages);

    CHECK_OK(grow_at(pages, 0, 10));
    CHECK_OK(grow_at(pages, 20, 200));
    CHECK_OK(tarn__pages_suspend(pages, NULL, 0));
    CHECK(live_bytes() - before <= PAGE); /* the reserve block */
    CHECK_EQUAL(210 * PAGE, tarn__pages_reserved(pages));
    CHECK_EQUAL(210 * PAGE, tarn__pages_suspended(pages));
    CHECK(!is_usable(0, span_at(pages, 0, 1)));
    CHECK_OK(tarn__pages_suspend(pages, NULL, 0)); /* it does already */
    CHECK_OK(tarn__pages_resume(pages));
    CHECK_EQUAL(0, tarn__pages_suspended(pages));
    CHECK_EQUAL(range.address, tarn__pages_range(pages).address);
    CHECK(is_usable(0, span_at(pages, 0, 10)) && is_usable(0, span_at(pages, 20, 200)));
    CHECK(!is_usable(0, span_at(pages, 10, 1)));
    CHECK_OK(tarn__pages_resume(pages)); /* it is already */
    CHECK_OK(grow_at(pages, 10, 10));
    tarn__pages_close(pages);
    CHECK_EQUAL(before, live_bytes());
}

TEST(pages_that_sleep_keep_the_bytes_that_are_wanted)
{
    struct tarn__pages *pages = open_pages();
    struct tarn__span kept[3];

    CHECK_OK(grow_at(pages, 0, 4));
    CHECK_OK(grow_at(pages, 9, 3));
    kept[0] = (struct tarn__span){page_at(pages, 0) + 512, 512};
    kept[1] = (struct tarn__span){page_at(pages, 1) - 512, 2 * PAGE + 1024};
    kept[2] = span_at(pages, 9, 3);
    for (unsigned round = 1; round < 4; round++) {
        for (int i = 0; i < 3; i++)
            write_bytes(kept[i], (unsigned char)(round * 10 + (unsigned)i));
        CHECK_OK(tarn__pages_suspend(pages, kept, 3));
        CHECK_OK(tarn__pages_resume(pages));
        for (int i = 0; i < 3; i++)
            check_bytes(kept[i], (unsigned char)(round * 10 + (unsigned)i));
    }
    tarn__pages_close(pages);
}

TEST(pages_that_sleep_neither_grow_nor_move)
{
    struct tarn__pages *pages = open_pages();
    struct tarn__span span = span_at(pages, 0, 1);

    CHECK_OK(tarn__pages_suspend(pages, NULL, 0)); /* an empty one, too */
    CHECK_STATUS(TARN_SUSPENDED, grow_at(pages, 0, 2));
    CHECK_MESSAGE("is suspended");
    CHECK_OK(tarn__pages_resume(pages));
    CHECK_OK(grow_at(pages, 0, 2));
    CHECK_OK(tarn__pages_suspend(pages, NULL, 0));
    CHECK_STATUS(TARN_SUSPENDED, tarn__pages_move(pages, &span, 1, 1, page_at(pages, 9)));
    CHECK_STATUS(TARN_SUSPENDED, grow_at(pages, 5, 1));
    CHECK_OK(tarn__pages_wait_for_device(pages));
    tarn__pages_close(pages);
}

TEST(pages_that_are_removed_from_a_sleeping_pool_stay_away)
{
    unsigned long long before = live_bytes();
    struct tarn__pages *pages = open_pages();
    struct tarn__span idle;

    CHECK_OK(grow_at(pages, 0, 6));
    CHECK_OK(tarn__pages_suspend(pages, NULL, 0));
    idle = tarn__pages_removable(pages, span_at(pages, 2, 3));
    CHECK_EQUAL(3 * PAGE, idle.bytes);
    CHECK_OK(tarn__pages_remove(pages, idle));
    CHECK_EQUAL(3 * PAGE, tarn__pages_reserved(pages));
    CHECK_EQUAL(3 * PAGE, tarn__pages_suspended(pages));
    CHECK_OK(tarn__pages_resume(pages));
    CHECK(is_usable(0, span_at(pages, 0, 2)) && is_usable(0, span_at(pages, 5, 1)));
    CHECK(!is_usable(0, span_at(pages, 2, 1)));
    CHECK_OK(tarn__pages_suspend(pages, NULL, 0));
    CHECK_OK(tarn__pages_remove(pages, span_at(pages, 0, 2)));
    CHECK_OK(tarn__pages_remove(pages, span_at(pages, 5, 1)));
    CHECK_STATUS(TARN_SUSPENDED, grow_at(pages, 0, 1)); /* suspended although empty */
    CHECK_OK(tarn__pages_resume(pages));
    CHECK_OK(grow_at(pages, 0, 1));
    tarn__pages_close(pages);
    CHECK_EQUAL(before, live_bytes());
}

/* A block was kept and then freed, and the pool released a part of its memory. */
TEST(pages_that_wake_bring_no_bytes_to_where_memory_was_given_back)
{
    struct tarn__pages *pages = open_pages();
    struct tarn__span all = span_at(pages, 0, 6);
    struct tarn__span kept[] = {{all.address + 7, all.bytes - 9},
                                {all.address + all.bytes - 1, 1}};

    CHECK_OK(grow_at(pages, 0, 6));
    for (unsigned i = 0; i < 6; i++)
        CHECK_OK(
            tarn_memset_async(0, page_at(pages, i), (unsigned char)(i + 1), PAGE, NULL));
    CHECK_OK(tarn_stream_synchronize(0, NULL));
    CHECK_OK(tarn__pages_suspend(pages, kept, 2));
    CHECK_OK(tarn__pages_remove(pages, span_at(pages, 2, 1)));
    CHECK_OK(tarn__pages_remove(pages, span_at(pages, 4, 2)));
    CHECK_OK(tarn__pages_resume(pages));
    check_bytes((struct tarn__span){page_at(pages, 0) + 7, PAGE - 7}, 1);
    check_bytes(span_at(pages, 1, 1), 2);
    check_bytes(span_at(pages, 3, 1), 4);
    CHECK_EQUAL(3 * PAGE, tarn__pages_reserved(pages));
    tarn__pages_close(pages);
}

TEST(pages_that_find_no_room_sleep_on)
{
    struct tarn__pages *pages = open_pages(), *other = open_pages();
    struct tarn__span kept = span_at(pages, 100, 1);
    size_t taken = 0;

    CHECK_OK(grow_at(pages, 0, 200));
    write_bytes(kept, 5);
    CHECK_OK(tarn__pages_suspend(pages, &kept, 1));
    while (grow_at(other, taken, 64) == TARN_OK) /* all memory of the device */
        taken += 64;
    for (int i = 0; i < 3; i++) {
        unsigned long long before = live_bytes();
        CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn__pages_resume(pages));
        CHECK_EQUAL(200 * PAGE, tarn__pages_suspended(pages));
        CHECK_EQUAL(before, live_bytes());
    }
    CHECK_OK(tarn__pages_remove(other, span_at(other, 0, taken)));
    CHECK_OK(tarn__pages_resume(pages));
    check_bytes(kept, 5);
    tarn__pages_close(pages);
    tarn__pages_close(other);
}

/* The driver reports a failed copy where the copies are waited for. */
TEST(pages_whose_copies_fail_sleep_and_wake_in_the_next_try)
{
    static const char *const faults[] = {"fail=call:cuStreamSynchronize:1",
                                         "fail=call:cuMemcpyAsync:1"};
    struct tarn__pages *pages = open_pages();
    struct tarn__span kept = span_at(pages, 1, 1);

    if (!on_sim()) {
        tarn__pages_close(pages);
        skip();
    }
    CHECK_OK(grow_at(pages, 0, 4));
    write_bytes(kept, 6);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const char *call = strchr(faults[i], ':') + 1;
        char name[32] = "";
        memcpy(name, call, strcspn(call, ":"));
        sim_configure(faults[i]);
        CHECK_STATUS(TARN_DRIVER_FAILURE, tarn__pages_suspend(pages, &kept, 1));
        CHECK_MESSAGE(name);
        CHECK_EQUAL(0, tarn__pages_suspended(pages));
        check_bytes(kept, 6);
        sim_configure(NULL);
        CHECK_OK(tarn__pages_suspend(pages, &kept, 1));
        sim_configure(faults[i]);
        CHECK_STATUS(TARN_DRIVER_FAILURE, tarn__pages_resume(pages));
        CHECK_MESSAGE(name);
        CHECK_EQUAL(4 * PAGE, tarn__pages_suspended(pages));
        sim_configure(NULL);
        CHECK_OK(tarn__pages_resume(pages));
        check_bytes(kept, 6);
    }
    tarn__pages_close(pages);
}

TEST(pages_that_sleep_may_be_closed)
{
    unsigned long long before = live_bytes();
    struct tarn__pages *pages = open_pages();
    struct tarn__span kept = span_at(pages, 1, 1);

    CHECK_OK(grow_at(pages, 0, 4));
    CHECK_OK(tarn__pages_suspend(pages, &kept, 1));
    tarn__pages_close(pages);
    CHECK_EQUAL(before, live_bytes());
}

TEST(pages_that_wake_have_their_handles_as_before)
{
    struct tarn__pages *pages;
    struct tarn__span idle;

    CHECK_OK(tarn__pages_open(0, NULL, 32 * MIB, &pages));
    CHECK_OK(grow_at(pages, 0, 256));
    CHECK_OK(grow_at(pages, 256, 32)); /* two of 32 MiB */
    CHECK_OK(tarn__pages_suspend(pages, NULL, 0));
    CHECK_OK(tarn__pages_resume(pages));
    idle = tarn__pages_removable(pages, span_at(pages, 257, 31));
    CHECK_EQUAL(page_at(pages, 272), idle.address);
    CHECK_OK(tarn__pages_remove(pages, idle));
    CHECK(is_usable(0, span_at(pages, 256, 16)));
    tarn__pages_close(pages);
}

/* --- peers --- */

TEST(pages_let_a_peer_use_what_is_there_and_what_comes)
{
    struct tarn__pages *pages = open_pages();
    struct tarn__span span = span_at(pages, 0, 2);

    if (!has_second_device()) {
        tarn__pages_close(pages);
        skip();
    }
    CHECK_OK(grow_at(pages, 0, 2));
    CHECK_OK(grow_at(pages, 5, 2));
    CHECK(!is_usable(1, span_at(pages, 0, 2)));
    CHECK_OK(tarn__pages_set_peer(pages, 1, true));
    CHECK_OK(tarn__pages_set_peer(pages, 1, true));
    CHECK(is_usable(1, span_at(pages, 0, 2)) && is_usable(1, span_at(pages, 5, 2)));
    CHECK_OK(grow_at(pages, 2, 2));
    CHECK(is_usable(1, span_at(pages, 0, 4)));
    CHECK_OK(tarn__pages_move(pages, &span, 1, 1, page_at(pages, 20)));
    CHECK(is_usable(1, span_at(pages, 20, 2)));
    CHECK_OK(tarn__pages_set_peer(pages, 1, false));
    CHECK_OK(tarn__pages_set_peer(pages, 1, false));
    CHECK(!is_usable(1, span_at(pages, 20, 2)) && !is_usable(1, span_at(pages, 5, 2)));
    CHECK(is_usable(0, span_at(pages, 20, 2)) && is_usable(0, span_at(pages, 5, 2)));
    CHECK_OK(grow_at(pages, 9, 1));
    CHECK(!is_usable(1, span_at(pages, 9, 1)));
    tarn__pages_close(pages);
}

TEST(pages_that_wake_are_their_peers_as_before)
{
    struct tarn__pages *pages = open_pages();

    if (!has_second_device()) {
        tarn__pages_close(pages);
        skip();
    }
    CHECK_OK(grow_at(pages, 0, 2));
    CHECK_OK(tarn__pages_set_peer(pages, 1, true));
    CHECK_OK(tarn__pages_suspend(pages, NULL, 0));
    CHECK_OK(tarn__pages_resume(pages));
    CHECK(is_usable(1, span_at(pages, 0, 2)));
    CHECK_OK(tarn__pages_suspend(pages, NULL, 0));
    CHECK_OK(tarn__pages_set_peer(pages, 1, false)); /* set while the pool is suspended */
    CHECK_OK(tarn__pages_resume(pages));
    CHECK(!is_usable(1, span_at(pages, 0, 2)) && is_usable(0, span_at(pages, 0, 2)));
    CHECK_OK(tarn__pages_suspend(pages, NULL, 0));
    CHECK_OK(tarn__pages_set_peer(pages, 1, true));
    CHECK_OK(tarn__pages_resume(pages));
    CHECK(is_usable(1, span_at(pages, 0, 2)));
    tarn__pages_close(pages);
}

TEST(pages_refuse_a_peer_that_is_none)
{
    struct tarn__pages *pages = open_pages();

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__pages_set_peer(pages, 0, true));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__pages_set_peer(pages, 99, true));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn__pages_set_peer(pages, -1, false));
    tarn__pages_close(pages);
}
