/* Test the logger with a binary log: call stacks, and rows about the pool beneath. */
#define _GNU_SOURCE
#include "../trace/decoder.h"
#include "../trace/file.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

static struct file file;
static tarn_trace_writer *writer;
static tarn_resource *pool, *logger;

static void begin(unsigned depth)
{
    const tarn_trace_writer_options options = {
        .size = sizeof options, .format = TARN_TRACE_BINARY, .stack_depth = depth};

    file = file_new();
    CHECK_OK(tarn_trace_writer_open_with(file.path, &options, &writer));
}

enum { MAXIMUM = 16 << 20 }; /* bytes of the pool */

/* A logger over a pool, or over an adaptor of one. */
static void begin_pool(unsigned depth, bool has_adaptor)
{
    const tarn_pool_options options = {.size = sizeof options, .maximum_bytes = MAXIMUM};
    tarn_resource *limiter;

    begin(depth);
    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    if (has_adaptor) {
        CHECK_OK(tarn_limiter_create(pool, 1 << 30, &limiter));
        CHECK_OK(tarn_logger_create(limiter, writer, &logger));
        CHECK_OK(tarn_resource_release(limiter));
    } else {
        CHECK_OK(tarn_logger_create(pool, writer, &logger));
    }
}

static struct decoded end_pool(void)
{
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_OK(tarn_resource_release(pool));
    struct decoded log = decode(file.path);
    unlink(file.path);
    return log;
}

/* --- stacks --- */

static tarn_stack find(unsigned depth)
{
    tarn_stack_frame frame = {.function = "f", .file = "a.py", .line = (int)depth};
    uint32_t number = tarn_stack_add_frame(&frame);

    return tarn_stack_add(&number, 1);
}

static tarn_site find_site(bool freeing)
{
    return freeing ? (tarn_site){"<gc>", 0} : (tarn_site){"site.py", 3};
}

/* Log an allocation and its free, and check the file of the only frame of each. */
static void check_frames(unsigned depth, const char *allocation_file,
                         const char *free_file)
{
    const char *files[] = {allocation_file, free_file};
    tarn_resource *host;
    tarn_device_ptr block;

    begin(depth);
    CHECK_OK(tarn_host_create(&host));
    CHECK_OK(tarn_logger_create(host, writer, &logger));
    CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_resource_release(host));
    CHECK_OK(tarn_trace_writer_release(writer));
    struct decoded log = decode(file.path);
    CHECK_EQUAL(2, log.count);
    CHECK_EQUAL(TARN_ACTION_ALLOCATE, log.rows[0].action);
    CHECK(log.rows[0].duration_ns > 0 && log.rows[0].address == block);
    for (int i = 0; i < 2; i++) {
        if (!files[i]) {
            CHECK_EQUAL(0, log.rows[i].stack);
            continue;
        }
        const struct decoded_record *stack = decoder_find(&log, 3, log.rows[i].stack);
        CHECK(stack != NULL && decoder_number(stack->payload + 4, 4) == 1);
        const struct decoded_record *frame =
            decoder_find(&log, 2, decoder_number(stack->payload + 8, 4));
        const struct decoded_record *string =
            decoder_find(&log, 1, decoder_number(frame->payload + 8, 4));
        CHECK(string != NULL && string->bytes == 8 + strlen(files[i]));
        CHECK(memcmp(string->payload + 8, files[i], strlen(files[i])) == 0);
    }
    decoded_free(&log);
    unlink(file.path);
}

TEST(logger_captures_as_many_frames_as_the_writer_asks_for)
{
    tarn_stack_set_finder(find);
    check_frames(0, NULL, NULL);
    check_frames(1, "a.py", "a.py");
    tarn_site_set_finder(find_site);
    check_frames(1, "site.py", "<gc>");
    check_frames(16, "a.py", "<gc>");
    tarn_site_set_finder(NULL);
    tarn_stack_set_finder(NULL);
}

TEST(logger_writes_native_frames_where_no_finder_knows_the_thread)
{
    tarn_resource *host;
    tarn_device_ptr block;

    begin(4);
    CHECK_OK(tarn_host_create(&host));
    CHECK_OK(tarn_logger_create(host, writer, &logger));
    CHECK_OK(tarn_resource_allocate(logger, 80, 0, NULL, &block));
    CHECK_OK(tarn_resource_deallocate(logger, block, 80, 0, NULL));
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_resource_release(host));
    CHECK_OK(tarn_trace_writer_release(writer));
    struct decoded log = decode(file.path);
    const struct decoded_record *stack = decoder_find(&log, 3, log.rows[0].stack);
    CHECK(stack != NULL);
    const struct decoded_record *frame =
        decoder_find(&log, 2, decoder_number(stack->payload + 8, 4));
    CHECK(decoder_number(frame->payload + 16, 4) != 0); /* a build-id */
    CHECK(decoder_number(frame->payload + 24, 8) != 0); /* an offset */
    decoded_free(&log);
    unlink(file.path);
}

/* --- pool rows --- */

/* Pool row number `index` of the log. */
static const unsigned char *pool_row(const struct decoded *log, size_t index)
{
    for (size_t i = 0; i < log->record_count; i++)
        if (log->records[i].kind == 4 && index-- == 0)
            return log->records[i].payload;
    CHECK(false);
    return NULL;
}

static uint64_t cause_of(const unsigned char *row)
{
    return decoder_number(row + 32, 4);
}

static void check_growth_and_trim(bool has_adaptor)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};
    tarn_device_ptr block;
    size_t released;

    begin_pool(0, has_adaptor);
    CHECK_OK(tarn_resource_allocate(logger, 1 << 20, 0, NULL, &block));
    CHECK_OK(tarn_pool_get_statistics(pool, &statistics));
    CHECK_OK(tarn_resource_deallocate(logger, block, 1 << 20, 0, NULL));
    CHECK_OK(tarn_resource_trim(logger, 0, &released));
    CHECK(released > 0);
    struct decoded log = end_pool();
    CHECK_EQUAL(3, decoded_records(&log, 4));
    CHECK_EQUAL(TARN_TRACE_POOL_SNAPSHOT, cause_of(pool_row(&log, 0)));
    CHECK_EQUAL(0, decoder_number(pool_row(&log, 0) + 16, 8));
    CHECK_EQUAL(TARN_TRACE_POOL_GROWTH, cause_of(pool_row(&log, 1)));
    CHECK_EQUAL(statistics.reserved, decoder_number(pool_row(&log, 1) + 16, 8));
    CHECK_EQUAL(statistics.live, decoder_number(pool_row(&log, 1) + 24, 8));
    CHECK(decoder_number(pool_row(&log, 1), 8) >= log.rows[0].time_ns);
    CHECK_EQUAL(TARN_TRACE_POOL_TRIM, cause_of(pool_row(&log, 2)));
    CHECK_EQUAL(0, decoder_number(pool_row(&log, 2) + 16, 8));
    CHECK(decoder_number(pool_row(&log, 2) + 8, 8) > 0);
    decoded_free(&log);
}

TEST(logger_writes_when_the_pool_grows_and_when_it_is_trimmed)
{
    check_growth_and_trim(false);
}

TEST(logger_finds_the_pool_beneath_other_adaptors)
{
    check_growth_and_trim(true);
}

enum {
    OTHERS = 2
}; /* pool rows before those of failures: of the begin and of a growth */

static uint64_t now_ns(void)
{
    struct timespec now;

    CHECK_EQUAL(0, clock_gettime(CLOCK_MONOTONIC, &now));
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A request that the pool cannot fulfil, of a size by which its row is recognized. */
static size_t bytes_of_failure(size_t index)
{
    return MAXIMUM + 512 * index;
}

static void fail_often(size_t times)
{
    tarn_device_ptr none;

    for (size_t i = 0; i < times; i++) {
        CHECK_STATUS(TARN_OUT_OF_MEMORY,
                     tarn_resource_allocate(logger, bytes_of_failure(i), 0, NULL, &none));
        CHECK_MESSAGE("pool: cannot allocate"); /* the caller's message stays */
    }
}

static uint64_t blocks_in(const unsigned char *row)
{
    CHECK_EQUAL(TARN_TRACE_POOL_FAILURE, cause_of(row));
    CHECK_EQUAL(1, decoder_number(row + 36 + 8, 4) /* has_report */);
    return decoder_number(row + 48, 8);
}

/* The row of a failure lists `block` first, which is the only live one. */
static void check_blocks_of_failure(const unsigned char *row, tarn_device_ptr block)
{
    uint64_t blocks = blocks_in(row), live = 0;

    CHECK(blocks >= 2);
    for (uint64_t k = 0; k < blocks; k++)
        live += decoder_number(row + 448 + 48 * k + 40, 4) == TARN_POOL_LIVE;
    CHECK_EQUAL(1, live);
    CHECK_EQUAL(block, decoder_number(row + 448, 8));
}

TEST(logger_writes_the_first_16_failures_and_then_one_in_a_second)
{
    enum { FIRST = 16, TIMES = 40 };
    tarn_device_ptr block;

    begin_pool(0, false);
    CHECK_OK(tarn_resource_allocate(logger, 1 << 20, 0, NULL, &block));
    uint64_t began = now_ns();
    fail_often(TIMES);
    uint64_t seconds = (now_ns() - began) / 1000000000;
    CHECK_OK(tarn_resource_deallocate(logger, block, 1 << 20, 0, NULL));
    struct decoded log = end_pool();
    size_t failures = decoded_records(&log, 4) - OTHERS;
    CHECK(failures >= FIRST && failures <= FIRST + seconds);
    for (size_t i = 0; i < failures; i++) {
        const unsigned char *row = pool_row(&log, OTHERS + i);
        check_blocks_of_failure(row, block);
        if (i < FIRST)
            CHECK_EQUAL(bytes_of_failure(i), decoder_number(row + 56, 8));
    }
    CHECK_EQUAL(TIMES + 2, log.count);
    decoded_free(&log);
}

/* The live blocks alone may be few: the available ones between them count as well. */
TEST(row_of_a_failure_in_a_pool_of_more_than_16384_blocks_has_none_of_them)
{
    enum { BLOCKS = 20000 };
    static tarn_device_ptr blocks[BLOCKS];

    begin_pool(0, false);
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK_OK(tarn_resource_allocate(pool, 256, 0, NULL, &blocks[i]));
    fail_often(1);
    for (size_t i = 0; i < BLOCKS; i += 2)
        CHECK_OK(tarn_resource_deallocate(pool, blocks[i], 256, 0, NULL));
    fail_often(1);
    for (size_t i = 1; i < BLOCKS; i += 2)
        CHECK_OK(tarn_resource_deallocate(pool, blocks[i], 256, 0, NULL));
    struct decoded log = end_pool();
    for (size_t i = 0; i < 2; i++)
        CHECK_EQUAL(0, blocks_in(pool_row(&log, OTHERS + i)));
    decoded_free(&log);
}

/* The causes of all pool rows, a digit each. */
static uint64_t causes(const struct decoded *log)
{
    uint64_t all = 0;

    for (size_t i = 0; i < decoded_records(log, 4); i++)
        all = 10 * all + cause_of(pool_row(log, i)) + 1;
    return all;
}

TEST(another_source_of_events_writes_the_same_rows)
{
    tarn_logger_pool state = {.size = sizeof state}, wrong = {0};
    tarn_resource *host;
    tarn_device_ptr block, none;

    begin_pool(0, true);
    tarn_resource *adaptor;
    CHECK_OK(tarn_adaptor_upstream(logger, &adaptor));
    CHECK_OK(tarn_resource_release(logger)); /* its first row is in the log */
    CHECK_OK(tarn_logger_note_pool(writer, adaptor, TARN_ACTION_FREE, 0, &state));
    CHECK_OK(tarn_resource_allocate(adaptor, 1 << 20, 0, NULL, &block));
    for (int i = 0; i < 2; i++)
        CHECK_OK(tarn_logger_note_pool(writer, adaptor, TARN_ACTION_ALLOCATE, 0, &state));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(adaptor, MAXIMUM, 0, NULL, &none));
    CHECK_OK(
        tarn_logger_note_pool(writer, adaptor, TARN_ACTION_ALLOCATE_FAILURE, 0, &state));
    CHECK_MESSAGE("pool: cannot allocate");
    CHECK_EQUAL(1, state.failures);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_logger_note_pool(writer, adaptor, TARN_ACTION_FREE, 0, &wrong));
    CHECK_OK(tarn_host_create(&host)); /* is no pool */
    CHECK_OK(tarn_logger_note_pool(writer, host, TARN_ACTION_FREE, 0, &state));
    CHECK_OK(tarn_resource_release(host));
    CHECK_OK(tarn_resource_deallocate(adaptor, block, 1 << 20, 0, NULL));
    CHECK_OK(tarn_trace_writer_release(writer));
    CHECK_OK(tarn_resource_release(adaptor));
    CHECK_OK(tarn_resource_release(pool));
    struct decoded log = decode(file.path);
    CHECK_EQUAL(5514, causes(&log)); /* snapshot, snapshot, growth, failure */
    decoded_free(&log);
    unlink(file.path);
}

TEST(a_failure_after_the_first_16_has_a_row_if_the_last_one_is_a_second_old)
{
    enum { FIRST = 16, SECOND = 1000000000 };
    tarn_logger_pool state = {.size = sizeof state};
    tarn_device_ptr block, none;

    begin_pool(0, false);
    CHECK_OK(tarn_resource_allocate(pool, 1 << 20, 0, NULL, &block));
    CHECK_OK(tarn_logger_note_pool(writer, pool, TARN_ACTION_ALLOCATE, 0, &state));
    for (size_t i = 0; i < FIRST + 2; i++) {
        if (i == FIRST)
            state.failure_ns = now_ns() - SECOND;
        CHECK_STATUS(TARN_OUT_OF_MEMORY,
                     tarn_resource_allocate(pool, bytes_of_failure(i), 0, NULL, &none));
        uint64_t before = now_ns(), last = state.failure_ns;
        CHECK_OK(
            tarn_logger_note_pool(writer, pool, TARN_ACTION_ALLOCATE_FAILURE, 0, &state));
        if (i <= FIRST)
            CHECK(before <= state.failure_ns);
        else if (now_ns() - last < SECOND)
            CHECK_EQUAL(last, state.failure_ns);
        CHECK_EQUAL(i < FIRST ? i + 1 : FIRST, state.failures);
    }
    CHECK_OK(tarn_resource_deallocate(pool, block, 1 << 20, 0, NULL));
    struct decoded log = end_pool();
    CHECK_EQUAL(bytes_of_failure(FIRST),
                decoder_number(pool_row(&log, OTHERS + FIRST) + 56, 8));
    decoded_free(&log);
}

TEST(pool_rows_need_a_writer_a_resource_and_a_state)
{
    tarn_logger_pool state = {.size = sizeof state};

    begin_pool(0, false);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_logger_note_pool(NULL, pool, TARN_ACTION_FREE, 0, &state));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_logger_note_pool(writer, NULL, TARN_ACTION_FREE, 0, &state));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_logger_note_pool(writer, pool, TARN_ACTION_FREE, 0, NULL));
    struct decoded log = end_pool();
    CHECK_EQUAL(1, decoded_records(&log, 4)); /* that of the logger's begin */
    decoded_free(&log);
}

static atomic_bool disk_is_full;

/* The writer reserves space in its file by this function. */
__attribute__((visibility("default"))) int posix_fallocate(int to, off_t offset,
                                                           off_t bytes)
{
    if (atomic_load(&disk_is_full))
        return ENOSPC;
    return fallocate(to, 0, offset, bytes) == 0 ? 0 : errno;
}

static void ignore_warning(void *data, const char *message)
{
    (void)data;
    (void)message;
}

TEST(log_of_a_pool_that_cannot_be_written_leaves_the_last_error_message)
{
    enum { BLOCKS = 2000 };
    static tarn_device_ptr blocks[BLOCKS];
    tarn_device_ptr large;
    size_t released;

    tarn_set_warning_handler(ignore_warning, NULL);
    begin_pool(0, false);
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK_OK(tarn_resource_allocate(pool, 256, 0, NULL, &blocks[i]));
    atomic_store(&disk_is_full, true);
    fail_often(16); /* each has a row with all blocks */
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_flush(writer));
    tarn_error_set(TARN_BAD_FORMAT, "words from before");
    CHECK_OK(tarn_resource_allocate(logger, 4 << 20, 0, NULL, &large)); /* it grows */
    CHECK_MESSAGE("words from before");
    CHECK_OK(tarn_resource_deallocate(logger, large, 4 << 20, 0, NULL));
    CHECK_OK(tarn_resource_trim(logger, 0, &released));
    CHECK(released > 0);
    CHECK_MESSAGE("words from before");
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK_OK(tarn_resource_deallocate(pool, blocks[i], 256, 0, NULL));
    CHECK_OK(tarn_resource_release(logger));
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_writer_release(writer));
    CHECK_OK(tarn_resource_release(pool));
    atomic_store(&disk_is_full, false);
    tarn_set_warning_handler(NULL, NULL);
    unlink(file.path);
}

TEST(a_limit_above_the_pool_is_not_its_failure)
{
    const tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 8 << 20};
    tarn_resource *limiter;
    tarn_device_ptr none;

    begin(0);
    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(pool, 9 << 20, 0, NULL, &none)); /* a report */
    CHECK_OK(tarn_limiter_create(pool, 1 << 10, &limiter));
    CHECK_OK(tarn_logger_create(limiter, writer, &logger));
    CHECK_OK(tarn_resource_release(limiter));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(logger, 1 << 20, 0, NULL, &none));
    struct decoded log = end_pool();
    CHECK_EQUAL(1, decoded_records(&log, 4)); /* that of the begin */
    CHECK_EQUAL(1, log.count);
    decoded_free(&log);
}

/* --- the order of rows --- */

enum { THREADS = 4, TURNS = 20000 };

static void *come_and_go(void *data)
{
    tarn_device_ptr block;

    for (int i = 0; i < TURNS; i++)
        if (tarn_resource_allocate(logger, 4096, 0, NULL, &block) != TARN_OK ||
            tarn_resource_deallocate(logger, block, 4096, 0, NULL) != TARN_OK)
            return data;
    return NULL;
}

/* Addresses go from thread to thread. Nobody waits for rows. */
TEST(a_free_precedes_the_next_allocation_of_its_address)
{
    pthread_t threads[THREADS];
    struct {
        uint64_t address;
        bool is_live;
    } blocks[1024] = {{0}};
    size_t known = 0;

    begin_pool(0, false);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, come_and_go, &known));
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        CHECK_EQUAL(0, pthread_join(threads[i], &failed));
        CHECK(failed == NULL);
    }
    struct decoded log = end_pool();
    CHECK_EQUAL(2 * THREADS * TURNS, log.count);
    for (size_t i = 0; i < log.count; i++) {
        size_t at = 0;
        while (at < known && blocks[at].address != log.rows[i].address)
            at++;
        if (at == known) {
            CHECK(known < 1024);
            blocks[known++].address = log.rows[i].address;
        }
        CHECK_EQUAL(log.rows[i].action == TARN_ACTION_FREE, blocks[at].is_live);
        blocks[at].is_live = !blocks[at].is_live;
    }
    decoded_free(&log);
}
