/* cmd_log.c -- `tarn log`: a summary of a log, and its inconsistent rows. */
#define _GNU_SOURCE
#include "tool.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 10 }; /* in each list of the largest */

/* The input of the command, and the output that it collects. */
struct job {
    struct source source;
    bool check, json;
    tarn_trace_format format;
    tarn_trace_accounting *accounting;
    struct json out; /* with --json; in memory, so that a failure prints none of it */
    char *text;      /* that memory */
    size_t text_bytes;
};

static const char *format_name(tarn_trace_format format)
{
    return format == TARN_TRACE_RMM ? "RMM" : "NBEP 7";
}

/* An inconsistent row: printed as soon as it is found. */
static void on_problem(void *data, uint64_t line, const char *message)
{
    struct job *job = data;

    if (job->json) {
        json_open(&job->out, NULL, '{');
        json_number(&job->out, "line", line);
        json_text(&job->out, "message", message);
        json_close(&job->out, '}');
        return;
    }
    print_text(stdout, job->source.name);
    printf(":%" PRIu64 ": ", line);
    print_text(stdout, message);
    putchar('\n');
}

/* The number of places with a value in that order, at most PLACES. */
static size_t places_of(const struct job *job, tarn_site_order order,
                        tarn_trace_site sites[PLACES])
{
    size_t count = tarn_trace_accounting_sites(job->accounting, order, PLACES, sites);

    if (count > PLACES)
        count = PLACES;
    while (count > 0 && order == TARN_SITES_BY_LIVE && sites[count - 1].live_bytes == 0)
        count--;
    while (count > 0 && order == TARN_SITES_BY_PEAK && sites[count - 1].peak_bytes == 0)
        count--;
    return count;
}

static const struct {
    tarn_site_order order;
    const char *title, *key;
} lists[] = {
    {TARN_SITES_BY_PEAK, "largest allocation sites at the peak", "largest_at_peak"},
    {TARN_SITES_BY_LIVE, "largest allocation sites live at the end",
     "largest_live_at_end"},
    {TARN_SITES_BY_TOTAL, "largest allocation sites by total bytes", "largest_by_total"},
};
enum { LISTS = sizeof lists / sizeof lists[0] };

static void print_places(const struct job *job)
{
    tarn_trace_site sites[PLACES];

    for (int list = 0; list < LISTS; list++) {
        size_t count = places_of(job, lists[list].order, sites);
        if (count == 0)
            continue;
        printf("\n%s\n  %12s %12s %12s %11s  location\n", lists[list].title,
               "at the peak", "at the end", "total", "allocations");
        for (size_t i = 0; i < count; i++) {
            printf("  %12s %12s %12s %11" PRIu64 "  ",
                   bytes_text(sites[i].peak_bytes).text,
                   bytes_text(sites[i].live_bytes).text,
                   bytes_text(sites[i].total_bytes).text, sites[i].allocations);
            print_text(stdout, *sites[i].location ? sites[i].location : "(unknown)");
            putchar('\n');
        }
    }
}

static void print_count(const char *unit, uint64_t count, bool is_recorded)
{
    if (is_recorded)
        printf("%s %" PRIu64, unit, count);
    else
        printf("%s not in the log", unit);
}

static void print_summary(const struct job *job, const tarn_trace_summary *summary)
{
    print_text(stdout, job->source.name);
    printf(": log of %s, %" PRIu64 " rows, %s\n", format_name(job->format),
           summary->events, time_text((double)summary->duration_ns).text);
    printf("  allocations    %10" PRIu64 "  %s in total\n", summary->allocations,
           bytes_text(summary->total_bytes).text);
    printf("  frees          %10" PRIu64 "\n", summary->frees);
    printf("  failures       %10" PRIu64 "\n", summary->failures);
    printf("  peak live      %10" PRIu64 "  %s\n", summary->peak_live_blocks,
           bytes_text(summary->peak_live_bytes).text);
    printf("  live at end    %10" PRIu64 "  %s\n  ", summary->end_live_blocks,
           bytes_text(summary->end_live_bytes).text);
    print_count("threads", summary->threads, summary->threads > 0);
    print_count(", streams", summary->streams, true);
    print_count(", devices", summary->devices, summary->devices > 0);
    putchar('\n');
    if (summary->problems && !job->check)
        printf("  %" PRIu64 " inconsistencies: --check lists them\n", summary->problems);
    if (job->format == TARN_TRACE_NBEP7)
        print_places(job);
}

static void write_places(struct job *job)
{
    tarn_trace_site sites[PLACES];

    for (int list = 0; list < LISTS; list++) {
        size_t count = places_of(job, lists[list].order, sites);
        json_open(&job->out, lists[list].key, '[');
        for (size_t i = 0; i < count; i++) {
            json_open(&job->out, NULL, '{');
            json_text(&job->out, "location", sites[i].location);
            json_number(&job->out, "peak_bytes", sites[i].peak_bytes);
            json_number(&job->out, "live_bytes", sites[i].live_bytes);
            json_number(&job->out, "live_blocks", sites[i].live_blocks);
            json_number(&job->out, "total_bytes", sites[i].total_bytes);
            json_number(&job->out, "allocations", sites[i].allocations);
            json_close(&job->out, '}');
        }
        json_close(&job->out, ']');
    }
}

static void write_summary(struct job *job, const tarn_trace_summary *summary)
{
    struct json *out = &job->out;

    json_text(out, "file", job->source.name);
    json_text(out, "format", job->format == TARN_TRACE_RMM ? "rmm" : "nbep7");
    json_number(out, "events", summary->events);
    json_number(out, "allocations", summary->allocations);
    json_number(out, "frees", summary->frees);
    json_number(out, "failures", summary->failures);
    json_number(out, "unmatched_frees", summary->unmatched_frees);
    json_number(out, "double_allocations", summary->double_allocations);
    json_number(out, "problem_count", summary->problems);
    json_number(out, "peak_live_bytes", summary->peak_live_bytes);
    json_number(out, "peak_live_blocks", summary->peak_live_blocks);
    json_number(out, "end_live_bytes", summary->end_live_bytes);
    json_number(out, "end_live_blocks", summary->end_live_blocks);
    json_number(out, "total_bytes", summary->total_bytes);
    json_number(out, "threads", summary->threads);
    json_number(out, "streams", summary->streams);
    json_number(out, "devices", summary->devices);
    json_number(out, "duration_ns", summary->duration_ns);
    write_places(job);
}

/* Read the log to its end; with --json the output goes to memory. */
static int read_log(struct job *job)
{
    if (job->json && job->check)
        json_open(&job->out, "problems", '[');
    if (tarn_trace_accounting_create(job->source.name, NULL,
                                     job->check ? on_problem : NULL, job,
                                     &job->accounting) != TARN_OK)
        return failed_with_last_error(&verb_log);
    if (tarn_trace_read(job->source.name, source_read, &job->source, NULL,
                        tarn_trace_accounting_add, job->accounting,
                        &job->format) != TARN_OK)
        return source_failed(&verb_log, &job->source);
    if (job->json && job->check)
        json_close(&job->out, ']');
    return 0;
}

static int summarize(struct job *job)
{
    tarn_trace_summary summary;
    int code = read_log(job);

    if (code != 0)
        return code;
    tarn_trace_accounting_summary(job->accounting, &summary);
    if (job->json)
        write_summary(job, &summary);
    else
        print_summary(job, &summary);
    if (job->check && summary.problems)
        return failed(&verb_log, "%s: %" PRIu64 " inconsistencies", job->source.name,
                      summary.problems);
    return 0;
}

/* The same with JSON collected and printed at the end. */
static int summarize_as_json(struct job *job)
{
    job->out.file = open_memstream(&job->text, &job->text_bytes);
    if (!job->out.file)
        return failed(&verb_log, "no host memory for the output");
    json_open(&job->out, NULL, '{');
    int code = summarize(job);
    bool complete = job->out.depth == 1;
    if (complete)
        json_close(&job->out, '}');
    fclose(job->out.file);
    if (complete)
        fwrite(job->text, 1, job->text_bytes, stdout);
    free(job->text);
    return code;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"check", no_argument, NULL, 'c'},
                                            {"json", no_argument, NULL, 'j'},
                                            HELP_OPTION,
                                            LAST_OPTION};
    struct job job = {.check = false};
    int option, code;

    while ((option = next_option(&verb_log, argc, argv, options, false, &code)) !=
           OPTIONS_END) {
        if (option == OPTIONS_STOP)
            return code;
        job.check |= option == 'c';
        job.json |= option == 'j';
    }
    if (argc - optind != 1)
        return wrong_use(&verb_log, "exactly one log is required");
    if (!source_open(&job.source, argv[optind]))
        return failed(&verb_log, "cannot open %s: %s", job.source.name, strerror(errno));
    code = job.json ? summarize_as_json(&job) : summarize(&job);
    tarn_trace_accounting_release(job.accounting);
    source_close(&job.source);
    return code;
}

const struct verb verb_log = {
    "log", "summarizes a log of allocations", "log FILE [--check] [--json]",
    "Reads a log of NBEP 7 or of any version of RMM, compressed with gzip or not; - is\n"
    "stdin. Its columns may have any order, with others between them, and its header "
    "may\n"
    "come again. Prints the live memory at the peak and at the end, and the largest\n"
    "allocation sites.\n"
    "\n"
    "  --check   list inconsistent rows: a free of an address that is not live or with\n"
    "            another size, two live allocations at one address, an end before its\n"
    "            start; exit code 1 if there are any\n"
    "  --json    print the same as JSON\n",
    run};
