/* cmd_prune.c -- `tarn prune`: remove reference counts that cancel out from LLVM IR. */
#define _GNU_SOURCE
#include "cmd_prune.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
    struct prune_task task;
    const char *output; /* path; NULL: stdout */
    bool stats, check;
};

/* --- options ------------------------------------------------------------------------ */

enum {
    SHAPES = 1,
    COMPAT,
    CALLS_KEEP,
    LIMIT,
    RAISE_METADATA,
    EMIT,
    LLVM,
    OLD,
    STATS,
    EXPLAIN,
    CHECK,
    OUTPUT
};

/* A name for a bit; lists of names are separated by commas. */
struct flag_name {
    const char *name;
    unsigned bits;
};

static const struct flag_name shapes[] = {
    {"all", TARN_PRUNE_ALL},
    {"per_bb", TARN_PRUNE_PER_BLOCK},
    {"diamond", TARN_PRUNE_DIAMOND},
    {"fanout", TARN_PRUNE_FANOUT},
    {"fanout_raise", TARN_PRUNE_FANOUT_RAISE},
    {"carried", TARN_PRUNE_CARRIED},
    {NULL, 0},
};
static const struct flag_name raise_metadata[] = {
    {"store", TARN_PRUNE_RAISE_STORE}, {"ret", TARN_PRUNE_RAISE_RET}, {NULL, 0}};
static const struct flag_name forms[] = {
    {"ll", TARN_PRUNE_TEXT}, {"bc", TARN_PRUNE_BITCODE}, {NULL, 0}};

static unsigned bits_of(const struct flag_name *flag_names, const char *name,
                        size_t length)
{
    for (; flag_names->name; flag_names++)
        if (strlen(flag_names->name) == length &&
            memcmp(flag_names->name, name, length) == 0)
            return flag_names->bits;
    return 0;
}

/* The bits of a list of names; 0 where one of them is unknown. */
static unsigned read_flags(const struct flag_name *flag_names, const char *list)
{
    unsigned all = 0;

    for (;;) {
        size_t length = strcspn(list, ",");
        unsigned bits = bits_of(flag_names, list, length);
        if (bits == 0)
            return 0;
        all |= bits;
        if (list[length] == 0)
            return all;
        list += length + 1;
    }
}

static bool read_number(const char *text, size_t *out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || *end || number == 0 || number > SIZE_MAX)
        return false;
    *out = (size_t)number;
    return true;
}

static bool read_version(const char *text, unsigned *out)
{
    size_t number;

    if (!read_number(text, &number) || number > UINT_MAX)
        return false;
    *out = (unsigned)number;
    return true;
}

/* Select a mode that is not the default; the two exclude each other. */
static int select_mode(tarn_prune_options *options, tarn_prune_mode mode)
{
    if (options->mode != TARN_PRUNE_SOUND && options->mode != mode)
        return wrong_use(&verb_prune, "--assume-calls-keep excludes --compat");
    options->mode = mode;
    return 0;
}

/* Store an option of the pruner; return 0, or the exit code after a message. */
static int set_pruner(tarn_prune_options *options, int option, const char *value)
{
    bool good = true;
    const char *wanted = "";

    switch (option) {
    case SHAPES:
        good = (options->shapes = read_flags(shapes, value)) != 0;
        wanted =
            "--shapes: a list of per_bb, diamond, fanout, fanout_raise, carried or all";
        break;
    case COMPAT:
        if (strcmp(value, "llvmlite") == 0)
            return select_mode(options, TARN_PRUNE_LLVMLITE);
        good = false;
        wanted = "--compat: llvmlite";
        break;
    case CALLS_KEEP:
        return select_mode(options, TARN_PRUNE_ASSUME_CALLS_KEEP);
    case LIMIT:
        good = read_number(value, &options->subgraph_limit);
        wanted = "--limit: a number above 0";
        break;
    case RAISE_METADATA:
        good = (options->raise_metadata = read_flags(raise_metadata, value)) != 0;
        wanted = "--raise-metadata: a list of store, ret";
        break;
    case EMIT:
        options->format = (tarn_prune_format)bits_of(forms, value, strlen(value));
        good = options->format != 0;
        wanted = "--emit: ll or bc";
        break;
    }
    return good ? 0 : wrong_use(&verb_prune, "%s is required, not %s", wanted, value);
}

/* Store one option in the job; WRONG_USE where its value is invalid. */
static int take_option(void *data, int option)
{
    struct job *job = data;

    switch (option) {
    case LLVM:
        if (!read_version(optarg, &job->task.llvm))
            return wrong_use(&verb_prune, "--llvm: %s is not a version such as 14",
                             optarg);
        break;
    case OLD:
        job->task.old = true;
        break;
    case STATS:
        job->stats = true;
        break;
    case EXPLAIN:
        job->task.explain = true;
        break;
    case CHECK:
        job->check = true;
        break;
    case OUTPUT:
        job->output = optarg;
        break;
    default:
        return set_pruner(&job->task.options, option, optarg);
    }
    return 0;
}

/* Return GO_ON, or the exit code. */
static int read_line(struct job *job, int argc, char **argv)
{
    static const struct option options[] = {
        {"shapes", required_argument, NULL, SHAPES},
        {"compat", required_argument, NULL, COMPAT},
        {"assume-calls-keep", no_argument, NULL, CALLS_KEEP},
        {"limit", required_argument, NULL, LIMIT},
        {"raise-metadata", required_argument, NULL, RAISE_METADATA},
        {"emit", required_argument, NULL, EMIT},
        {"llvm", required_argument, NULL, LLVM},
        {"old", no_argument, NULL, OLD},
        {"stats", no_argument, NULL, STATS},
        {"explain", no_argument, NULL, EXPLAIN},
        {"check", no_argument, NULL, CHECK},
        {"output", required_argument, NULL, OUTPUT},
        HELP_OPTION,
        LAST_OPTION,
    };
    int code = take_options(&verb_prune, argc, argv, options, false, take_option, job);

    if (code != GO_ON)
        return code;
    if (argc - optind > 1)
        return wrong_use(&verb_prune, "more than one file");
    if (job->check && job->output)
        return wrong_use(&verb_prune, "--check writes no output and excludes --output");
    if (job->task.old && (job->task.explain || job->task.options.shapes ||
                          job->task.options.mode || job->task.options.format))
        return wrong_use(&verb_prune,
                         "--old excludes --shapes, --compat, --assume-calls-keep, "
                         "--emit and --explain");
    job->task.name = optind < argc ? argv[optind] : "-";
    return GO_ON;
}

/* --- files -------------------------------------------------------------------------- */

/* Read the whole file into the task. */
static bool read_all(struct prune_task *task, FILE *file)
{
    size_t capacity = 0;

    do {
        if (task->input_bytes == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 16;
            char *larger = realloc(task->input, capacity);
            if (!larger)
                return false;
            task->input = larger;
        }
        task->input_bytes +=
            fread(task->input + task->input_bytes, 1, capacity - task->input_bytes, file);
    } while (task->input_bytes == capacity);
    return !ferror(file);
}

static int read_input(struct prune_task *task)
{
    bool is_stdin = strcmp(task->name, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(task->name, "rb");
    bool good;

    if (is_stdin)
        task->name = "<stdin>";
    if (!file)
        return failed(&verb_prune, "cannot open %s: %s", task->name, strerror(errno));
    errno = 0;
    good = read_all(task, file);
    int code =
        good ? 0 : failed(&verb_prune, "cannot read %s: %s", task->name, strerror(errno));
    if (!is_stdin)
        fclose(file);
    return code;
}

static bool write_file(FILE *file, const struct prune_result *result)
{
    bool good =
        fwrite(result->output, 1, result->output_bytes, file) == result->output_bytes;

    return (fflush(file) == 0) && good;
}

static int cannot_write(const char *path)
{
    return failed(&verb_prune, "cannot write %s: %s", path, strerror(errno));
}

/* A file that is not regular, a pipe or a device, is written to directly. */
static int write_directly(const char *path, const struct prune_result *result)
{
    FILE *file = fopen(path, "wb");

    if (!file)
        return cannot_write(path);
    bool good = write_file(file, result);
    return fclose(file) == 0 && good ? 0 : cannot_write(path);
}

/* Write a file beside it first, so that a full disk or a signal leaves the old one whole.
 */
static int replace(const char *path, const struct prune_result *result)
{
    char *beside = NULL;
    struct stat facts;
    mode_t mode = umask(0);

    umask(mode);
    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return write_directly(path, result);
    if (asprintf(&beside, "%s.XXXXXX", path) < 0)
        return failed(&verb_prune, "no host memory for a file name");
    int number = mkstemp(beside);
    FILE *file = number < 0 ? NULL : fdopen(number, "wb");
    bool good = file && fchmod(number, 0666 & ~mode) == 0 && write_file(file, result);
    if (file)
        good = fclose(file) == 0 && good;
    good = good && rename(beside, path) == 0;
    int code = good ? 0 : cannot_write(path);
    if (!good && number >= 0)
        unlink(beside);
    free(beside);
    return code;
}

/* --- output ------------------------------------------------------------------------- */

static void print_stats(FILE *file, const struct job *job,
                        const struct prune_result *result)
{
    const tarn_prune_report *report = &result->report;

    print_text(file, job->task.name);
    if (job->task.old) {
        fprintf(file,
                ": %" PRIu64 " operations removed by the pass of Numba before 0.52\n",
                result->old_removed);
        return;
    }
    fprintf(file, ": %" PRIu64 " functions, %" PRIu64 " of them changed\n",
            report->functions, report->functions_changed);
    fprintf(file, "  increfs        %10" PRIu64 "\n", report->increfs);
    fprintf(file, "  decrefs        %10" PRIu64 "\n", report->decrefs);
    fprintf(file, "  removed        %10" PRIu64 "\n",
            report->per_block + report->diamond + report->fanout + report->fanout_raise +
                report->carried);
    fprintf(file, "    per_bb       %10" PRIu64 "\n", report->per_block);
    fprintf(file, "    diamond      %10" PRIu64 "\n", report->diamond);
    fprintf(file, "    fanout       %10" PRIu64 "\n", report->fanout);
    fprintf(file, "    fanout_raise %10" PRIu64 "\n", report->fanout_raise);
    fprintf(file, "    carried      %10" PRIu64 "\n", report->carried);
    fprintf(file, "  pairs kept     %10" PRIu64 "\n", report->kept);
    fprintf(file, "  searches ended %10" PRIu64 "\n", report->gave_up);
    fprintf(file, "  peak memory    %10s\n", bytes_text(report->peak_bytes).text);
}

static int deliver(const struct job *job, const struct prune_result *result)
{
    FILE *file = job->output || job->check ? stdout : stderr;

    if (!job->check && job->output) {
        int code = replace(job->output, result);
        if (code != 0)
            return code;
    } else if (!job->check && !write_file(stdout, result)) {
        return cannot_write("the output");
    }
    fwrite(result->reasons, 1, result->reasons_bytes, file);
    if (job->stats)
        print_stats(file, job, result);
    return 0;
}

static int run(int argc, char **argv)
{
    struct job job = {.check = false};
    struct prune_result result;
    int code = read_line(&job, argc, argv);

    if (code != GO_ON)
        return code;
    code = read_input(&job.task);
    if (code == 0)
        code = prune_in_child(&job.task, &result);
    if (code == 0) {
        code = deliver(&job, &result);
        prune_result_free(&result);
    }
    free(job.task.input);
    return code;
}

const struct verb verb_prune = {
    "prune", "removes redundant reference counts from LLVM IR", "prune [OPTIONS] [FILE]",
    "Reads LLVM IR, text or bitcode, from FILE or stdin, removes redundant pairs of\n"
    "NRT_incref and NRT_decref, and writes the result in the same format. For invalid IR "
    "it\n"
    "writes no output: it reports the error in one line and exits with code 1.\n"
    "\n"
    "      --output=FILE   write to FILE instead of stdout\n"
    "      --emit=ll|bc    write text or bitcode, whatever the input is\n"
    "      --check         write no output: read, verify, prune, verify\n"
    "      --stats         print the numbers of removed operations; on stderr if the IR\n"
    "                      goes to stdout\n"
    "      --explain       print for each incref that stays beside a decref of its "
    "value\n"
    "                      the rule that keeps it, and the place\n"
    "      --compat=llvmlite  produce the IR and the numbers of llvmlite's pass; "
    "without\n"
    "                      this option no object is freed early, as that pass may do\n"
    "      --assume-calls-keep  assume that no call releases a reference of another "
    "owner,\n"
    "                      so that a call keeps no pair; excludes --compat\n"
    "      --shapes=LIST   of per_bb, diamond, fanout, fanout_raise, carried; or all\n"
    "      --limit=N       with --compat: maximum of visits in one fan-out search; 1000\n"
    "      --raise-metadata=LIST  by which metadata a block raises: store (a store to\n"
    "                      excinfo with !numba_exception_output), ret (!ret_is_raise);\n"
    "                      with --compat, ret alone is llvmlite's pass before 0.40\n"
    "      --llvm=N        read and write the IR of LLVM N, if Tarn was built with it;\n"
    "                      14 is the LLVM of Debian's Numba\n"
    "      --old           run the text pass of Numba before 0.52 instead\n",
    run};
