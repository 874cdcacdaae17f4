/* Test rows of RMM's logs: those of each version of RMM, and their hostile relatives. */
#define _GNU_SOURCE
#include "text.h"

/* Read a log of one row; its event, whose strings are gone. */
static tarn_trace_event only_row(const char *row)
{
    struct text text = text_of(RMM_HEADER);
    struct events events = {0};
    tarn_trace_event event;

    text_write(&text, row, strlen(row));
    CHECK_OK(events_read(text.bytes, &events));
    CHECK_EQUAL(1, events.count);
    event = events.items[0];
    events_free(&events);
    text_free(&text);
    return event;
}

static void check_rejected_row(const char *row, const char *says)
{
    struct text text = text_of(RMM_HEADER), message = text_of("log.csv:2: ");

    text_write(&text, row, strlen(row));
    text_write(&message, says, strlen(says));
    check_rejected(text.bytes, 0, message.bytes);
    text_free(&text);
    text_free(&message);
}

TEST(rmm_csv_reads_the_times_of_all_versions)
{
    const uint64_t ns = 41405123456000; /* 11:30:05.123456 */

    CHECK_EQUAL(ns, only_row("1,11:30:05.123456,free,0x1,8,0\n").start_ns);
    CHECK_EQUAL(ns, only_row("1,11:30:05:123456,free,0x1,8,0\n").start_ns);
    CHECK_EQUAL(ns, only_row("1,2021-03-04 11:30:05.123456,free,0x1,8,0\n").start_ns);
    CHECK_EQUAL(ns, only_row("1,2021-03-04T11:30:05.123456,free,0x1,8,0\n").start_ns);
    CHECK_EQUAL(ns, only_row("1,11:30:05.1234560000009,free,0x1,8,0\n").start_ns);
    for (int i = 0; i < 10; i++) {
        static const char *const bad[] = {
            "11:30",      "11:30:5", "11-30-05", "11:30:05;1", "11:30:05.1 ",
            "2021-03-04", "",        "24:0:0",   " T",         "11:30:05::1"};
        char row[80], says[80];
        snprintf(row, sizeof row, "1,%s,free,0x1,8,0\n", bad[i]);
        snprintf(says, sizeof says, "Time \"%s\" is not a time HH:MM:SS.uuuuuu",
                 bad[i] + strspn(bad[i], " "));
        check_rejected_row(row, says);
    }
}

TEST(rmm_csv_reads_pointers_as_hexadecimal_with_or_without_0x)
{
    static const struct {
        const char *text;
        uint64_t address;
    } pointers[] = {{"0x7f0b30000000", 0x7f0b30000000},
                    {"7f0b30000000", 0x7f0b30000000},
                    {"0X7F", 0x7f},
                    {"10", 0x10},
                    {"ffffffffffffffff", UINT64_MAX},
                    {"(nil)", 0},
                    {"0x0", 0},
                    {" 0x10", 0x10}};

    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        char row[80];
        snprintf(row, sizeof row, "1,00:00:00,free,%s,8,0\n", pointers[i].text);
        CHECK(only_row(row).address == pointers[i].address);
    }
    check_rejected_row("1,00:00:00,free,10000000000000000,8,0\n",
                       "Pointer \"10000000000000000\" is too large");
    check_rejected_row("1,00:00:00,free,0xfg,8,0\n", "Pointer \"0xfg\" is not a number");
    check_rejected_row("1,00:00:00,free,-1,8,0\n", "Pointer \"-1\" is not a number");
    check_rejected_row("1,00:00:00,free,,8,0\n", "Pointer \"\" is not a number");
    check_rejected_row("1,00:00:00,free,(null),8,0\n", "Pointer \"(null)\"");
}

TEST(rmm_csv_reads_streams_as_numbers_or_pointers)
{
    CHECK_EQUAL(2, only_row("1,00:00:00,free,0x1,8,0x2\n").stream);
    CHECK_EQUAL(12, only_row("1,00:00:00,free,0x1,8,12\n").stream);
    CHECK_EQUAL(0x55d0, only_row("1,00:00:00,free,0x1,8,55d0\n").stream);
    CHECK_EQUAL(0, only_row("1,00:00:00,free,0x1,8,(nil)\n").stream);
    CHECK(only_row("1,00:00:00,free,0x1,8,18446744073709551615\n").stream == UINT64_MAX);
    check_rejected_row("1,00:00:00,free,0x1,8,18446744073709551616\n",
                       "Stream \"18446744073709551616\" is too large");
    check_rejected_row("1,00:00:00,free,0x1,8,\n", "Stream \"\" is not a number");
    check_rejected_row("1,00:00:00,free,0x1,8,none\n", "Stream \"none\"");
}

TEST(rmm_csv_rejects_unknown_actions_and_sizes_that_are_none)
{
    check_rejected_row("1,00:00:00,Allocate,0x1,8,0\n",
                       "Action \"Allocate\" is not allocate, free or allocate failure");
    check_rejected_row("1,00:00:00,,0x1,8,0\n", "Action \"\"");
    check_rejected_row("1,00:00:00,free ,0x1,8,0\n", "Action \"free \"");
    check_rejected_row("1,00:00:00,free,0x1,-8,0\n", "Size \"-8\" is not a number");
    check_rejected_row("1,00:00:00,free,0x1,1.5,0\n", "Size \"1.5\" is not a number");
    check_rejected_row("1,00:00:00,free,0x1,,0\n", "Size \"\" is not a number");
    check_rejected_row("-1,00:00:00,free,0x1,8,0\n", "Thread \"-1\" is not a number");
}

TEST(rmm_csv_reads_rows_of_0_bytes)
{
    tarn_trace_event event = only_row("24609,07:11:37.691553,allocate,(nil),0,0\n");

    CHECK_EQUAL(TARN_ACTION_ALLOCATE, event.action);
    CHECK_EQUAL(0, event.address);
    CHECK_EQUAL(0, event.bytes);
    CHECK_EQUAL(TARN_ACTION_FREE, only_row("1,00:00:00,free,0x0,0,0x2\n").action);
}
