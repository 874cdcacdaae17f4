/* Test the columns of logs: by name, in any order, with others between them. */
#define _GNU_SOURCE
#include "text.h"

/* Check that `content` has one row, the same as this log of RMM's current form. */
static void check_one_row(const char *content)
{
    struct events events = {0};

    CHECK_OK(events_read(content, &events));
    CHECK_EQUAL(1, events.count);
    CHECK_EQUAL(TARN_ACTION_ALLOCATE, events.items[0].action);
    CHECK_EQUAL(7, events.items[0].thread);
    CHECK_EQUAL(1500000000, events.items[0].start_ns);
    CHECK_EQUAL(0x10, events.items[0].address);
    CHECK_EQUAL(100, events.items[0].bytes);
    CHECK_EQUAL(2, events.items[0].stream);
    events_free(&events);
}

TEST(header_finds_rmms_columns_in_any_order)
{
    check_one_row(RMM_HEADER "7,00:00:01.500000,allocate,0x10,100,0x2\n");
    check_one_row("Stream,Size,Pointer,Action,Time,Thread\n"
                  "0x2,100,0x10,allocate,00:00:01.500000,7\n");
    check_one_row("Action,Thread,Stream,Time,Size,Pointer\n"
                  "allocate,7,0x2,00:00:01.500000,100,0x10\n");
}

TEST(header_leaves_out_columns_that_no_format_knows)
{
    check_one_row(",Thread,Host,Time,Action,Pointer,Size,Stream,Tag,Tag\r\n"
                  "0,7,\"a,b\",00:00:01.500000,allocate,0x10,100,0x2,,\"x\ny\"\r\n");
    check_one_row("\xef\xbb\xbfThread, Time, Action, Pointer, Size, Stream\n"
                  "7, 00:00:01.500000, allocate, 0x10, 100, 0x2\n");
}

TEST(header_finds_the_columns_of_nbep_7_in_any_order)
{
    struct events events = {0};

    CHECK_OK(
        events_read("Location,Event Type,Elapsed,End,Start,Current Allocs,Host,"
                    "Total Memory,Free Memory,Size (bytes),Stream,Address,Device ID\n"
                    "a.py:7,Free,1,3,2,5,here,2000,1000,80,none,0x10,3\n",
                    &events));
    CHECK_EQUAL(1, events.count);
    CHECK_EQUAL(TARN_ACTION_FREE, events.items[0].action);
    CHECK_EQUAL(3, events.items[0].device);
    CHECK_EQUAL(80, events.items[0].bytes);
    CHECK_EQUAL(1000, events.items[0].free_bytes);
    CHECK_EQUAL(3000000000, events.items[0].end_ns);
    CHECK_TEXT("a.py:7", events.items[0].location);
    events_free(&events);
}

TEST(header_of_rmm_may_lack_the_thread_and_the_time)
{
    struct events events = {0};

    CHECK_OK(events_read("Time,Action,Pointer,Size,Stream\n"
                         "00:00:02:000001,allocate,0x10,100,0\n",
                         &events));
    CHECK_EQUAL(0, events.items[0].thread);
    CHECK_EQUAL(2000001000, events.items[0].start_ns);
    CHECK_OK(events_read("Action,Pointer,Size,Stream\nfree,0x10,100,0\n", &events));
    CHECK_EQUAL(0, events.items[1].start_ns);
    events_free(&events);
}

TEST(header_may_come_again_with_another_order)
{
    struct events events = {0};

    CHECK_OK(events_read(RMM_HEADER "7,00:00:01.5,allocate,0x10,100,0x2\n" RMM_HEADER
                                    "8,00:00:02.5,free,0x10,100,0x2\n"
                                    "\xef\xbb\xbfTime,Action,Pointer,Stream,Size,Note\n"
                                    "00:00:03:5,allocate,0x20,0,200,x\n",
                         &events));
    CHECK_EQUAL(3, events.count);
    CHECK_EQUAL(8, events.items[1].thread);
    CHECK_EQUAL(4, events.lines[1]);
    CHECK_EQUAL(200, events.items[2].bytes);
    CHECK_EQUAL(6, events.lines[2]);
    events_free(&events);
}

TEST(header_that_is_not_whole_or_ambiguous_is_rejected)
{
    check_rejected("Thread,Time,Action,Pointer,Size\n", 0,
                   "log.csv:1: not a header of RMM: it has no column Stream");
    check_rejected("Event Type,Device ID\n", 0,
                   "log.csv:1: not a header of NBEP 7: it has no column Address");
    check_rejected("Thread,Time,Action,Pointer,Size,Stream,Size\n", 0,
                   "log.csv:1: not a header of RMM: it has two columns Size");
    check_rejected("Action,Time,Action,Pointer,Size,Stream\n", 0,
                   "log.csv:1: not a header of RMM: it has two columns Action");
    check_rejected(RMM_HEADER "7,00:00:01.5,allocate,0x10,100,0\n"
                              "Time,Action,Pointer,Size\n",
                   1, "log.csv:3: not a header of RMM: it has no column Stream");
    check_rejected(RMM_HEADER NBEP7_HEADER, 0,
                   "log.csv:2: the line has 12 columns, 6 are required");
    check_rejected("Action,Pointer,Size,Stream,Note\nfree,0x10,100,0\n", 0,
                   "log.csv:2: the line has 4 columns, 5 are required");
    check_rejected("a,,b\x01\n", 0,
                   "log.csv:1: not a header of NBEP 7 or of RMM: \"a,,b\\x01\"");
}

TEST(header_has_at_most_64_columns)
{
    struct text header = text_of("Action,Pointer,Size,Stream");
    struct text row = text_of("free,0x10,100,0");
    struct events events = {0};

    for (int i = 4; i < 64; i++) {
        text_write(&header, ",x", 2);
        text_write(&row, ",1", 2);
    }
    struct text log = text_of(header.bytes);
    text_write(&log, "\n", 1);
    text_write(&log, row.bytes, row.count);
    CHECK_OK(events_read(log.bytes, &events));
    CHECK_EQUAL(100, events.items[0].bytes);
    events_free(&events);
    text_write(&header, ",x\n", 3);
    check_rejected(header.bytes, 0,
                   "log.csv:1: not a header of RMM: it has more than 64");
    text_free(&header);
    text_free(&row);
    text_free(&log);
}
