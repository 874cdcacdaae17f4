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
    bool check, json, with_stacks;
    bool has_limit; /* of the bytes that are held until exit */
    uint64_t held_limit;
    struct allow allow;
    struct stacks stacks;
    tarn_trace_format format;
    tarn_trace_end end;
    uint64_t held_bytes, held_blocks; /* but for those of allowed places */
    uint64_t allowed_bytes;
    tarn_trace_accounting *accounting;
    struct json out; /* with --json; in memory, so that a failure prints none of it */
    char *text;      /* that memory */
    size_t text_bytes;
};

static const char *format_name(tarn_trace_format format)
{
    static const char *const names[] = {"NBEP 7", "RMM", "Tarn"};

    return names[format];
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
    while (count > 0 && order == TARN_SITES_BY_HELD && sites[count - 1].held_bytes == 0)
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

/* Print the frames of a place's stack, the innermost first. */
static void print_stack(const struct job *job, tarn_stack stack)
{
    tarn_stack_frame frames[TARN_STACK_DEPTH_MAX];
    size_t count =
        tarn_stack_frames(stacks_find(&job->stacks, stack), TARN_STACK_DEPTH_MAX, frames);

    for (size_t i = 0; i < count; i++) {
        printf("    ");
        print_text(stdout, frames[i].file);
        if (frames[i].build_id)
            printf("+0x%" PRIx64, frames[i].offset);
        else
            printf(":%d", frames[i].line);
        printf(" in ");
        print_text(stdout, *frames[i].function ? frames[i].function : "?");
        putchar('\n');
    }
}

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
            if (job->with_stacks)
                print_stack(job, sites[i].stack);
        }
    }
}

/* The places that hold memory until exit, but for the allowed ones: `*count` of them, the
 * largest first. NULL: no host memory. Their bytes are summed in `job`. */
static tarn_trace_site *held_places(struct job *job, size_t *count)
{
    size_t all =
        tarn_trace_accounting_sites(job->accounting, TARN_SITES_BY_HELD, 0, NULL);
    tarn_trace_site *sites = calloc(all + 1, sizeof *sites);

    *count = 0;
    job->held_bytes = job->held_blocks = job->allowed_bytes = 0;
    if (!sites)
        return NULL;
    tarn_trace_accounting_sites(job->accounting, TARN_SITES_BY_HELD, all, sites);
    for (size_t i = 0; i < all && sites[i].held_blocks > 0; i++) {
        tarn_stack stack = stacks_find(&job->stacks, sites[i].stack);
        if (allow_matches(&job->allow, sites[i].location, stack)) {
            job->allowed_bytes += sites[i].held_bytes;
            continue;
        }
        job->held_bytes += sites[i].held_bytes;
        job->held_blocks += sites[i].held_blocks;
        sites[(*count)++] = sites[i];
    }
    return sites;
}

static void print_held_places(const struct job *job, const tarn_trace_site *sites,
                              size_t count)
{
    if (count == 0)
        return;
    printf("\nlargest allocation sites held until exit\n  %12s %10s %10s  location\n",
           "bytes", "blocks", "oldest");
    for (size_t i = 0; i < count && i < PLACES; i++) {
        printf("  %12s %10" PRIu64 " %10s  ", bytes_text(sites[i].held_bytes).text,
               sites[i].held_blocks,
               sites[i].held_age_ns ? time_text((double)sites[i].held_age_ns).text : "-");
        print_text(stdout, *sites[i].location ? sites[i].location : "(unknown)");
        putchar('\n');
        if (job->with_stacks)
            print_stack(job, sites[i].stack);
    }
}

static void print_count(const char *unit, uint64_t count, bool is_recorded)
{
    if (is_recorded)
        printf("%s %" PRIu64, unit, count);
    else
        printf("%s not in the log", unit);
}

/* Print what the reader found out about the log as a whole. */
static void print_end(const struct job *job)
{
    const tarn_trace_end *end = &job->end;

    if (end->is_cut)
        printf("  the log has no end: a signal (Ctrl-C, kill), a crash or _exit() ended "
               "its program, it still runs, or the file was cut\n");
    if (end->begin_ns)
        printf("  a ring: complete from %s on\n", time_text((double)end->begin_ns).text);
    if (end->torn_rows)
        printf("  %" PRIu64 " damaged rows or records were left out\n", end->torn_rows);
    if (end->lost_rows)
        printf("  %" PRIu64 " rows found no space in the log\n", end->lost_rows);
    if (end->moved_rows)
        printf("  %" PRIu64 " rows were moved to the time of the row before them\n",
               end->moved_rows);
}

static void print_held(const struct job *job, const tarn_trace_summary *summary)
{
    printf("  held until exit%9" PRIu64 "  %s", job->held_blocks,
           bytes_text(job->held_bytes).text);
    if (job->allow.count)
        printf(", and %s allowed", bytes_text(job->allowed_bytes).text);
    printf("%s\n", summary->has_exit ? "" : " (no exit in the log: live at the end)");
}

static void print_summary(const struct job *job, const tarn_trace_summary *summary,
                          const tarn_trace_site *held, size_t held_count)
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
    printf("  live at end    %10" PRIu64 "  %s\n", summary->end_live_blocks,
           bytes_text(summary->end_live_bytes).text);
    print_held(job, summary);
    printf("  ");
    print_count("threads", summary->threads, summary->threads > 0);
    print_count(", streams", summary->streams, true);
    print_count(", devices", summary->devices, summary->devices > 0);
    putchar('\n');
    if (summary->problems && !job->check)
        printf("  %" PRIu64 " inconsistencies: --check lists them\n", summary->problems);
    print_end(job);
    if (job->format == TARN_TRACE_RMM)
        return;
    if (summary->has_exit)
        print_held_places(job, held, held_count);
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

static void write_stack(struct job *job, tarn_stack stack)
{
    tarn_stack_frame frames[TARN_STACK_DEPTH_MAX];
    size_t count =
        tarn_stack_frames(stacks_find(&job->stacks, stack), TARN_STACK_DEPTH_MAX, frames);

    json_open(&job->out, "stack", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(&job->out, NULL, '{');
        json_text(&job->out, "function", frames[i].function);
        json_text(&job->out, "file", frames[i].file);
        json_number(&job->out, "line", (uint64_t)frames[i].line);
        json_close(&job->out, '}');
    }
    json_close(&job->out, ']');
}

static void write_held(struct job *job, const tarn_trace_summary *summary,
                       const tarn_trace_site *sites, size_t count)
{
    json_bool(&job->out, "has_exit", summary->has_exit);
    json_number(&job->out, "held_bytes", job->held_bytes);
    json_number(&job->out, "held_blocks", job->held_blocks);
    json_number(&job->out, "held_allowed_bytes", job->allowed_bytes);
    json_open(&job->out, "largest_held", '[');
    for (size_t i = 0; i < count && i < PLACES; i++) {
        json_open(&job->out, NULL, '{');
        json_text(&job->out, "location", sites[i].location);
        json_number(&job->out, "held_bytes", sites[i].held_bytes);
        json_number(&job->out, "held_blocks", sites[i].held_blocks);
        json_number(&job->out, "held_age_ns", sites[i].held_age_ns);
        write_stack(job, sites[i].stack);
        json_close(&job->out, '}');
    }
    json_close(&job->out, ']');
}

static void write_end(struct job *job)
{
    json_bool(&job->out, "is_cut", job->end.is_cut);
    json_number(&job->out, "torn_rows", job->end.torn_rows);
    json_number(&job->out, "lost_rows", job->end.lost_rows);
    json_number(&job->out, "moved_rows", job->end.moved_rows);
    json_number(&job->out, "begin_ns", job->end.begin_ns);
}

static void write_summary(struct job *job, const tarn_trace_summary *summary,
                          const tarn_trace_site *held, size_t held_count)
{
    struct json *out = &job->out;

    json_text(out, "file", job->source.name);
    json_text(out, "format", format_key(job->format));
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
    write_end(job);
    write_held(job, summary, held, held_count);
    write_places(job);
}

static tarn_status on_stack(void *data, tarn_stack stack, const tarn_stack_frame *frames,
                            size_t count)
{
    struct job *job = data;

    return stacks_add(&job->stacks, stack, frames, count);
}

static tarn_status on_event(void *data, const tarn_trace_event *event, uint64_t line)
{
    return tarn_trace_accounting_add(((struct job *)data)->accounting, event, line);
}

static tarn_status on_mark(void *data, const char *name, uint64_t time_ns)
{
    return tarn_trace_accounting_mark(((struct job *)data)->accounting, name, time_ns);
}

static tarn_status on_end(void *data, const tarn_trace_end *end)
{
    ((struct job *)data)->end = *end;
    return TARN_OK;
}

static const tarn_trace_handlers handlers = {.size = sizeof handlers,
                                             .on_stack = on_stack,
                                             .on_event = on_event,
                                             .on_mark = on_mark,
                                             .on_end = on_end};

/* Read the log to its end; with --json the output goes to memory. */
static int read_log(struct job *job)
{
    if (job->json && job->check)
        json_open(&job->out, "problems", '[');
    if (tarn_trace_accounting_create(job->source.name, NULL,
                                     job->check ? on_problem : NULL, job,
                                     &job->accounting) != TARN_OK)
        return failed_with_last_error(&verb_log);
    if (tarn_trace_read_all(job->source.name, source_read, &job->source, NULL, &handlers,
                            job, &job->format) != TARN_OK)
        return source_failed(&verb_log, &job->source);
    if (job->json && job->check)
        json_close(&job->out, ']');
    return 0;
}

/* The exit code, after a line on stderr if it is not 0. */
static int judge(const struct job *job, const tarn_trace_summary *summary)
{
    int code = 0;

    if (job->check && summary->problems)
        code = failed(&verb_log, "%s: %" PRIu64 " inconsistencies", job->source.name,
                      summary->problems);
    if (job->has_limit && job->held_bytes > job->held_limit)
        code = failed(&verb_log,
                      "%s: %" PRIu64 " bytes held until exit, %" PRIu64 " are allowed",
                      job->source.name, job->held_bytes, job->held_limit);
    return code;
}

static int summarize(struct job *job)
{
    tarn_trace_summary summary;
    size_t held_count;
    int code = read_log(job);

    if (code != 0)
        return code;
    tarn_trace_accounting_summary(job->accounting, &summary);
    tarn_trace_site *held = held_places(job, &held_count);
    if (!held)
        return failed(&verb_log, "no host memory for the sites");
    if (job->json)
        write_summary(job, &summary, held, held_count);
    else
        print_summary(job, &summary, held, held_count);
    free(held);
    return judge(job, &summary);
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

/* Take one option; the exit code if its value is invalid, else 0. */
static int take_option(void *data, int option)
{
    struct job *job = data;

    switch (option) {
    case 'c':
        job->check = true;
        break;
    case 'j':
        job->json = true;
        break;
    case 's':
        job->with_stacks = true;
        break;
    case 'a':
        if (!allow_read(&job->allow, optarg))
            return failed(&verb_log, "cannot read %s: %s", optarg, strerror(errno));
        break;
    case 'f':
        job->has_limit = true;
        if (!bytes_of(optarg, &job->held_limit))
            return wrong_use(&verb_log, "%s is no size such as 4096 or 64MiB", optarg);
        break;
    }
    return 0;
}

static int run_job(struct job *job, int argc, char **argv)
{
    static const struct option options[] = {
        {"check", no_argument, NULL, 'c'},
        {"json", no_argument, NULL, 'j'},
        {"stacks", no_argument, NULL, 's'},
        {"allow", required_argument, NULL, 'a'},
        {"fail-on-held", required_argument, NULL, 'f'},
        HELP_OPTION,
        LAST_OPTION};
    const char *log;
    int code =
        take_options_and_log(&verb_log, argc, argv, options, take_option, job, &log);

    if (code != GO_ON)
        return code;
    if (!source_open(&job->source, log))
        return failed(&verb_log, "cannot open %s: %s", job->source.name, strerror(errno));
    code = job->json ? summarize_as_json(job) : summarize(job);
    tarn_trace_accounting_release(job->accounting);
    source_close(&job->source);
    return code;
}

static int run(int argc, char **argv)
{
    struct job job = {.check = false};
    int code = run_job(&job, argc, argv);

    allow_free(&job.allow);
    stacks_free(&job.stacks);
    return code;
}

const struct verb verb_log = {
    "log", "summarizes a log of allocations",
    "log FILE [--stacks] [--allow FILE] [--fail-on-held BYTES] [--check] [--json]",
    "Reads a log of Tarn, of NBEP 7 or of any version of RMM, compressed with gzip or "
    "not;\n"
    "- is stdin. Prints the live memory at the peak and at the end, what was held until\n"
    "exit, and the largest allocation sites.\n"
    "\n"
    "Memory is held until exit if it is live when the interpreter's exit begins, and "
    "only\n"
    "the exit, a collection of cycles during it or nothing frees it.\n"
    "\n"
    "  --stacks  print the call stack of each site\n"
    "  --allow FILE\n"
    "            do not count memory of the places in FILE as held. A line is "
    "`file:line`\n"
    "            or `file:function`, with *, ? and [...]; # starts a comment\n"
    "  --fail-on-held BYTES\n"
    "            exit code 1 if more bytes are held until exit; BYTES may be 64MiB\n"
    "  --check   list inconsistent rows: a free of an address that is not live or with\n"
    "            another size, two live allocations at one address, an end before its\n"
    "            start; exit code 1 if there are any\n"
    "  --json    print the same as JSON\n",
    run};
