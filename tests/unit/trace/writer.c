/* Test writing logs: exact output, many threads, and logs that cannot be written. */
#define _GNU_SOURCE
#include "file.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>

static struct text write_one(tarn_trace_format format, const tarn_trace_event *event)
{
    struct text text = {0};
    tarn_trace_writer *writer;

    CHECK_OK(tarn_trace_writer_create(text_write, &text, format, &writer));
    CHECK_OK(tarn_trace_write(writer, event));
    CHECK_OK(tarn_trace_writer_release(writer));
    return text;
}

/* The row after the header. */
static void check_row(tarn_trace_format format, const tarn_trace_event *event,
                      const char *row)
{
    struct text text = write_one(format, event);
    const char *header = format == TARN_TRACE_NBEP7 ? NBEP7_HEADER : RMM_HEADER;

    CHECK(strncmp(text.bytes, header, strlen(header)) == 0);
    CHECK_TEXT(row, text.bytes + strlen(header));
    text_free(&text);
}

TEST(writer_writes_nbep7_rows_to_the_letter)
{
    tarn_trace_event event = allocation;

    check_row(TARN_TRACE_NBEP7, &event,
              "Alloc,0,0x7fae06600000,0,80,1000,2000,1,1.105490000,1.107400001,"
              "0.001910001,/home/me/example.py:7\n");
    event.action = TARN_ACTION_FREE;
    event.stream = 0x55d0c0001000;
    event.location = "<gc>";
    event.device = 3;
    check_row(TARN_TRACE_NBEP7, &event,
              "Free,3,0x7fae06600000,0x55d0c0001000,80,1000,2000,1,1.105490000,"
              "1.107400001,0.001910001,<gc>\n");
}

TEST(writer_writes_a_failed_allocation_and_no_stream)
{
    tarn_trace_event event = {.action = TARN_ACTION_ALLOCATE_FAILURE,
                              .device = TARN_DEVICE_NONE,
                              .stream = UINT64_MAX,
                              .bytes = UINT64_MAX};

    check_row(TARN_TRACE_NBEP7, &event,
              "Alloc Failure,-1,0x0,none,18446744073709551615,0,0,0,0.000000000,"
              "0.000000000,0.000000000,\n");
}

TEST(writer_quotes_locations_as_rfc_4180_says)
{
    tarn_trace_event event = allocation;
    struct text text;

    event.location = "a \"b\", c\nd:1";
    text = write_one(TARN_TRACE_NBEP7, &event);
    CHECK(strstr(text.bytes, ",\"a \"\"b\"\", c\nd:1\"\n") != NULL);
    text_free(&text);
}

TEST(writer_writes_rmm_rows_to_the_letter)
{
    tarn_trace_event event = allocation;

    event.start_ns = ((13 * 60 + 5) * 60 + 9) * 1000000000ull + 42999;
    check_row(TARN_TRACE_RMM, &event,
              "4711,13:05:09.000042,allocate,0x7fae06600000,80,0\n");
    event.action = TARN_ACTION_FREE;
    event.stream = 2;
    check_row(TARN_TRACE_RMM, &event,
              "4711,13:05:09.000042,free,0x7fae06600000,80,0x2\n");
    event.action = TARN_ACTION_ALLOCATE_FAILURE;
    event.address = 0;
    check_row(TARN_TRACE_RMM, &event,
              "4711,13:05:09.000042,allocate failure,(nil),80,0x2\n");
}

TEST(writer_without_events_leaves_a_header)
{
    struct text text = {0};
    tarn_trace_writer *writer;

    CHECK_OK(tarn_trace_writer_create(text_write, &text, TARN_TRACE_RMM, &writer));
    CHECK(tarn_trace_writer_retain(writer) == writer);
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_EQUAL(0, text.count);
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_TEXT(RMM_HEADER, text.bytes);
    text_free(&text);
}

TEST(writer_hands_on_whole_lines_when_full_and_when_flushed)
{
    struct text text = {0};
    tarn_trace_writer *writer;

    CHECK_OK(tarn_trace_writer_create(text_write, &text, TARN_TRACE_NBEP7, &writer));
    CHECK_OK(tarn_trace_write(writer, &allocation));
    CHECK_OK(tarn_trace_flush(writer));
    CHECK(text.writes >= 1);
    for (int i = 0; i < 2000; i++) {
        CHECK_OK(tarn_trace_write(writer, &allocation));
        CHECK_EQUAL('\n', text.bytes[text.count - 1]);
    }
    CHECK(text.writes > 2);
    CHECK_OK(tarn_trace_writer_release(writer));
    text_free(&text);
}

TEST(writer_cuts_a_location_that_would_not_fit)
{
    struct text text;
    tarn_trace_event event = allocation;
    char *location = malloc(100001);
    const char *quoted;

    memset(location, '"', 100000);
    location[100000] = 0;
    event.location = location;
    text = write_one(TARN_TRACE_NBEP7, &event);
    quoted = strchr(text.bytes, '"');
    CHECK_EQUAL(2 * 4096 + 2, strlen(quoted) - 1);
    text_free(&text);
    free(location);
}

enum { THREADS = 4, EVENTS_EACH = 3000 };

static void *write_many(void *data)
{
    for (int i = 0; i < EVENTS_EACH; i++)
        if (tarn_trace_write(data, &allocation) != TARN_OK)
            return data;
    return NULL;
}

TEST(writer_never_mixes_the_lines_of_threads)
{
    static const char row[] = "4711,00:00:01.105490,allocate,0x7fae06600000,80,0\n";
    struct text text = {0};
    tarn_trace_writer *writer;
    pthread_t threads[THREADS];

    CHECK_OK(tarn_trace_writer_create(text_write, &text, TARN_TRACE_RMM, &writer));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, write_many, writer));
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        CHECK_EQUAL(0, pthread_join(threads[i], &failed));
        CHECK(failed == NULL);
    }
    CHECK_OK(tarn_trace_writer_release(writer));
    const char *at = text.bytes + strlen(RMM_HEADER);
    for (int i = 0; i < THREADS * EVENTS_EACH; i++, at += strlen(row))
        CHECK(strncmp(at, row, strlen(row)) == 0);
    CHECK_EQUAL(0, *at);
    text_free(&text);
}

static bool fail_write(void *data, const char *bytes, size_t count)
{
    (void)bytes;
    (void)count;
    ++*(int *)data;
    errno = ENOSPC;
    return false;
}

TEST(writer_that_could_not_write_fails_from_then_on)
{
    tarn_trace_writer *writer;
    int calls = 0;

    CHECK_OK(tarn_trace_writer_create(fail_write, &calls, TARN_TRACE_NBEP7, &writer));
    tarn_trace_write(writer, &allocation);
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_flush(writer));
    CHECK_MESSAGE("No space left on device");
    CHECK_EQUAL(ENOSPC, tarn_error_last()->native);
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_write(writer, &allocation));
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_writer_release(writer));
    CHECK_EQUAL(1, calls);
}

TEST(writer_to_a_full_device_fails_at_the_flush)
{
    tarn_trace_writer *writer;

    CHECK_OK(tarn_trace_writer_open("/dev/full", TARN_TRACE_RMM, &writer));
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_writer_release(writer));
    CHECK_MESSAGE("/dev/full");
}

TEST(writer_rejects_bad_files_and_invalid_events)
{
    tarn_trace_writer *writer = NULL;
    struct text text = {0};
    tarn_trace_event event = allocation;

    CHECK_STATUS(TARN_SYSTEM_FAILURE,
                 tarn_trace_writer_open("/nowhere/at/all.csv", TARN_TRACE_RMM, &writer));
    CHECK_MESSAGE("cannot create /nowhere/at/all.csv: No such file or directory");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_writer_open("", 0, &writer));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_writer_create(NULL, NULL, 0, &writer));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_trace_writer_create(text_write, &text, 7, &writer));
    CHECK(writer == NULL);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_write(NULL, &event));
    CHECK_OK(tarn_trace_writer_create(text_write, &text, 0, &writer));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_write(writer, NULL));
    event.action = (tarn_action)99;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_write(writer, &event));
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_TEXT(NBEP7_HEADER, text.bytes);
    CHECK_OK(tarn_trace_writer_release(NULL));
    text_free(&text);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

TEST(writer_counts_time_from_its_beginning_or_from_midnight)
{
    struct text text = {0};
    tarn_trace_writer *nbep7, *rmm;
    const uint64_t second = 1000000000u, day = 86400 * second;
    uint64_t before = now_ns();
    time_t now = time(NULL);
    struct tm local;

    CHECK_OK(tarn_trace_writer_create(text_write, &text, TARN_TRACE_NBEP7, &nbep7));
    CHECK_OK(tarn_trace_writer_create(text_write, &text, TARN_TRACE_RMM, &rmm));
    CHECK_EQUAL(0, tarn_trace_writer_time_ns(nbep7, before - 1));
    uint64_t later = now_ns() + 5 * second;
    CHECK(tarn_trace_writer_time_ns(nbep7, later) <= later - before);
    CHECK(tarn_trace_writer_time_ns(nbep7, later) >= 5 * second);

    localtime_r(&now, &local);
    uint64_t midnight =
        (uint64_t)((local.tm_hour * 60 + local.tm_min) * 60 + local.tm_sec) * second;
    uint64_t written_ns = tarn_trace_writer_time_ns(rmm, before);
    CHECK((written_ns + day - midnight) % day < 60 * second);
    CHECK(tarn_trace_writer_time_ns(rmm, before + 3 * day) < day);
    CHECK_OK(tarn_trace_writer_release(nbep7));
    CHECK_OK(tarn_trace_writer_release(rmm));
    text_free(&text);
}

/* A log that uses its writer, with the result of that. */
struct within {
    tarn_trace_writer *writer;
    tarn_status write, flush, release;
    int calls;
};

static bool write_within(void *data, const char *bytes, size_t count)
{
    struct within *within = data;

    (void)bytes, (void)count;
    within->calls++;
    within->write = tarn_trace_write(within->writer, &allocation);
    within->flush = tarn_trace_flush(within->writer);
    CHECK_MESSAGE("trace: the write function of the log must not use its own writer");
    within->release = tarn_trace_writer_release(within->writer);
    return true;
}

TEST(writer_is_rejected_in_its_own_write_function)
{
    struct within within = {0};

    CHECK_OK(
        tarn_trace_writer_create(write_within, &within, TARN_TRACE_RMM, &within.writer));
    CHECK_OK(tarn_trace_flush(within.writer));
    CHECK_EQUAL(TARN_REENTRANT_CALL, within.write);
    CHECK_EQUAL(TARN_REENTRANT_CALL, within.flush);
    CHECK_EQUAL(TARN_REENTRANT_CALL, within.release);
    CHECK_OK(tarn_trace_write(within.writer, &allocation)); /* it goes on */
    tarn_trace_writer_retain(within.writer);
    CHECK_OK(tarn_trace_flush(within.writer));
    CHECK_EQUAL(TARN_OK, within.release);               /* not the last one */
    CHECK_OK(tarn_trace_writer_release(within.writer)); /* nothing is left to write */
    CHECK_EQUAL(2, within.calls);
}

static tarn_resource *logged;

static bool write_and_allocate(void *data, const char *bytes, size_t count)
{
    tarn_device_ptr block;

    (void)bytes, (void)count;
    ++*(int *)data;
    return tarn_resource_allocate(logged, 10, 0, NULL, &block) == TARN_OK &&
           tarn_resource_deallocate(logged, block, 10, 0, NULL) == TARN_OK;
}

TEST(writer_leaves_out_allocations_of_its_own_write_function)
{
    tarn_trace_writer *writer;
    tarn_device_ptr block;
    tarn_resource *host;
    int calls = 0;

    CHECK_OK(tarn_host_create(&host));
    CHECK_OK(
        tarn_trace_writer_create(write_and_allocate, &calls, TARN_TRACE_RMM, &writer));
    CHECK_OK(tarn_logger_create(host, writer, &logged));
    CHECK_OK(tarn_resource_allocate(logged, 10, 0, NULL, &block));
    CHECK_OK(tarn_trace_flush(writer));
    CHECK_OK(tarn_resource_deallocate(logged, block, 10, 0, NULL));
    CHECK_OK(tarn_trace_flush(writer));
    CHECK_EQUAL(2, calls);
    CHECK_OK(tarn_resource_release(logged));
    CHECK_OK(tarn_resource_release(host));
    CHECK_OK(tarn_trace_writer_release(writer));
}

static int use_parents_log(void *data)
{
    tarn_trace_writer *writer = data;

    if (tarn_trace_write(writer, &allocation) != TARN_NOT_SUPPORTED ||
        tarn_trace_flush(writer) != TARN_NOT_SUPPORTED ||
        tarn_trace_writer_release(writer) != TARN_OK)
        return 1;
    return 0;
}

TEST(writer_of_the_parent_is_not_written_by_a_forked_child)
{
    char path[] = "/tmp/tarn-writer-XXXXXX";
    tarn_trace_writer *writer;

    close(mkstemp(path));
    CHECK_OK(tarn_trace_writer_open(path, TARN_TRACE_RMM, &writer));
    CHECK_OK(tarn_trace_write(writer, &allocation));
    CHECK_EQUAL(0, in_child(use_parents_log, writer));
    CHECK_OK(tarn_trace_write(writer, &allocation));
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_EQUAL(strlen(RMM_HEADER) +
                    2 * strlen("4711,00:00:01.105490,allocate,0x7fae06600000,80,0\n"),
                size_of(path));
    unlink(path);
}

static int log_and_exit(void *path)
{
    tarn_trace_writer *writer;

    if (tarn_trace_writer_open(path, TARN_TRACE_RMM, &writer) != TARN_OK)
        return 1;
    return tarn_trace_write(writer, &allocation) == TARN_OK ? 0 : 2;
}

static int count_local_time(void *unused)
{
    const uint64_t second = 1000000000u, day = 86400 * second;
    uint64_t seconds = (uint64_t)time(NULL) + 5 * 3600 + 30 * 60; /* of India */
    struct text text = {0};
    tarn_trace_writer *rmm;

    (void)unused;
    if (tarn_trace_writer_create(text_write, &text, TARN_TRACE_RMM, &rmm) != TARN_OK)
        return 1;
    uint64_t written_ns = tarn_trace_writer_time_ns(rmm, now_ns());
    tarn_trace_writer_release(rmm);
    text_free(&text);
    return (written_ns + day - seconds * second % day) % day < 60 * second ? 0 : 2;
}

TEST(writer_of_a_forked_child_counts_from_midnight_where_its_parent_is)
{
    const char *zone = getenv("TZ");
    char *before = zone ? strdup(zone) : NULL;

    CHECK_EQUAL(0, setenv("TZ", "XXX-5:30", 1));
    tzset();
    int here = count_local_time(NULL), child = in_child(count_local_time, NULL);
    CHECK_EQUAL(0, before ? setenv("TZ", before, 1) : unsetenv("TZ"));
    tzset();
    free(before);
    CHECK_EQUAL(0, here);
    CHECK_EQUAL(0, child);
}

TEST(unreleased_writer_is_flushed_at_exit)
{
    char path[] = "/tmp/tarn-writer-XXXXXX";

    close(mkstemp(path));
    CHECK_EQUAL(0, in_child(log_and_exit, path));
    CHECK_EQUAL(strlen(RMM_HEADER) +
                    strlen("4711,00:00:01.105490,allocate,0x7fae06600000,80,0\n"),
                size_of(path));
    unlink(path);
}

static int log_and_leave(void *path)
{
    tarn_trace_writer *writer;

    if (tarn_trace_writer_open(path, TARN_TRACE_RMM, &writer) != TARN_OK)
        return 1;
    if (tarn_trace_write(writer, &allocation) != TARN_OK)
        return 2;
    tarn_trace_flush_all();
    _exit(0);
}

TEST(a_process_that_flushes_all_logs_may_end_without_exit)
{
    char path[] = "/tmp/tarn-writer-XXXXXX";

    close(mkstemp(path));
    CHECK_EQUAL(0, in_child(log_and_leave, path));
    CHECK_EQUAL(strlen(RMM_HEADER) +
                    strlen("4711,00:00:01.105490,allocate,0x7fae06600000,80,0\n"),
                size_of(path));
    unlink(path);
}

/* Two logs that cannot be written, and one that can. */
static int fill_the_disk_and_exit(void *path)
{
    const char *const paths[] = {"/dev/full", path, "/dev/full"};

    for (int i = 0; i < 3; i++) {
        tarn_trace_writer *writer;
        if (tarn_trace_writer_open(paths[i], TARN_TRACE_RMM, &writer) != TARN_OK)
            return 1;
    }
    FILE *error_file = fopen(path, "w"); /* the output at exit */
    return error_file && dup2(fileno(error_file), 2) == 2 ? 0 : 2;
}

TEST(writers_that_cannot_be_flushed_at_exit_are_one_warning)
{
    char path[] = "/tmp/tarn-writer-XXXXXX", output[2000] = "";

    close(mkstemp(path));
    CHECK_EQUAL(0, in_child(fill_the_disk_and_exit, path));
    int file = open(path, O_RDONLY);
    CHECK(file >= 0 && read(file, output, sizeof output - 1) > 0);
    close(file);
    unlink(path);
    const char *warning = strstr(output, "tarn: warning: trace: 2 logs are incomplete");
    CHECK(warning != NULL);
    CHECK(strstr(warning, "cannot write /dev/full: No space left on device"));
    CHECK(!strstr(warning + 1, "tarn: warning"));
}
