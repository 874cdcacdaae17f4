/* Test the writer of binary logs: rows, records, threads, killed processes. An independent
 * decoder reads the files. */
#define _GNU_SOURCE
#include "decoder.h"
#include "file.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static tarn_trace_writer *open_log(const char *path, unsigned depth, uint64_t ring_bytes)
{
    const tarn_trace_writer_options options = {.size = sizeof options,
                                               .format = TARN_TRACE_BINARY,
                                               .stack_depth = depth,
                                               .ring_bytes = ring_bytes};
    tarn_trace_writer *writer;

    CHECK_OK(tarn_trace_writer_open_with(path, &options, &writer));
    return writer;
}

static uint64_t tid(void)
{
    return (uint64_t)syscall(SYS_gettid);
}

/* --- one thread --- */

TEST(a_row_has_what_the_event_has)
{
    struct file file = file_new();
    tarn_trace_writer *writer = open_log(file.path, 3, 0);
    tarn_trace_event event = allocation;

    CHECK_EQUAL(TARN_TRACE_BINARY, tarn_trace_writer_format(writer));
    CHECK_EQUAL(3, tarn_trace_writer_stack_depth(writer));
    CHECK_OK(tarn_trace_write(writer, &event));
    event.action = TARN_ACTION_FREE;
    event.start_ns = 2000000000;
    event.end_ns = 9000000000;
    event.stream = UINT64_MAX;
    event.device = TARN_DEVICE_NONE;
    event.thread = 0;
    event.location = "<gc>";
    CHECK_OK(tarn_trace_write(writer, &event));
    event.action = TARN_ACTION_ALLOCATE_FAILURE;
    event.location = NULL;
    CHECK_OK(tarn_trace_write(writer, &event));
    CHECK_OK(tarn_trace_writer_release(writer));

    struct decoded log = decode(file.path);
    CHECK_EQUAL(3, log.count);
    CHECK_EQUAL(0, log.torn);
    CHECK_EQUAL(1107400001, log.rows[0].time_ns); /* the end of an allocation */
    CHECK_EQUAL(1910001, log.rows[0].duration_ns);
    CHECK_EQUAL(0x7fae06600000, log.rows[0].address);
    CHECK_EQUAL(80, log.rows[0].bytes);
    CHECK_EQUAL(4711, log.rows[0].thread);
    CHECK_EQUAL(2000000000, log.rows[1].time_ns); /* the begin of a free */
    CHECK_EQUAL(UINT32_MAX, log.rows[1].duration_ns);
    CHECK_EQUAL(UINT64_MAX, log.rows[1].stream);
    CHECK_EQUAL(-1, log.rows[1].device);
    CHECK_EQUAL(tid(), log.rows[1].thread);
    CHECK_EQUAL(TARN_ACTION_ALLOCATE_FAILURE, log.rows[2].action);
    CHECK_EQUAL(9000000000, log.rows[2].time_ns);
    CHECK_EQUAL(0, log.rows[2].stack);
    decoded_free(&log);
    unlink(file.path);
}

/* Check a string of the log. */
static void check_string(const struct decoded *log, uint64_t number, const char *text)
{
    const struct decoded_record *found = decoder_find(log, 1, number);

    CHECK(found != NULL);
    CHECK_EQUAL(8 + strlen(text), found->bytes);
    CHECK(memcmp(found->payload + 8, text, strlen(text)) == 0);
}

static void check_location(const struct decoded *log, uint32_t stack, const char *file,
                           uint64_t line)
{
    const struct decoded_record *found = decoder_find(log, 3, stack);

    CHECK(found != NULL);
    CHECK_EQUAL(1, decoder_number(found->payload + 4, 4));
    const struct decoded_record *frame =
        decoder_find(log, 2, decoder_number(found->payload + 8, 4));
    CHECK(frame != NULL);
    check_string(log, decoder_number(frame->payload + 8, 4), file);
    CHECK_EQUAL(line, decoder_number(frame->payload + 12, 4));
}

TEST(a_location_is_a_stack_of_one_frame)
{
    static const struct {
        const char *location, *file;
        uint64_t line;
    } cases[] = {{"/home/me/example.py:7", "/home/me/example.py", 7},
                 {"/home/me/example.py:8", "/home/me/example.py", 8},
                 {"<gc>", "<gc>", 0},
                 {"C:", "C:", 0},
                 {"a:b:3", "a:b", 3},
                 {"a:-3", "a:-3", 0},
                 {"a:3x", "a:3x", 0},
                 {"a:99999999999999999999", "a:99999999999999999999", 0}};
    enum { CASES = sizeof cases / sizeof *cases };
    struct file file = file_new();
    tarn_trace_writer *writer = open_log(file.path, 0, 0);
    tarn_trace_event event = allocation;

    for (int i = 0; i < 2 * CASES; i++) {
        event.location = cases[i / 2].location;
        event.end_ns++;
        CHECK_OK(tarn_trace_write(writer, &event));
    }
    CHECK_OK(tarn_trace_writer_release(writer));
    struct decoded log = decode(file.path);
    CHECK_EQUAL(2 * CASES, log.count);
    CHECK_EQUAL(CASES, decoded_records(&log, 3)); /* each stack once */
    for (int i = 0; i < 2 * CASES; i++)
        check_location(&log, log.rows[i].stack, cases[i / 2].file, cases[i / 2].line);
    decoded_free(&log);
    unlink(file.path);
}

/* More stacks than a chunk of records has space for. */
TEST(each_stack_is_in_the_log_once_with_its_frames_and_strings)
{
    enum { STACKS = 3000 };
    struct file file = file_new();
    tarn_trace_writer *writer = open_log(file.path, 2, 0);
    tarn_trace_event event = {.action = TARN_ACTION_ALLOCATE};
    char name[32];

    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < STACKS; i++) {
            snprintf(name, sizeof name, "function_%d", i);
            tarn_stack_frame frame = {.function = name, .file = "a.py", .line = i};
            uint32_t numbers[2] = {tarn_stack_add_frame(&frame)};
            frame.function = "main";
            numbers[1] = tarn_stack_add_frame(&frame);
            event.stack = tarn_stack_add(numbers, 2);
            event.end_ns++;
            CHECK_OK(tarn_trace_write(writer, &event));
        }
    event.stack = 0x7fffffff; /* no stack */
    event.end_ns++;
    CHECK_OK(tarn_trace_write(writer, &event));
    CHECK_OK(tarn_trace_writer_release(writer));
    struct decoded log = decode(file.path);
    CHECK_EQUAL(2 * STACKS + 1, log.count);
    CHECK_EQUAL(STACKS, decoded_records(&log, 3));
    CHECK_EQUAL(2 * STACKS, decoded_records(&log, 2));
    CHECK_EQUAL(STACKS + 2, decoded_records(&log, 1));
    CHECK_EQUAL(0, log.rows[2 * STACKS].stack);
    decoded_free(&log);
    unlink(file.path);
}

TEST(the_header_tells_the_process)
{
    struct file file = file_new();
    uint64_t before = (uint64_t)time(NULL);
    tarn_trace_writer *writer = open_log(file.path, 16, 0);
    struct decoded log = decode(file.path); /* while it is written */
    char host[256] = "";

    CHECK_EQUAL(getpid(), log.pid);
    CHECK_EQUAL(getppid(), log.parent_pid);
    CHECK_EQUAL(16, log.depth);
    CHECK(log.unix_ns / 1000000000u >= before &&
          log.unix_ns / 1000000000u <= before + 60);
    CHECK_EQUAL(0, tarn_trace_writer_time_ns(writer, log.start_ns));
    CHECK_EQUAL(5, tarn_trace_writer_time_ns(writer, log.start_ns + 5));
    CHECK_EQUAL(0, gethostname(host, sizeof host - 1));
    CHECK_TEXT(host, decoded_text(&log, "host"));
    CHECK_TEXT(tarn_version(), decoded_text(&log, "tarn"));
    CHECK(strstr(decoded_text(&log, "command"), "unit-trace-binary_writer") != NULL);
    CHECK(decoded_text(&log, "gpu0") == NULL); /* no driver is open */
    CHECK_OK(tarn_trace_writer_release(writer));
    decoded_free(&log);
    unlink(file.path);
}

/* The driver is open in a child alone, so that the other tests have none. */
static int log_with_driver(void *path)
{
    tarn_device_info info;
    tarn_trace_writer *writer;

    if (tarn_driver_device_info(0, &info) != TARN_OK)
        return 1;
    if (tarn_trace_writer_open(path, TARN_TRACE_BINARY, &writer) != TARN_OK)
        return 2;
    struct decoded log = decode(path);
    bool has_both = strcmp(info.uuid, decoded_text(&log, "gpu0")) == 0 &&
                    strchr(decoded_text(&log, "driver"), '.');
    decoded_free(&log);
    if (tarn_trace_writer_release(writer) != TARN_OK)
        return 3;
    return has_both ? 0 : 4;
}

TEST(the_header_tells_the_devices_of_an_open_driver)
{
    struct file file = file_new();

    CHECK_EQUAL(0, in_child(log_with_driver, file.path));
    unlink(file.path);
}

TEST(times_in_a_chunk_do_not_decrease)
{
    struct file file = file_new();
    tarn_trace_writer *writer = open_log(file.path, 0, 0);
    tarn_trace_event event = {.action = TARN_ACTION_ALLOCATE};

    for (uint64_t i = 0; i < 5000; i++) {
        event.end_ns = i % 100 == 99 ? i / 2 : i;
        CHECK_OK(tarn_trace_write(writer, &event));
    }
    CHECK_OK(tarn_trace_writer_release(writer));
    struct decoded log = decode(file.path); /* checks it */
    CHECK_EQUAL(5000, log.count);
    CHECK_EQUAL(98, log.rows[99].time_ns);
    decoded_free(&log);
    unlink(file.path);
}

TEST(a_log_that_is_replaced_keeps_its_own_file)
{
    struct file file = file_new();
    tarn_trace_writer *old = open_log(file.path, 0, 0), *fresh;
    char link[64], folder[] = "/tmp/tarn-links-XXXXXX";

    CHECK_OK(tarn_trace_write(old, &allocation));
    fresh = open_log(file.path, 0, 0);
    for (int i = 0; i < 5000; i++) /* its file is not shorter than it was */
        CHECK_OK(tarn_trace_write(old, &allocation));
    CHECK_OK(tarn_trace_write(fresh, &allocation));
    CHECK_OK(tarn_trace_writer_release(old));
    CHECK_OK(tarn_trace_writer_release(fresh));
    struct decoded log = decode(file.path);
    CHECK_EQUAL(1, log.count);
    decoded_free(&log);

    CHECK(mkdtemp(folder) != NULL);
    snprintf(link, sizeof link, "%s/link", folder);
    CHECK_EQUAL(0, symlink(file.path, link));
    fresh = open_log(link, 0, 0); /* the link stays one */
    CHECK_OK(tarn_trace_writer_release(fresh));
    log = decode(file.path);
    CHECK_EQUAL(0, log.count);
    decoded_free(&log);
    unlink(link);
    rmdir(folder);
    unlink(file.path);
}

TEST(the_file_ends_with_its_last_chunk)
{
    struct file file = file_new();
    tarn_trace_writer *writer = open_log(file.path, 0, 0);

    CHECK_EQUAL(1 << 20, size_of(file.path));
    CHECK_OK(tarn_trace_write(writer, &allocation));
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_EQUAL(4096 + 2 * 65536, size_of(file.path)); /* records and rows */
    unlink(file.path);
}

/* --- pool rows and marks --- */

static tarn_trace_pool_row pool_row(tarn_trace_pool_cause cause)
{
    return (tarn_trace_pool_row){.size = sizeof(tarn_trace_pool_row),
                                 .cause = cause,
                                 .device = 1,
                                 .pool = 7,
                                 .time_ns = 123,
                                 .reserved_bytes = 1 << 20,
                                 .live_bytes = 4096};
}

TEST(a_pool_row_has_its_report_and_its_blocks)
{
    enum { BLOCKS = 3000 }; /* more than a chunk has space for */
    struct file file = file_new();
    tarn_trace_writer *writer = open_log(file.path, 0, 0);
    tarn_trace_pool_row row = pool_row(TARN_TRACE_POOL_FAILURE);
    tarn_pool_oom_report report = {.size = sizeof report,
                                   .requested = 11,
                                   .device_total = 12,
                                   .attempts = 3,
                                   .upstream_status = TARN_OUT_OF_MEMORY,
                                   .upstream_message = "no memory",
                                   .fragmentation = 0.5};
    tarn_pool_block *blocks = calloc(BLOCKS, sizeof *blocks);
    double fragmentation;

    for (uint64_t i = 0; i < BLOCKS; i++)
        blocks[i] = (tarn_pool_block){.address = i << 8,
                                      .bytes = 256,
                                      .stream_id = i,
                                      .state = TARN_POOL_FENCED,
                                      .segment = 5};
    row.report = &report;
    row.blocks = blocks;
    row.block_count = BLOCKS;
    CHECK_OK(tarn_trace_write_pool(writer, &row));
    row = pool_row(TARN_TRACE_POOL_GROWTH);
    CHECK_OK(tarn_trace_write_pool(writer, &row));
    CHECK_OK(tarn_trace_writer_release(writer));
    free(blocks);

    struct decoded log = decode(file.path);
    CHECK_EQUAL(2, log.record_count);
    const unsigned char *pool = log.records[0].payload;
    CHECK_EQUAL(4, log.records[0].kind);
    CHECK_EQUAL(56 + 392 + BLOCKS * 48, log.records[0].bytes);
    CHECK_EQUAL(123, decoder_number(pool, 8));
    CHECK_EQUAL(7, decoder_number(pool + 8, 8));
    CHECK_EQUAL(1 << 20, decoder_number(pool + 16, 8));
    CHECK_EQUAL(4096, decoder_number(pool + 24, 8));
    CHECK_EQUAL(TARN_TRACE_POOL_FAILURE, decoder_number(pool + 32, 4));
    CHECK_EQUAL(1, decoder_number(pool + 36, 4));
    CHECK_EQUAL(BLOCKS, decoder_number(pool + 48, 8));
    CHECK_EQUAL(11, decoder_number(pool + 56, 8));
    CHECK_EQUAL(12, decoder_number(pool + 56 + 14 * 8, 8));
    CHECK_EQUAL(3, decoder_number(pool + 56 + 120, 4));
    CHECK_EQUAL(TARN_OUT_OF_MEMORY, decoder_number(pool + 56 + 124, 4));
    memcpy(&fragmentation, pool + 56 + 128, 8);
    CHECK(fragmentation == 0.5);
    CHECK_TEXT("no memory", (const char *)pool + 56 + 136);
    const unsigned char *last = pool + 56 + 392 + (BLOCKS - 1) * 48;
    CHECK_EQUAL((BLOCKS - 1) << 8, decoder_number(last, 8));
    CHECK_EQUAL(TARN_POOL_FENCED, decoder_number(last + 40, 4));
    CHECK_EQUAL(56, log.records[1].bytes);
    decoded_free(&log);
    unlink(file.path);
}

TEST(a_mark_has_its_name_and_text_formats_ignore_it)
{
    struct file file = file_new();
    struct text text = {0};
    tarn_trace_writer *writer = open_log(file.path, 0, 0), *csv;
    tarn_trace_pool_row row = pool_row(TARN_TRACE_POOL_TRIM);

    CHECK_OK(tarn_trace_write_mark(writer, "begin", 17));
    CHECK_OK(tarn_trace_write_mark(writer, "<exit>", UINT64_MAX));
    CHECK_OK(tarn_trace_writer_release(writer));
    struct decoded log = decode(file.path);
    CHECK_EQUAL(2, decoded_records(&log, 5));
    CHECK_EQUAL(17, decoder_number(log.records[log.record_count - 2].payload, 8));
    const unsigned char *mark = log.records[log.record_count - 1].payload;
    check_string(&log, decoder_number(mark + 8, 4), "<exit>");
    CHECK(decoder_number(mark, 8) < 60000000000u);
    decoded_free(&log);
    unlink(file.path);

    CHECK_OK(tarn_trace_writer_create(text_write, &text, TARN_TRACE_RMM, &csv));
    CHECK_OK(tarn_trace_write_mark(csv, "<exit>", 5));
    CHECK_OK(tarn_trace_write_pool(csv, &row));
    row.size = 8;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_write_pool(csv, &row));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_write_mark(csv, NULL, 5));
    CHECK_EQUAL(0, tarn_trace_writer_stack_depth(csv));
    CHECK_OK(tarn_trace_writer_release(csv));
    CHECK_TEXT(RMM_HEADER, text.bytes);
    text_free(&text);
}

/* --- bad options --- */

TEST(options_that_a_format_does_not_have_are_rejected)
{
    tarn_trace_writer_options options = {
        .size = sizeof options, .format = TARN_TRACE_RMM, .stack_depth = 16};
    tarn_trace_writer *writer = NULL;
    struct text text = {0};

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_trace_writer_open_with("/tmp/no", &options, &writer));
    CHECK_MESSAGE("stack_depth is 16");
    options = (tarn_trace_writer_options){
        .size = sizeof options, .format = TARN_TRACE_BINARY, .stack_depth = 129};
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_trace_writer_open_with("/tmp/no", &options, &writer));
    CHECK_MESSAGE("stack_depth is 129, at most 128");
    options.stack_depth = 0;
    options.ring_bytes = 1000;
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_trace_writer_open_with("/tmp/no", &options, &writer));
    CHECK_MESSAGE("ring_bytes is 1000");
    options.ring_bytes = (uint64_t)1 << 47;
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_trace_writer_open_with("/tmp/no", &options, &writer));
    CHECK_MESSAGE("has to be at least 1048576 and less than 128 TiB");
    options.size = 4;
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_trace_writer_open_with("/tmp/no", &options, &writer));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_trace_writer_create(text_write, &text, TARN_TRACE_BINARY, &writer));
    CHECK_MESSAGE("needs a file");
    CHECK_STATUS(TARN_SYSTEM_FAILURE,
                 tarn_trace_writer_open("/dev/full", TARN_TRACE_BINARY, &writer));
    CHECK_MESSAGE("cannot create /dev/full: Invalid argument");
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_writer_open("/nowhere/at/all.log",
                                                             TARN_TRACE_BINARY, &writer));
    CHECK(writer == NULL && access("/tmp/no", F_OK) != 0);
}

/* --- threads --- */

enum { THREADS = 6, EVENTS_EACH = 20000 };

static struct {
    tarn_trace_writer *writers[2];
    uint64_t tids[THREADS];
    atomic_uint_least64_t clock; /* the same for all, so that the order is known */
} shared;

static void *write_many(void *data)
{
    unsigned thread = (unsigned)(uintptr_t)data;
    tarn_trace_event event = {.action = TARN_ACTION_ALLOCATE};
    char place[32];

    shared.tids[thread] = tid();
    for (unsigned i = 0; i < EVENTS_EACH; i++) {
        snprintf(place, sizeof place, "thread%u.py:%u", thread, i % 50 + 1);
        event.location = place;
        event.address = (uint64_t)thread << 32 | i;
        event.bytes = i;
        event.end_ns = atomic_fetch_add(&shared.clock, 1);
        if (tarn_trace_write(shared.writers[i % 2], &event) != TARN_OK)
            return data;
    }
    return NULL;
}

/* Check that a log has every second row of each thread, from `first`, in its order. */
static void check_rows_of_threads(const char *path, unsigned first)
{
    struct decoded log = decode(path);
    unsigned next[THREADS];

    for (int t = 0; t < THREADS; t++)
        next[t] = first;
    CHECK_EQUAL(THREADS * EVENTS_EACH / 2, log.count);
    CHECK_EQUAL(0, log.torn);
    for (size_t i = 0; i < log.count; i++) {
        unsigned thread = (unsigned)(log.rows[i].address >> 32);
        CHECK(thread < THREADS);
        CHECK_EQUAL(next[thread], log.rows[i].address & 0xffffffffu);
        CHECK_EQUAL(next[thread], log.rows[i].bytes);
        CHECK_EQUAL(shared.tids[thread], log.rows[i].thread);
        next[thread] += 2;
    }
    CHECK_EQUAL(THREADS * 50 / 2, decoded_records(&log, 3));
    decoded_free(&log);
}

TEST(rows_of_many_threads_in_two_logs_are_all_there_in_order)
{
    struct file files[2] = {file_new(), file_new()};
    pthread_t threads[THREADS];

    for (int i = 0; i < 2; i++)
        shared.writers[i] = open_log(files[i].path, 0, 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, write_many, (void *)i));
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        CHECK_EQUAL(0, pthread_join(threads[i], &failed));
        CHECK(failed == NULL);
    }
    for (unsigned i = 0; i < 2; i++) {
        CHECK_OK(tarn_trace_writer_release(shared.writers[i]));
        check_rows_of_threads(files[i].path, i);
        unlink(files[i].path);
    }
}

static void *write_once(void *writer)
{
    tarn_trace_event event = {.action = TARN_ACTION_ALLOCATE, .address = tid()};

    event.end_ns = atomic_fetch_add(&shared.clock, 1);
    return tarn_trace_write(writer, &event) == TARN_OK ? NULL : writer;
}

TEST(threads_that_end_leave_their_chunk_to_the_next)
{
    enum { SHORT = 500 };
    struct file file = file_new();
    tarn_trace_writer *writer = open_log(file.path, 0, 0);

    for (int i = 0; i < SHORT; i++) {
        pthread_t thread;
        void *failed;
        CHECK_EQUAL(0, pthread_create(&thread, NULL, write_once, writer));
        CHECK_EQUAL(0, pthread_join(thread, &failed));
        CHECK(failed == NULL);
    }
    CHECK_OK(tarn_trace_writer_release(writer));
    struct decoded log = decode(file.path);
    CHECK_EQUAL(SHORT, log.count);
    CHECK_EQUAL(1, log.chunks);
    for (int i = 0; i < SHORT; i++)
        CHECK_EQUAL(log.rows[i].address, log.rows[i].thread);
    decoded_free(&log);
    unlink(file.path);
}

/* A thread has slots of logs that ended before it. */
TEST(a_thread_writes_many_logs_one_after_another)
{
    struct file file = file_new();

    for (int i = 0; i < 300; i++) {
        tarn_trace_writer *writer = open_log(file.path, 0, 0);
        CHECK_OK(tarn_trace_write(writer, &allocation));
        CHECK_OK(tarn_trace_writer_release(writer));
    }
    struct decoded log = decode(file.path);
    CHECK_EQUAL(1, log.count);
    decoded_free(&log);
    unlink(file.path);
}
