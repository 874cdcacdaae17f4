/* Test reading logs: both formats, valid and damaged. */
#define _GNU_SOURCE
#include "text.h"
#include "base/random.h"
#include <errno.h>

TEST(reader_reads_the_example_of_nbep7)
{
    struct events events = {0};

    CHECK_OK(events_read(NBEP7_HEADER "Alloc,0,0x7fae06600000,0,80,0,0,1,1.10549,1.1074,"
                                      "0.00191666,/home/driver.py:683\n"
                                      "Free,0,0x7fae06600000,0,0,0,0,0,1.10798,1.10921,"
                                      "0.00122238,/home/utils.py:678\n",
                         &events));
    CHECK_EQUAL(2, events.count);
    CHECK_EQUAL(TARN_ACTION_ALLOCATE, events.items[0].action);
    CHECK_EQUAL(0x7fae06600000, events.items[0].address);
    CHECK_EQUAL(80, events.items[0].bytes);
    CHECK_EQUAL(1105490000, events.items[0].start_ns);
    CHECK_EQUAL(1107400000, events.items[0].end_ns);
    CHECK_TEXT("/home/driver.py:683", events.items[0].location);
    CHECK_EQUAL(TARN_ACTION_FREE, events.items[1].action);
    CHECK_EQUAL(3, events.lines[1]);
    events_free(&events);
}

TEST(reader_reads_rmms_rows)
{
    struct events events = {0};

    CHECK_OK(events_read(RMM_HEADER
                         "17,23:59:59.999999,allocate,0x7f01,77405808,0x55d0\r\n"
                         "17,00:00:00.5,allocate failure,(nil),5,0\r\n\r\n"
                         "18,00:00:01,free,0x7f01,77405808,0",
                         &events));
    CHECK_EQUAL(3, events.count);
    CHECK_EQUAL(17, events.items[0].thread);
    CHECK_EQUAL(86399999999000, events.items[0].start_ns);
    CHECK_EQUAL(0x55d0, events.items[0].stream);
    CHECK_EQUAL(TARN_DEVICE_NONE, events.items[0].device);
    CHECK_EQUAL(0, events.items[1].address);
    CHECK_EQUAL(500000000, events.items[1].start_ns);
    CHECK_EQUAL(5, events.lines[2]);
    events_free(&events);
}

TEST(reader_reads_quoted_fields_with_line_ends_and_counts_them)
{
    struct events events = {0};

    CHECK_OK(events_read(NBEP7_HEADER
                         "Alloc,0,0x1,0,8,0,0,1,1e-3,.5,1E+1,\"a,\"\"b\"\"\r\n\nc\"\r\n"
                         "\"Free\",-1,16,none,8,0,0,0,2.0000000009,3,0,\n",
                         &events));
    CHECK_TEXT("a,\"b\"\r\n\nc", events.items[0].location);
    CHECK_EQUAL(1000000, events.items[0].start_ns);
    CHECK_EQUAL(500000000, events.items[0].end_ns);
    CHECK_EQUAL(5, events.lines[1]);
    CHECK_EQUAL(16, events.items[1].address);
    CHECK_EQUAL(2000000000, events.items[1].start_ns);
    CHECK(events.items[1].stream == UINT64_MAX);
    events_free(&events);
}

TEST(reader_names_line_column_and_value_of_an_error)
{
#define GOOD "1,00:00:00.000050,allocate,0x7f,8,0\n"
    check_rejected("", 0, "log.csv: the file is empty");
    check_rejected("a,b\x1b[31m,c\n", 0,
                   "log.csv:1: not a header of NBEP 7 or of RMM: \"a,b\\x1b[31m,c\"");
    check_rejected("Thread,Time,Action,Pointer,Size\n", 0, "log.csv:1: not a header");
    check_rejected(RMM_HEADER GOOD "1,00:00:00.000050,allocate,0x7f\n", 1,
                   "log.csv:3: the line has 4 columns, 6 are required");
    check_rejected(
        RMM_HEADER GOOD "1,00:00:00.000050,allo", 1,
        "log.csv:3: the file ends inside a line with 3 columns, 6 are required");
    check_rejected(RMM_HEADER "1,00:00:00.000050,allocate,0x7f,8,0,9,9,9,9,9,9,9,9,9\n",
                   0, "log.csv:2: the line has 15 columns, 6 are required");
    check_rejected(RMM_HEADER "1,24:00:00.000050,allocate,0x7f,8,0\n", 0,
                   "log.csv:2: Time \"24:00:00.000050\" is not a time HH:MM:SS.uuuuuu");
    check_rejected(RMM_HEADER "1,00:00:00.1x,allocate,0x7f,8,0\n", 0, "log.csv:2: Time");
    check_rejected(RMM_HEADER "1,00:00:00.1,alloc,0x7f,8,0\n", 0,
                   "log.csv:2: Action \"alloc\" is not allocate, free");
    check_rejected(RMM_HEADER "1,00:00:00.1,allocate,0x,8,0\n", 0,
                   "log.csv:2: Pointer \"0x\" is not a number");
    check_rejected(RMM_HEADER "1,00:00:00.1,allocate,0x7f,-8,0\n", 0,
                   "log.csv:2: Size \"-8\" is not a number");
    check_rejected(RMM_HEADER "1,00:00:00.1,allocate,0x7f,18446744073709551616,0\n", 0,
                   "log.csv:2: Size \"18446744073709551616\" is too large");
    check_rejected(RMM_HEADER "1,00:00:00.1,allocate,0x1ffffffffffffffff,8,0\n", 0,
                   "log.csv:2: Pointer \"0x1ffffffffffffffff\" is too large");
    check_rejected(RMM_HEADER "1,00:00:00.1,allocate,0x7f,,0\n", 0,
                   "log.csv:2: Size \"\" is not a number");
    check_rejected(RMM_HEADER GOOD "1,\"00:00\"x,a\n", 1,
                   "log.csv:3: characters after the closing quote");
    check_rejected(RMM_HEADER GOOD "1,00\"00,a\n", 1, "log.csv:3: a quote inside");
    check_rejected(RMM_HEADER GOOD "1,00\r00,a\n", 1, "log.csv:3: a carriage return");
    check_rejected(RMM_HEADER GOOD "1,\"00:\n\n", 1,
                   "log.csv:3: the file ends inside a quoted field");
#undef GOOD
}

TEST(reader_tells_why_a_log_was_not_written_to_its_end)
{
    check_rejected(RMM_HEADER "1,00:00:00.1,free,0x1,8,0\n"
                              "# incomplete: No space left on device\n",
                   1,
                   "log.csv:3: the program could not write the log to its end: No space "
                   "left on device");
}

TEST(reader_rejects_bad_nbep7_values)
{
    check_rejected(NBEP7_HEADER "Allok,0,0x1,0,8,0,0,1,1,2,1,\n", 0,
                   "log.csv:2: Event Type \"Allok\" is not Alloc, Free");
    check_rejected(NBEP7_HEADER "Alloc,2147483648,0x1,0,8,0,0,1,1,2,1,\n", 0,
                   "log.csv:2: Device ID \"2147483648\" is too large");
    check_rejected(NBEP7_HEADER "Alloc,0,0x1,nobody,8,0,0,1,1,2,1,\n", 0,
                   "log.csv:2: Stream \"nobody\"");
    check_rejected(NBEP7_HEADER "Alloc,0,0x1,0,8,0,0,1,1e300,2,1,\n", 0,
                   "log.csv:2: Start \"1e300\" is too large");
    check_rejected(NBEP7_HEADER "Alloc,0,0x1,0,8,0,0,1,1,nan,1,\n", 0,
                   "log.csv:2: End \"nan\" is not a number of seconds");
    check_rejected(NBEP7_HEADER "Alloc,0,0x1,0,8,0,0,1,1,1.2.3,1,\n", 0,
                   "log.csv:2: End \"1.2.3\"");
    check_rejected(NBEP7_HEADER "Alloc,0,0x1,0,8,0,0,1,1,1,1e,\n", 0,
                   "log.csv:2: Elapsed \"1e\"");
}

TEST(reader_rejects_text_with_a_nul_byte)
{
    struct text text = text_of(RMM_HEADER "1,00:00:00.1,allocate?,0x1,8,0\n");
    struct events events = {0};

    *strchr(text.bytes, '?') = 0;
    CHECK_STATUS(TARN_BAD_FORMAT, events_read_text(&text, 0, &events));
    CHECK_MESSAGE("log.csv:2: a NUL byte");
    text_free(&text);
}

TEST(reader_keeps_to_its_limit_on_line_length)
{
    struct text text = text_of(NBEP7_HEADER "Alloc,0,0x1,0,8,0,0,1,1,2,1,\"");
    struct events events = {0};

    for (int i = 0; i < 3000; i++)
        text_write(&text, "line\nline\nline\nline\nline\nline\n", 30);
    CHECK_STATUS(TARN_BAD_FORMAT, events_read_text(&text, 0, &events));
    CHECK_MESSAGE("log.csv:2: the line exceeds 65536 bytes");
    tarn_trace_limits limits = {.line_bytes = 120};
    text.at = 0;
    CHECK_STATUS(TARN_BAD_FORMAT,
                 tarn_trace_read("log.csv", text_read, &text, &limits, NULL, NULL, NULL));
    CHECK_MESSAGE("log.csv:2: the line exceeds 120 bytes");
    text_free(&text);
}

static long fail_to_read(void *data, char *buffer, size_t capacity)
{
    (void)data;
    (void)buffer;
    (void)capacity;
    errno = EIO;
    return -1;
}

static long fail_without_a_reason(void *data, char *buffer, size_t capacity)
{
    (void)data, (void)buffer, (void)capacity;
    return -1;
}

static tarn_status fail_silently(void *data, const tarn_trace_event *event, uint64_t line)
{
    (void)data, (void)event, (void)line;
    return TARN_PLUGIN_FAILURE;
}

TEST(reader_reports_no_older_message_for_a_failure_without_one)
{
    struct text text = {.bytes = RMM_HEADER "1,00:00:00.1,allocate,0x1,8,0\n"};

    errno = ENOSPC;
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_read("log.csv", fail_without_a_reason,
                                                      NULL, NULL, NULL, NULL, NULL));
    CHECK_MESSAGE("log.csv:1: cannot read: no reason given");
    text.count = strlen(text.bytes);
    tarn_error_set(TARN_PLUGIN_FAILURE, "an older failure of a plugin");
    CHECK_STATUS(TARN_PLUGIN_FAILURE, tarn_trace_read("log.csv", text_read, &text, NULL,
                                                      fail_silently, NULL, NULL));
    CHECK_MESSAGE("log.csv:2: the callback rejected the row without a message");
}

TEST(reader_passes_failures_of_its_source_and_of_its_sink_on)
{
    struct events events = {.stop_at = 2};

    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_read("log.csv", fail_to_read, NULL, NULL,
                                                      events_take, &events, NULL));
    CHECK_MESSAGE("log.csv:1: cannot read: Input/output error");
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 events_read(RMM_HEADER "1,00:00:00.1,allocate,0x1,8,0\n"
                                        "1,00:00:00.1,free,0x1,8,0\n",
                             &events));
    CHECK_EQUAL(1, events.count);
    events_free(&events);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_trace_read(NULL, fail_to_read, NULL, NULL, NULL, NULL, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_trace_read("log.csv", NULL, NULL, NULL, NULL, NULL, NULL));
}

/* A number of any size: few bits are as frequent as many. */
static uint64_t any_number(uint64_t *seed)
{
    return tarn__random_next(seed) >> tarn__random_below(seed, 64);
}

static char *any_location(uint64_t *seed)
{
    static const char letters[] = ",\"\r\nab:7<> \t\x01\xc3\xa9";
    size_t count = tarn__random_below(seed, 40);
    char *location = malloc(count + 1);

    for (size_t i = 0; i < count; i++)
        location[i] = letters[tarn__random_below(seed, sizeof letters - 1)];
    location[count] = 0;
    return location;
}

static tarn_trace_event any_event(uint64_t *seed, tarn_trace_format format)
{
    tarn_trace_event event = {.action = (tarn_action)tarn__random_below(seed, 3),
                              .device = TARN_DEVICE_NONE,
                              .address = any_number(seed),
                              .stream = any_number(seed),
                              .bytes = any_number(seed)};

    if (tarn__random_below(seed, 8) == 0)
        event.stream = UINT64_MAX;
    if (format == TARN_TRACE_RMM) {
        event.thread = any_number(seed);
        event.start_ns = tarn__random_below(seed, 86400ull * 1000000) * 1000;
        event.end_ns = event.start_ns;
        return event;
    }
    event.device = (int)tarn__random_below(seed, 10) - 1;
    event.free_bytes = any_number(seed);
    event.total_bytes = any_number(seed);
    event.live_blocks = any_number(seed);
    event.start_ns = any_number(seed) % 1000000000000000000u;
    event.end_ns = any_number(seed) % 1000000000000000000u;
    event.location = any_location(seed);
    return event;
}

static void check_same(const tarn_trace_event *a, const tarn_trace_event *b)
{
    CHECK_EQUAL(a->action, b->action);
    CHECK_EQUAL(a->device, b->device);
    CHECK(a->address == b->address);
    CHECK(a->stream == b->stream);
    CHECK(a->bytes == b->bytes);
    CHECK(a->thread == b->thread);
    CHECK(a->free_bytes == b->free_bytes);
    CHECK(a->total_bytes == b->total_bytes);
    CHECK(a->live_blocks == b->live_blocks);
    CHECK(a->start_ns == b->start_ns);
    CHECK(a->end_ns == b->end_ns);
    CHECK_TEXT(a->location ? a->location : "", b->location ? b->location : "");
}

/* `count` random events, and the log that a writer makes of them. */
static struct text any_log(uint64_t *seed, tarn_trace_format format, size_t count,
                           tarn_trace_event *out)
{
    struct text text = {0};
    tarn_trace_writer *writer;

    CHECK_OK(tarn_trace_writer_create(text_write, &text, format, &writer));
    for (size_t i = 0; i < count; i++) {
        out[i] = any_event(seed, format);
        CHECK_OK(tarn_trace_write(writer, &out[i]));
    }
    CHECK_OK(tarn_trace_writer_release(writer));
    return text;
}

static void free_log(struct text *text, tarn_trace_event *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)items[i].location);
    text_free(text);
}

enum { ROUNDS = 300, MOST_EVENTS = 40 };

TEST(reader_reads_back_what_the_writer_wrote)
{
    tarn_trace_event items[MOST_EVENTS];

    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t seed = round;
        tarn_trace_format format = round % 2 ? TARN_TRACE_RMM : TARN_TRACE_NBEP7;
        size_t count = tarn__random_below(&seed, MOST_EVENTS);
        struct text text = any_log(&seed, format, count, items);
        struct events events = {0};
        CHECK_OK(events_read_text(&text, tarn__random_below(&seed, 9), &events));
        CHECK_EQUAL(count, events.count);
        for (size_t i = 0; i < count; i++)
            check_same(&items[i], &events.items[i]);
        events_free(&events);
        free_log(&text, items, count);
    }
}

/* Append a part of the text to itself: half a row, a header, the whole log. */
static void repeat(uint64_t *seed, struct text *text, size_t at)
{
    size_t count = 1 + tarn__random_below(seed, text->count - at);
    char *part = strndup(text->bytes + at, count);

    text_write(text, part, strlen(part));
    free(part);
}

/* Change, drop, repeat or cut a few bytes. */
static void damage(uint64_t *seed, struct text *text)
{
    static const char favourites[] = ",\"\r\n0x9e.-( \t#:\0";

    for (uint64_t n = 1 + tarn__random_below(seed, 6); n > 0 && text->count > 1; n--) {
        size_t at = tarn__random_below(seed, text->count);
        size_t rest = text->count - at;
        switch (tarn__random_below(seed, 6)) {
        case 0:
            text->bytes[at] = (char)tarn__random_next(seed);
            break;
        case 1:
            text->bytes[at] = favourites[tarn__random_below(seed, sizeof favourites - 1)];
            break;
        case 2:
            memmove(text->bytes + at, text->bytes + at + 1, rest - 1);
            text->count--;
            break;
        case 3:
            repeat(seed, text, tarn__random_below(seed, 2) ? at : 0);
            break;
        default:
            if (tarn__random_below(seed, 4) == 0)
                text->count = at;
        }
    }
}

/* Loading the log ends as reading it does, if it keeps to 64 bits of live bytes. */
static void check_load(struct text *text, tarn_status read)
{
    tarn_trace *trace = NULL;

    text->at = 0;
    tarn_status status = tarn_trace_load("log.csv", text_read, text, NULL, &trace);
    if (status == TARN_BAD_FORMAT && read == TARN_OK)
        CHECK(strstr(tarn_error_last()->message, "bytes more exceed 2^64 live bytes"));
    else
        CHECK_EQUAL(read, status);
    tarn_trace_release(trace);
}

TEST(reader_survives_damaged_logs)
{
    tarn_trace_event items[MOST_EVENTS];
    unsigned rejected = 0;

    for (uint64_t round = 0; round < 4 * ROUNDS; round++) {
        uint64_t seed = 1000 + round;
        size_t count = 1 + tarn__random_below(&seed, MOST_EVENTS - 1);
        struct text text =
            any_log(&seed, round % 2 ? TARN_TRACE_RMM : TARN_TRACE_NBEP7, count, items);
        struct events events = {0};
        damage(&seed, &text);
        tarn_status status =
            events_read_text(&text, tarn__random_below(&seed, 9), &events);
        if (status != TARN_OK) {
            CHECK_EQUAL(TARN_BAD_FORMAT, status);
            CHECK_MESSAGE("log.csv:");
            rejected++;
        }
        check_load(&text, status);
        events_free(&events);
        free_log(&text, items, count);
    }
    CHECK(rejected > ROUNDS);
}
