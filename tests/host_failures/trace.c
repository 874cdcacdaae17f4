/* Test logs, replays, plans and call stacks with each host allocation failing. */
#define _GNU_SOURCE
#include "../unit/trace/decoder.h"
#include "../unit/trace/text.h"
#include "scenario.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tarn/plan.h>
#include <unistd.h>

static char path[] = "/tmp/tarn-host-failures-XXXXXX";
static struct text log_text;

/* --- writers --- */

static const tarn_trace_event event = {.action = TARN_ACTION_ALLOCATE,
                                       .address = 4096,
                                       .stream = 7,
                                       .bytes = 100,
                                       .thread = 1,
                                       .start_ns = 1,
                                       .end_ns = 2,
                                       .location = "a.py:1"};

static tarn_trace_format format;

static tarn_status open_writer(void)
{
    return tarn_trace_writer_open(path, format, &out.writer);
}

static tarn_status open_ring(void)
{
    tarn_trace_writer_options options = {.size = sizeof options,
                                         .format = TARN_TRACE_BINARY,
                                         .stack_depth = 8,
                                         .ring_bytes = 4 << 20};

    return tarn_trace_writer_open_with(path, &options, &out.writer);
}

static tarn_status create_writer(void)
{
    return tarn_trace_writer_create(text_write, &log_text, TARN_TRACE_RMM, &out.writer);
}

static void end_writer(void)
{
    CHECK_OK(tarn_trace_write(out.writer, &event));
    CHECK_OK(tarn_trace_flush(out.writer));
    CHECK_OK(tarn_trace_writer_release(out.writer));
    text_free(&log_text);
}

/* A log that cannot be opened is not written over. */
static void begin_old_log(void)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(file >= 0);
    CHECK_EQUAL(0, close(file));
}

static tarn_trace_writer *writer;

static void begin_writing(void)
{
    memset(&out, 0, sizeof out);
    begin_old_log();
    CHECK_OK(format == TARN_TRACE_BINARY ? open_ring() : open_writer());
    writer = out.writer;
}

static int row_count = 2000;

static tarn_status write_rows(void)
{
    tarn_status status = TARN_OK;
    char place[32];

    for (int i = 0; i < row_count && status == TARN_OK; i++) {
        tarn_trace_event row = event;
        snprintf(place, sizeof place, "a%d.py:1", i);
        row.location = place;
        row.address += (uint64_t)i * 512;
        row.stack = i % 50 ? 0 : tarn_stack_capture(8);
        status = tarn_trace_write(writer, &row);
    }
    tarn_status flushed = tarn_trace_flush(writer);
    return status == TARN_OK ? flushed : status;
}

/* A log whose file cannot grow ends there, and says so at each later row. */
static tarn_status write_or_end(void)
{
    tarn_status status = write_rows();

    if (status == TARN_OK)
        return TARN_OK;
    CHECK_EQUAL(TARN_SYSTEM_FAILURE, status);
    failing_end();
    CHECK_STATUS(TARN_SYSTEM_FAILURE, tarn_trace_write(writer, &event));
    return TARN_OK;
}

static void end_writing(void)
{
    tarn_status status = tarn_trace_writer_release(writer);

    CHECK(status == TARN_OK || status == TARN_SYSTEM_FAILURE);
}

TEST(logs_are_written_or_not)
{
    static const struct scenario open = {"tarn_trace_writer_open", begin_old_log,
                                         open_writer, end_writer},
                                 ring = {"open a ring", begin_old_log, open_ring,
                                         end_writer},
                                 create = {"tarn_trace_writer_create", NULL,
                                           create_writer, end_writer},
                                 rows = {"tarn_trace_write", begin_writing, write_or_end,
                                         end_writing};

    CHECK(mkstemp(path) >= 0);
    for (int i = 0; i < 3; i++) {
        format = (tarn_trace_format)i;
        scenario_run(&open, 1);
        scenario_run(&rows, 0);
    }
    scenario_run(&ring, 1);
    scenario_run(&create, 1);
}

/* --- rows about pools --- */

enum { POOL_MAXIMUM = 16 << 20, POOL_BLOCKS = 600 }; /* the list of blocks grows twice */

/* Number of blocks in the row of a failure. */
static uint64_t blocks_of_failure(const char *name)
{
    struct decoded log = decode(name);
    uint64_t blocks = UINT64_MAX;

    for (size_t i = 0; i < log.record_count; i++) {
        const unsigned char *row = log.records[i].payload;
        if (log.records[i].kind == 4 &&
            decoder_number(row + 32, 4) == TARN_TRACE_POOL_FAILURE)
            blocks = decoder_number(row + 48, 8);
    }
    decoded_free(&log);
    return blocks;
}

/* Fail to allocate in a pool with a log, while the nth host allocation fails. Return the
 * number of blocks in the row of the failure. */
static uint64_t log_a_failure(unsigned nth, unsigned *failed_out)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .maximum_bytes = POOL_MAXIMUM};
    char name[] = "/tmp/tarn-host-failures-XXXXXX";
    tarn_device_ptr blocks[POOL_BLOCKS], none;
    tarn_resource *pool, *logger;

    CHECK_EQUAL(0, close(mkstemp(name)));
    CHECK_OK(tarn_trace_writer_open(name, TARN_TRACE_BINARY, &writer));
    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    CHECK_OK(tarn_logger_create(pool, writer, &logger));
    for (int i = 0; i < POOL_BLOCKS; i++)
        CHECK_OK(tarn_resource_allocate(pool, 256, 0, NULL, &blocks[i]));
    failing_begin(nth, nth ? FAILING_ONCE : FAILING_NONE);
    tarn_status status = tarn_resource_allocate(logger, POOL_MAXIMUM, 0, NULL, &none);
    *failed_out = failing_end();
    CHECK_EQUAL(TARN_OUT_OF_MEMORY, status);
    for (int i = 0; i < POOL_BLOCKS; i++)
        CHECK_OK(tarn_resource_deallocate(pool, blocks[i], 256, 0, NULL));
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_resource_release(pool));
    CHECK_OK(tarn_trace_writer_release(writer));
    uint64_t count = blocks_of_failure(name);
    CHECK_EQUAL(0, unlink(name));
    return count;
}

TEST(row_of_a_failure_has_all_blocks_of_the_pool_or_none)
{
    unsigned failed, times_none = 0;
    uint64_t all = log_a_failure(0, &failed);

    CHECK(all > POOL_BLOCKS && all < UINT64_MAX); /* the available ones, too */
    failed = 1;
    for (unsigned nth = 1; failed > 0; nth++) {
        uint64_t blocks = log_a_failure(nth, &failed);
        CHECK(blocks == 0 || blocks == all);
        times_none += blocks == 0;
    }
    CHECK(times_none > 0);
}

/* --- readers --- */

static const char rmm_rows[] = "Thread,Time,Action,Pointer,Size,Stream\n"
                               "1,00:00:01,allocate,0x10,100000,0x7\n"
                               "2,00:00:01,allocate,0x20,5000,0x8\n"
                               "2,00:00:01,free,0x10,100000,0x8\n"
                               "1,00:00:01,allocate,0x30,300,0\n"
                               "1,00:00:01,free,0x20,5000,0x7\n";

static void begin_text(void)
{
    log_text = text_of(rmm_rows);
}

/* The log of a file, as write_rows() made it. */
static void begin_file(void)
{
    struct stat seen;

    begin_writing();
    CHECK_OK(write_rows());
    end_writing();
    int file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0 && fstat(file, &seen) == 0);
    log_text = (struct text){.bytes = malloc((size_t)seen.st_size),
                             .count = (size_t)seen.st_size};
    CHECK(read(file, log_text.bytes, log_text.count) == (ssize_t)log_text.count);
    CHECK_EQUAL(0, close(file));
}

static tarn_status load(void)
{
    log_text.at = 0;
    return tarn_trace_load("a.log", text_read, &log_text, NULL, &out.trace);
}

static void end_load(void)
{
    tarn_trace_release(out.trace);
    text_free(&log_text);
}

static tarn_status count_sites(void)
{
    tarn_trace_accounting *accounting;
    tarn_trace_site sites[4];
    tarn_status status =
        tarn_trace_accounting_create("a.log", NULL, NULL, NULL, &accounting);

    if (status != TARN_OK)
        return status;
    log_text.at = 0;
    status = tarn_trace_read("a.log", text_read, &log_text, NULL,
                             tarn_trace_accounting_add, accounting, NULL);
    tarn_trace_accounting_sites(accounting, TARN_SITES_BY_LIVE, 4, sites);
    tarn_trace_accounting_release(accounting);
    return status;
}

static void end_text(void)
{
    text_free(&log_text);
}

TEST(logs_are_read_or_not)
{
    static const struct scenario text = {"tarn_trace_load, text", begin_text, load,
                                         end_load},
                                 binary = {"tarn_trace_load, binary", begin_file, load,
                                           end_load},
                                 sites = {"tarn_trace_accounting", begin_file,
                                          count_sites, end_text};

    row_count = 30;
    format = TARN_TRACE_BINARY;
    scenario_run(&text, 5);
    scenario_run(&binary, 5);
    scenario_run(&sites, 5);
    format = TARN_TRACE_NBEP7;
    scenario_run(&binary, 5);
    scenario_run(&sites, 5);
}

/* --- replays and plans --- */

static tarn_trace *trace;
static tarn_resource *cuda;

static void begin_trace(void)
{
    begin_text();
    CHECK_OK(load());
    trace = out.trace;
    CHECK_OK(tarn_cuda_create(0, &cuda));
}

static void end_trace(void)
{
    CHECK_EQUAL(0, tarn_resource_live_blocks(cuda));
    CHECK_OK(tarn_resource_release(cuda));
    tarn_trace_release(trace);
    text_free(&log_text);
}

static tarn_status replay(void)
{
    tarn_replay_options options = {.size = sizeof options,
                                   .keep_threads = true,
                                   .keep_streams = true,
                                   .register_streams = true};

    return tarn_replay(trace, cuda, &options, &out.replay);
}

static tarn_status plan(void)
{
    return tarn_trace_plan(trace, NULL, &out.plan);
}

static void end_plan(void)
{
    tarn_plan_release(out.plan);
    end_trace();
}

static tarn_status write_plan(void)
{
    struct text text = {.bytes = NULL};
    tarn_plan *made = NULL;
    tarn_status status = tarn_trace_plan(trace, NULL, &made);

    if (status == TARN_OK)
        status = tarn_plan_write(made, "a.plan", text_write, &text);
    tarn_plan_release(made);
    text_free(&text);
    return status;
}

TEST(work_is_replayed_or_not)
{
    static const struct scenario scenarios[] = {
        {"tarn_replay", begin_trace, replay, end_trace},
        {"tarn_trace_plan", begin_trace, plan, end_plan},
        {"tarn_plan_write", begin_trace, write_plan, end_trace},
    };

    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        scenario_run(&scenarios[i], 3);
    CHECK_EQUAL(0, unlink(path));
}
