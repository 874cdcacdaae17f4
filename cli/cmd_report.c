/* cmd_report.c -- `tarn report`: logs as one page of HTML. */
#define _GNU_SOURCE
#include "report/input.h"
#include "report/memory.h"
#include "report/page.h"
#include "report/workers.h"
#include "tool.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { LOGS_MAX = 1000 };
static const size_t DATA_BYTES = 1500000, ALL_DATA_BYTES = 5500000;
static const size_t LEAST_DATA_BYTES = 50000;

struct job {
    char **logs;
    size_t count;
    const char *output;
    const char *plan_name; /* NULL: no pictures */
    tarn_plan *plan;
    bool compares, shows_progress;
    struct window window;
    struct process *processes;
};

/* --- reading ------------------------------------------------------------------------ */

/* A log that is read, and how far. */
struct reading {
    struct source source;
    bool shows_progress;
    off_t size; /* of the file, as it is on the disk; 0 if unknown */
    struct timespec shown;
};

static double seconds_since(const struct timespec *then)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) +
           (double)(now.tv_nsec - then->tv_nsec) / 1e9;
}

static void show_progress(struct reading *reading)
{
    off_t at = gzoffset(reading->source.file);

    if (reading->size <= 0 || seconds_since(&reading->shown) < 0.2)
        return;
    clock_gettime(CLOCK_MONOTONIC, &reading->shown);
    fputs("\r\033[Ktarn report: ", stderr);
    print_text(stderr, reading->source.name);
    fprintf(stderr, " %3.0f %%", 100.0 * (double)at / (double)reading->size);
    fflush(stderr);
}

/* A tarn_trace_read_fn. */
static long read_source(void *data, char *buffer, size_t capacity)
{
    struct reading *reading = data;

    if (reading->shows_progress)
        show_progress(reading);
    return source_read(&reading->source, buffer, capacity);
}

/* The bytes of data that one process of the page may have. */
static size_t budget_of(size_t count)
{
    size_t share = ALL_DATA_BYTES / count;

    if (share > DATA_BYTES)
        return DATA_BYTES;
    return share < LEAST_DATA_BYTES ? LEAST_DATA_BYTES : share;
}

static int read_log(const struct job *job, size_t number)
{
    const char *path = job->logs[number];
    struct reading reading = {.shows_progress = job->shows_progress};
    struct stat file;
    int code = 0;

    if (!source_open(&reading.source, path))
        return failed(&verb_report, "cannot open %s: %s", reading.source.name,
                      strerror(errno));
    if (stat(path, &file) == 0 && S_ISREG(file.st_mode))
        reading.size = file.st_size;
    struct aggregate *aggregate = aggregate_create(&job->window);
    struct pictures pictures = {.name = NULL};
    if (job->plan) {
        pictures_init(&pictures, job->plan, job->plan_name);
        aggregate->pictures = &pictures;
    }
    if (input_read(aggregate, reading.source.name, read_source, &reading) != TARN_OK)
        code = source_failed(&verb_report, &reading.source);
    else
        process_make(&job->processes[number], aggregate, reading.source.name,
                     budget_of(job->count), number == 0);
    if (job->shows_progress)
        fputs("\r\033[K", stderr);
    pictures_free(&pictures);
    aggregate_free(aggregate);
    source_close(&reading.source);
    return code;
}

/* Read the plan that the page is to show, if any. */
static int read_plan(struct job *job)
{
    struct reading reading = {.shows_progress = false};
    int code = 0;

    if (!job->plan_name)
        return 0;
    if (!source_open(&reading.source, job->plan_name))
        return failed(&verb_report, "cannot open %s: %s", reading.source.name,
                      strerror(errno));
    if (tarn_plan_read(reading.source.name, read_source, &reading, &job->plan) != TARN_OK)
        code = source_failed(&verb_report, &reading.source);
    source_close(&reading.source);
    return code;
}

/* --- writing ------------------------------------------------------------------------ */

/* Write the page into the output's file; the failure is in errno. */
static bool write_file(const struct job *job, const char *path)
{
    FILE *out = fopen(path, "we");

    if (!out)
        return false;
    page_write(out, job->processes, job->count, job->compares);
    bool is_whole = fflush(out) == 0 && !ferror(out);
    int error = errno;
    bool is_closed = fclose(out) == 0;
    if (!is_whole)
        errno = error;
    return is_whole && is_closed;
}

static int write_page(const struct job *job)
{
    struct output output;

    if (strcmp(job->output, "-") == 0) {
        page_write(stdout, job->processes, job->count, job->compares);
        return 0; /* main() checks stdout */
    }
    bool is_begun = output_begin(&output, job->output);
    bool is_whole = is_begun && write_file(job, output.file);
    int error = errno;
    if (is_begun && !output_finish(&output, is_whole)) {
        is_whole = false;
        error = errno;
    }
    return is_whole ? 0
                    : failed(&verb_report, "cannot write %s: %s", job->output,
                             strerror(error));
}

/* Is this an empty file? A process that used no memory leaves one. */
static bool is_empty(const char *path)
{
    struct stat found;

    return stat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == 0;
}

/* Leave empty logs out, if there is another one. */
static void skip_empty(struct job *job)
{
    size_t kept = 0, all = job->count;

    for (size_t i = 0; i < all; i++) {
        if (is_empty(job->logs[i]) && (kept > 0 || i + 1 < all)) {
            fputs("tarn report: ", stderr);
            print_text(stderr, job->logs[i]);
            fputs(" is empty: left out\n", stderr);
        } else {
            job->logs[kept++] = job->logs[i];
        }
    }
    job->count = kept;
}

static int report(struct job *job)
{
    size_t done = 0;
    int code = 0;

    for (size_t i = 0; i < job->count; i++)
        if (is_same_file(job->logs[i], job->output))
            return failed(&verb_report, "%s is the log itself", job->output);
    if (job->plan_name && is_same_file(job->plan_name, job->output))
        return failed(&verb_report, "%s is the plan itself", job->output);
    if (!job->compares)
        skip_empty(job);
    job->processes = memory_new(job->count, sizeof *job->processes);
    code = read_plan(job);
    while (code == 0 && done < job->count && (code = read_log(job, done)) == 0)
        done++;
    if (code == 0) {
        workers_compare(job->processes, job->count);
        code = write_page(job);
    }
    for (size_t i = 0; i < done; i++)
        process_free(&job->processes[i]);
    free(job->processes);
    tarn_plan_release(job->plan);
    return code;
}

/* --- the command line --------------------------------------------------------------- */

/* Read "1.5", "1.5s", "20ms", "3us" or "7ns", in nanoseconds. */
static bool parse_time(const char *text, uint64_t *out)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    double value = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].name) == 0 && value * units[i].ns < 9e18) {
            *out = (uint64_t)(value * units[i].ns);
            return true;
        }
    return false;
}

static int take_option(void *data, int option)
{
    struct job *job = data;

    switch (option) {
    case 'o':
        job->output = optarg;
        break;
    case 'f':
        if (!parse_time(optarg, &job->window.from_ns))
            return wrong_use(&verb_report, "--from: %s is not a time", optarg);
        break;
    case 't':
        if (!parse_time(optarg, &job->window.to_ns))
            return wrong_use(&verb_report, "--to: %s is not a time", optarg);
        break;
    case 'c':
        job->compares = true;
        break;
    case 'l':
        job->plan_name = optarg;
        break;
    case 'p':
        job->shows_progress = true;
        break;
    }
    return 0;
}

static int check_job(const struct job *job)
{
    if (job->count == 0)
        return wrong_use(&verb_report, "a log is required");
    if (job->count > LOGS_MAX)
        return wrong_use(&verb_report, "%zu logs; at most %d", job->count, LOGS_MAX);
    if (job->compares && job->count != 2)
        return wrong_use(&verb_report, "--compare requires two logs, not %zu",
                         job->count);
    if (job->plan_name && job->count != 1)
        return wrong_use(&verb_report, "--plan requires one log, not %zu", job->count);
    if (job->plan_name && strcmp(job->plan_name, "-") == 0 &&
        strcmp(job->logs[0], "-") == 0)
        return wrong_use(&verb_report, "the log and the plan cannot both be stdin");
    if (!job->output || !*job->output)
        return wrong_use(&verb_report, "-o FILE is required");
    if (job->window.from_ns >= job->window.to_ns)
        return wrong_use(&verb_report, "--from is not before --to");
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"from", required_argument, NULL, 'f'},
                                            {"to", required_argument, NULL, 't'},
                                            {"compare", no_argument, NULL, 'c'},
                                            {"plan", required_argument, NULL, 'l'},
                                            {"progress", no_argument, NULL, 'p'},
                                            HELP_OPTION,
                                            LAST_OPTION};
    struct job job = {.window = {0, UINT64_MAX}, .shows_progress = isatty(STDERR_FILENO)};
    int code = take_options(&verb_report, argc, argv, options, false, take_option, &job);

    if (code != GO_ON)
        return code;
    job.logs = argv + optind;
    job.count = (size_t)(argc - optind);
    code = check_job(&job);
    return code ? code : report(&job);
}

const struct verb verb_report = {
    "report", "makes an HTML page of logs",
    "report LOG... -o FILE [--from TIME] [--to TIME] [--compare] [--plan PLAN] "
    "[--progress]",
    "Reads logs as `tarn log` does and writes one HTML page: memory over time, what "
    "holds\n"
    "the memory at the peak, what is held until exit, and findings. The page needs no\n"
    "network and opens in any browser. Each log is one process.\n"
    "\n"
    "  -o, --output FILE  the page to write; - is stdout\n"
    "  --from TIME        start that long after the first row: 1.5 (seconds), 20ms, 3us\n"
    "  --to TIME          end that long after the first row\n"
    "  --compare          compare the second of two logs (after) with the first "
    "(before)\n"
    "  --plan PLAN        show a plan of `tarn plan` as a picture, and the run beside "
    "it\n"
    "  --progress         show the progress on stderr even if that is not a terminal\n",
    run};
