/* cmd_replay.c -- `tarn replay`: repeat a log's allocations on another resource. */
#include "tool.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct job {
    const struct resource_kind *kind;
    const char *driver; /* NULL: the default */
    bool json, progress;
    tarn_replay_options options;
    struct source source;
    tarn_trace *trace;
    tarn_resource *resource;
};

static const char *const percentiles[] = {"p50", "p90", "p99", "p99_9", "longest"};

static void show_progress(void *data, uint64_t done, uint64_t total)
{
    (void)data;
    fprintf(stderr, "\rtarn replay: %" PRIu64 " of %" PRIu64 " operations (%.0f %%)",
            done, total, total ? 100.0 * (double)done / (double)total : 100.0);
    fflush(stderr);
}

static void print_times(const char *what, uint64_t count, double mean,
                        const uint64_t ns[5])
{
    printf("  %-9s %10" PRIu64 " %10s", what, count, time_text(mean).text);
    for (int i = 0; i < 5; i++)
        printf(" %10s", time_text((double)ns[i]).text);
    putchar('\n');
}

static void print_report(const struct job *job, const tarn_replay_report *report)
{
    print_text(stdout, job->source.name);
    printf(" on %s: %" PRIu64 " operations in %s\n", job->kind->name, report->operations,
           time_text((double)report->wall_ns).text);
    printf("  %-9s %10s %10s %10s %10s %10s %10s %10s\n", "", "count", "mean", "p50",
           "p90", "p99", "p99.9", "longest");
    print_times("allocate", report->allocations, report->allocate_mean_ns,
                report->allocate_ns);
    print_times("free", report->frees, report->free_mean_ns, report->free_ns);
    printf("  failures            %" PRIu64 "\n", report->failures);
    printf("  freed after the end %" PRIu64 "\n", report->end_frees);
    printf("  peak live           %s\n", bytes_text(report->peak_live_bytes).text);
    if (report->peak_reserved_bytes == 0)
        printf("  peak reserved       unknown\n");
    else
        printf("  peak reserved       %s (%.2f of the peak live)\n",
               bytes_text(report->peak_reserved_bytes).text,
               report->peak_live_bytes
                   ? (double)report->peak_reserved_bytes / (double)report->peak_live_bytes
                   : 0.0);
}

static void write_times(struct json *out, const char *key, uint64_t count, double mean,
                        const uint64_t ns[5])
{
    json_open(out, key, '{');
    json_number(out, "count", count);
    json_real(out, "mean_ns", mean);
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s_ns", percentiles[i]);
        json_number(out, name, ns[i]);
    }
    json_close(out, '}');
}

static void write_report(const struct job *job, const tarn_replay_report *report)
{
    struct json out = {.file = stdout};

    json_open(&out, NULL, '{');
    json_text(&out, "file", job->source.name);
    json_text(&out, "resource", job->kind->name);
    json_bool(&out, "keep_threads", job->options.keep_threads);
    json_bool(&out, "keep_streams", job->options.keep_streams);
    json_bool(&out, "register_streams", job->options.register_streams);
    json_number(&out, "operations", report->operations);
    write_times(&out, "allocate", report->allocations, report->allocate_mean_ns,
                report->allocate_ns);
    write_times(&out, "free", report->frees, report->free_mean_ns, report->free_ns);
    json_number(&out, "failures", report->failures);
    json_number(&out, "end_frees", report->end_frees);
    json_number(&out, "wall_ns", report->wall_ns);
    json_number(&out, "peak_live_bytes", report->peak_live_bytes);
    json_number(&out, "peak_reserved_bytes", report->peak_reserved_bytes);
    json_close(&out, '}');
}

static int replay_loaded(struct job *job)
{
    tarn_replay_report report;
    tarn_status status;

    if (job->progress)
        job->options.progress = show_progress;
    status = tarn_replay(job->trace, job->resource, &job->options, &report);
    if (job->progress)
        fputc('\n', stderr);
    if (status != TARN_OK)
        return failed_with_last_error(&verb_replay);
    if (job->json)
        write_report(job, &report);
    else
        print_report(job, &report);
    return 0;
}

/* Create the resource first: a wrong driver is reported before a large log is read. */
static int replay(struct job *job, const char *path)
{
    int code;

    if (job->kind->on_device && tarn_driver_open(job->driver) != TARN_OK)
        return failed_with_last_error(&verb_replay);
    if (job->kind->create(0, &job->resource) != TARN_OK)
        return failed_with_last_error(&verb_replay);
    if (!source_open(&job->source, path)) {
        code =
            failed(&verb_replay, "cannot open %s: %s", job->source.name, strerror(errno));
        tarn_resource_release(job->resource);
        return code;
    }
    if (tarn_trace_load(job->source.name, source_read, &job->source, NULL, &job->trace) ==
        TARN_OK)
        code = replay_loaded(job);
    else
        code = source_failed(&verb_replay, &job->source);
    tarn_trace_release(job->trace);
    source_close(&job->source);
    if (tarn_resource_release(job->resource) != TARN_OK && code == 0)
        code = failed_with_last_error(&verb_replay);
    return code;
}

/* Take one option; WRONG_USE where its value is invalid. */
static int take_option(void *data, int option)
{
    struct job *job = data;

    switch (option) {
    case 'r':
        job->kind = resource_kind_of(optarg);
        if (!job->kind)
            return wrong_use(&verb_replay,
                             "unknown resource %s; the resources are cuda, async, "
                             "managed, pinned, pool, slab, binning, host",
                             optarg);
        break;
    case 'd':
        job->driver = optarg;
        break;
    case 't':
        job->options.keep_threads = true;
        break;
    case 's':
        job->options.keep_streams = true;
        break;
    case 'o':
        job->options.keep_streams = job->options.register_streams = true;
        break;
    case 'p':
        job->progress = true;
        break;
    case 'j':
        job->json = true;
        break;
    }
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"resource", required_argument, NULL, 'r'},
                                            {"driver", required_argument, NULL, 'd'},
                                            {"threads", no_argument, NULL, 't'},
                                            {"streams", no_argument, NULL, 's'},
                                            {"registered", no_argument, NULL, 'o'},
                                            {"progress", no_argument, NULL, 'p'},
                                            {"json", no_argument, NULL, 'j'},
                                            HELP_OPTION,
                                            LAST_OPTION};
    struct job job = {.kind = resource_kind_of("cuda"),
                      .progress = isatty(STDERR_FILENO),
                      .options = {.size = sizeof(tarn_replay_options)}};
    const char *log;
    int code =
        take_options_and_log(&verb_replay, argc, argv, options, take_option, &job, &log);

    return code == GO_ON ? replay(&job, log) : code;
}

const struct verb verb_replay = {
    "replay", "replays a log on a resource",
    "replay FILE [--resource NAME] [--driver sim|PATH] [--threads] [--streams] "
    "[--registered] [--progress] [--json]",
    "Reads a log as `tarn log` does, repeats its allocations and frees on device 0, and\n"
    "prints the times of the calls and the peaks of live and reserved memory. Failed\n"
    "allocations, requests for 0 bytes and frees without an allocation are left out.\n"
    "\n"
    "  --resource NAME  cuda (the default), async, managed, pinned, pool, slab (blocks "
    "of\n"
    "                   1 MiB), binning or host\n"
    "  --driver WHICH   path of the driver library, or sim for the driver simulator\n"
    "  --threads        use one thread for each thread of the log\n"
    "  --streams        use one stream for each stream of the log\n"
    "  --registered     the same, with streams that are registered with Tarn\n"
    "  --progress       show the progress on stderr even if that is not a terminal\n"
    "  --json           print the result as JSON\n",
    run};
