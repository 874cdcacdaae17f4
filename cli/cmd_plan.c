/* cmd_plan.c -- `tarn plan`: lay the blocks of a log out in advance.
 *
 * The plain pool beside the plan is the real one, on the driver simulator: the log is
 * replayed on registered streams. A model of the pool would have to follow each of its
 * changes. The simulated device is idle, so the pool shows its best figures.
 */
#define _GNU_SOURCE
#include "tool.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SHARE = 50 }; /* the usual limit is the peak live and a 50th of it: 1.02 */

/* One replay of the log on the pool. */
struct pool_run {
    bool has_run;
    tarn_pool_statistics statistics;
};

struct job {
    const char *output; /* NULL: none */
    bool json, no_pool;
    uint64_t limit; /* 0: the usual one */
    tarn_plan_options options;
    struct source source;
    tarn_trace *trace;
    tarn_plan *plan;
    tarn_plan_summary summary;
    tarn_plan_moves moves;
    double seconds; /* of the layout, CPU time */
    struct pool_run pool, limited_pool;
};

static double ratio(const struct job *job, uint64_t bytes)
{
    return job->summary.peak_live_bytes
               ? (double)bytes / (double)job->summary.peak_live_bytes
               : 0.0;
}

/* The memory that a plan reserves: whole pages, as the pool does. */
static uint64_t reserved_of(const struct job *job)
{
    const uint64_t page = (uint64_t)2 << 20;

    return (job->summary.height_bytes + page - 1) / page * page;
}

static double per_thousand(const struct job *job, uint64_t count)
{
    return job->summary.blocks ? 1000.0 * (double)count / (double)job->summary.blocks
                               : 0.0;
}

/* --- the plain pool ---------------------------------------------------------------------- */

/* Simulate one device with space for the pool. */
static int open_simulator(const struct job *job)
{
    const char *before = getenv("TARN_SIM");
    uint64_t gib = (job->summary.peak_live_bytes >> 28) + 1; /* four times the peak */
    char memory[64], *value;

    snprintf(memory, sizeof memory, "devices=1,memory=%" PRIu64 "GiB",
             gib < 192 ? 192 : gib);
    size_t bytes = (before ? strlen(before) : 0) + sizeof memory + 2;
    value = malloc(bytes);
    if (!value)
        return failed(&verb_plan, "no host memory for TARN_SIM");
    snprintf(value, bytes, "%s%s%s", before ? before : "", before && *before ? "," : "",
             memory);
    int result = setenv("TARN_SIM", value, 1);
    free(value);
    if (result != 0)
        return failed(&verb_plan, "cannot set TARN_SIM: %s", strerror(errno));
    return tarn_driver_open("sim") == TARN_OK ? 0 : failed_with_last_error(&verb_plan);
}

static tarn_status replay_on(const struct job *job, tarn_resource *pool,
                             struct pool_run *run)
{
    const tarn_replay_options options = {
        .size = sizeof options, .keep_streams = true, .register_streams = true};
    tarn_replay_report report;
    tarn_status status = tarn_replay(job->trace, pool, &options, &report);

    run->statistics.size = sizeof run->statistics;
    if (status == TARN_OK)
        status = tarn_pool_get_statistics(pool, &run->statistics);
    run->has_run = status == TARN_OK;
    /* A log of too many streams has no figures of the pool. */
    return status == TARN_NOT_SUPPORTED ? TARN_OK : status;
}

static tarn_status run_pool(const struct job *job, uint64_t maximum, struct pool_run *run)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .maximum_bytes = (size_t)maximum};
    tarn_resource *pool;
    tarn_status status = tarn_pool_create(0, NULL, &options, &pool);

    if (status != TARN_OK)
        return status;
    status = replay_on(job, pool, run);
    tarn_error failure = *tarn_error_last();
    tarn_resource_release(pool);
    if (status != TARN_OK)
        tarn_error_set_native(failure.status, failure.native, "%s", failure.message);
    return status;
}

static int run_pools(struct job *job)
{
    int code = job->no_pool || job->summary.blocks == 0 ? 0 : open_simulator(job);

    if (code != 0 || job->no_pool || job->summary.blocks == 0)
        return code;
    if (run_pool(job, 0, &job->pool) != TARN_OK ||
        run_pool(job, job->moves.limit_bytes, &job->limited_pool) != TARN_OK)
        return failed_with_last_error(&verb_plan);
    return 0;
}

/* --- the result --------------------------------------------------------------------------- */

static void print_line(const char *what, const char *plan, const char *pool)
{
    printf("  %-24s %16s %16s\n", what, plan, pool);
}

static void print_number(const char *what, uint64_t plan, const struct pool_run *run,
                         uint64_t pool)
{
    char texts[2][32];

    snprintf(texts[0], sizeof texts[0], "%" PRIu64, plan);
    snprintf(texts[1], sizeof texts[1], "%" PRIu64, pool);
    print_line(what, texts[0], run->has_run ? texts[1] : "-");
}

static void print_result(const struct job *job)
{
    const tarn_plan_summary *plan = &job->summary;
    const struct pool_run *pool = &job->pool, *limited = &job->limited_pool;
    uint64_t reserved = pool->statistics.peak_reserved;
    char texts[2][32];

    print_text(stdout, job->source.name);
    printf(": %" PRIu64 " blocks on %" PRIu64 " stream%s, laid out in %.2f s\n",
           plan->blocks, plan->streams, plan->streams == 1 ? "" : "s", job->seconds);
    print_line("", "plan", "plain pool");
    print_line("peak live", bytes_text(plan->peak_live_bytes).text, "");
    print_line("reserved", bytes_text(reserved_of(job)).text,
               pool->has_run ? bytes_text(reserved).text : "-");
    snprintf(texts[0], sizeof texts[0], "%.4f", ratio(job, reserved_of(job)));
    snprintf(texts[1], sizeof texts[1], "%.4f", ratio(job, reserved));
    print_line("reserved : live", texts[0], pool->has_run ? texts[1] : "-");
    print_number("waits", plan->waits, pool, pool->statistics.stream_waits);
    snprintf(texts[0], sizeof texts[0], "%.1f", per_thousand(job, plan->waits));
    snprintf(texts[1], sizeof texts[1], "%.1f",
             per_thousand(job, pool->statistics.stream_waits));
    print_line("waits in 1,000 blocks", texts[0], pool->has_run ? texts[1] : "-");
    printf("with at most %s, %.4f of the peak live\n",
           bytes_text(job->moves.limit_bytes).text, ratio(job, job->moves.limit_bytes));
    print_number("failures", job->moves.failures, limited, limited->statistics.failures);
    print_number("blocks behind a move", job->moves.allocations, limited,
                 limited->statistics.moves);
    snprintf(texts[0], sizeof texts[0], "%" PRIu64, job->moves.pages);
    print_line("pages moved", texts[0], "");
    printf("The plan expects a device that is %" PRIu64
           " operations behind; the pool ran on an idle one.\n",
           plan->lag_operations);
}

static void write_pool(struct json *out, const char *key, const struct pool_run *run)
{
    if (!run->has_run)
        return;
    json_open(out, key, '{');
    json_number(out, "reserved_bytes", run->statistics.peak_reserved);
    json_number(out, "waits", run->statistics.stream_waits);
    json_number(out, "moves", run->statistics.moves);
    json_number(out, "failures", run->statistics.failures);
    json_close(out, '}');
}

static void write_result(const struct job *job)
{
    const tarn_plan_summary *plan = &job->summary;
    struct json out = {.file = stdout};

    json_open(&out, NULL, '{');
    json_text(&out, "file", job->source.name);
    json_number(&out, "blocks", plan->blocks);
    json_number(&out, "operations", plan->operations);
    json_number(&out, "streams", plan->streams);
    json_number(&out, "threads", plan->threads);
    json_number(&out, "peak_live_bytes", plan->peak_live_bytes);
    json_number(&out, "lag_operations", plan->lag_operations);
    json_number(&out, "wait_price_bytes", plan->wait_price_bytes);
    json_real(&out, "seconds", job->seconds);
    json_open(&out, "plan", '{');
    json_number(&out, "height_bytes", plan->height_bytes);
    json_number(&out, "reserved_bytes", reserved_of(job));
    json_number(&out, "handovers", plan->handovers);
    json_number(&out, "waits", plan->waits);
    json_close(&out, '}');
    write_pool(&out, "pool", &job->pool);
    json_number(&out, "limit_bytes", job->moves.limit_bytes);
    json_open(&out, "plan_at_limit", '{');
    json_number(&out, "page_bytes", job->moves.page_bytes);
    json_number(&out, "pages", job->moves.pages);
    json_number(&out, "allocations", job->moves.allocations);
    json_number(&out, "failures", job->moves.failures);
    json_close(&out, '}');
    write_pool(&out, "pool_at_limit", &job->limited_pool);
    json_close(&out, '}');
}

static bool write_to_file(void *data, const char *bytes, size_t count)
{
    return fwrite(bytes, 1, count, data) == count;
}

/* Write the plan, whole or not at all. */
static int write_plan(const struct job *job)
{
    struct output output;
    int code = 0;

    if (!output_begin(&output, job->output))
        return failed(&verb_plan, "cannot create %s: %s", job->output, strerror(errno));
    FILE *file = fopen(output.file, "we");
    if (!file)
        code = failed(&verb_plan, "cannot create %s: %s", job->output, strerror(errno));
    else if (tarn_plan_write(job->plan, job->output, write_to_file, file) != TARN_OK)
        code = failed_with_last_error(&verb_plan);
    if (file && fclose(file) != 0 && code == 0)
        code = failed(&verb_plan, "cannot write %s: %s", job->output, strerror(errno));
    if (!output_finish(&output, code == 0) && code == 0)
        code = failed(&verb_plan, "cannot write %s: %s", job->output, strerror(errno));
    return code;
}

/* --- the verb ------------------------------------------------------------------------------ */

static tarn_status make_plan(struct job *job)
{
    clock_t start = clock();
    tarn_status status = tarn_trace_plan(job->trace, &job->options, &job->plan);

    job->seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (status != TARN_OK)
        return status;
    tarn_plan_summarize(job->plan, &job->summary);
    uint64_t peak = job->summary.peak_live_bytes;
    return tarn_plan_count_moves(job->plan, job->limit ? job->limit : peak + peak / SHARE,
                                 &job->moves);
}

static int plan_loaded(struct job *job)
{
    int code =
        make_plan(job) == TARN_OK ? run_pools(job) : failed_with_last_error(&verb_plan);

    if (code == 0 && job->output)
        code = write_plan(job);
    if (code != 0)
        return code;
    if (job->json)
        write_result(job);
    else
        print_result(job);
    return 0;
}

static int plan(struct job *job, const char *path)
{
    int code;

    if (job->output && is_same_file(path, job->output))
        return failed(&verb_plan, "%s is the log itself", job->output);
    if (!source_open(&job->source, path))
        return failed(&verb_plan, "cannot open %s: %s", job->source.name,
                      strerror(errno));
    if (tarn_trace_load(job->source.name, source_read, &job->source, NULL, &job->trace) ==
        TARN_OK)
        code = plan_loaded(job);
    else
        code = source_failed(&verb_plan, &job->source);
    tarn_plan_release(job->plan);
    tarn_trace_release(job->trace);
    source_close(&job->source);
    return code;
}

/* Read a number from 1 to `most`. */
static bool number_of(const char *text, unsigned long most, uint32_t *out)
{
    char *end;

    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number < 1 || number > most)
        return false;
    *out = (uint32_t)number;
    return true;
}

/* Take one option; WRONG_USE where its value is invalid. */
static int take_option(void *data, int option)
{
    struct job *job = data;

    switch (option) {
    case 'o':
        job->output = optarg;
        break;
    case 'm':
        if (!bytes_of(optarg, &job->limit) || job->limit == 0)
            return wrong_use(&verb_plan, "--limit %s is not a size", optarg);
        break;
    case 'w':
        if (!bytes_of(optarg, &job->options.wait_price_bytes) ||
            job->options.wait_price_bytes == 0)
            return wrong_use(&verb_plan, "--wait-price %s is not a size above 0", optarg);
        break;
    case 'l':
        if (!number_of(optarg, 1ul << 30, &job->options.lag_operations))
            return wrong_use(&verb_plan, "--lag %s is not a number from 1 to 2^30",
                             optarg);
        break;
    case 'e':
        if (!number_of(optarg, 1000, &job->options.effort))
            return wrong_use(&verb_plan, "--effort %s is not a number from 1 to 1000",
                             optarg);
        break;
    case 'n':
        job->no_pool = true;
        break;
    case 'j':
        job->json = true;
        break;
    }
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"limit", required_argument, NULL, 'm'},
                                            {"wait-price", required_argument, NULL, 'w'},
                                            {"lag", required_argument, NULL, 'l'},
                                            {"effort", required_argument, NULL, 'e'},
                                            {"no-pool", no_argument, NULL, 'n'},
                                            {"json", no_argument, NULL, 'j'},
                                            HELP_OPTION,
                                            LAST_OPTION};
    struct job job = {.options = {.size = sizeof(tarn_plan_options)},
                      .summary = {.size = sizeof(tarn_plan_summary)},
                      .moves = {.size = sizeof(tarn_plan_moves)}};
    const char *log;
    int code =
        take_options_and_log(&verb_plan, argc, argv, options, take_option, &job, &log);

    return code == GO_ON ? plan(&job, log) : code;
}

const struct verb verb_plan = {
    "plan", "lays the blocks of a log out in advance",
    "plan FILE [--output PLAN] [--limit SIZE] [--wait-price SIZE] [--lag N] "
    "[--effort N] [--no-pool] [--json]",
    "Reads a log as `tarn log` does and gives each block a place in one range of\n"
    "addresses. Prints the memory that the work needs so, the waits between streams,\n"
    "and the pages that have to move under a limit. Beside them are the figures of\n"
    "Tarn's pool, on which the log is replayed on the driver simulator.\n"
    "\n"
    "  --output PLAN      write the plan to a file\n"
    "  --limit SIZE       physical memory for the second table; by default 1.02 times\n"
    "                     the peak live\n"
    "  --wait-price SIZE  memory that a wait between two streams is worth: smaller\n"
    "                     blocks wait for no other stream; by default the peak live /\n"
    "                     1024\n"
    "  --lag N            operations by which the device is behind; 500 by default\n"
    "  --effort N         search N times as long; 1 by default, 1000 at most\n"
    "  --no-pool          do not replay the log on the pool\n"
    "  --json             print the result as JSON\n",
    run};
