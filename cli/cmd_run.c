/* cmd_run.c -- `tarn run`: run an unchanged program with its GPU memory under Tarn.
 *
 * The tool sets the environment and replaces itself by the program (launch.h). The
 * children of the program inherit it. Numba reads NUMBA_CUDA_MEMORY_MANAGER itself. For
 * the other frameworks each Python that starts has a hook (python/tarn.pth), which calls
 * tarn.use() where TARN_USE names frameworks.
 */
#define _GNU_SOURCE
#include "launch.h"
#include "watch.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char manager[] = "tarn.numba";

/* Those of tarn.use(); python/tests compares the lists. */
static const char *const frameworks[] = {
    "numba", "numba_cuda_mlir", "cupy", "torch", "cuda.core", "warp", NULL};

struct job {
    const char *driver;   /* NULL: as the environment specifies */
    const char *log;      /* NULL: none */
    const char *format;   /* NULL: by the suffix of the log; so below */
    const char *stacks;   /* NULL: as the environment specifies; so below */
    const char *ring;     /* NULL: the log is complete */
    const char *resource; /* NULL: as the environment specifies */
    const char *use;      /* names of frameworks, or "all" */
    char **program;       /* and its arguments */
};

/* --- the log --- */

/* Set TARN_LOG and its process. An old log is emptied, so that it cannot be taken for the
 * new one. */
static int set_log(const struct job *job)
{
    char path[PATH_MAX], process[32];

    if (!job->log)
        return 0;
    if (!launch_absolute(job->log, path))
        return failed(&verb_run, "cannot write the log %s: %s", job->log,
                      strerror(errno));
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    if (file < 0)
        return failed(&verb_run, "cannot write the log %s: %s", job->log,
                      strerror(errno));
    close(file);
    snprintf(process, sizeof process, "%ld", (long)getpid());
    const char *const variables[][2] = {{"TARN_LOG", path},
                                        {"TARN_LOG_PID", process},
                                        {"TARN_LOG_FORMAT", job->format},
                                        {"TARN_LOG_STACKS", job->stacks},
                                        {"TARN_LOG_RING", job->ring}};
    int code = 0;
    for (size_t i = 0; code == 0 && i < sizeof variables / sizeof *variables; i++)
        if (variables[i][1])
            code = launch_set(&verb_run, variables[i][0], variables[i][1]);
    return code;
}

/* Return true if `text` is a whole number from `least` to `most`. */
static bool is_number(const char *text, unsigned long least, unsigned long most)
{
    char *end;

    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    return errno == 0 && end != text && *end == 0 && text[0] != '-' && number >= least &&
           number <= most;
}

/* The format of the log, as the program chooses it (python/tarn/_log.py). */
static bool is_binary(const struct job *job)
{
    size_t count = job->log ? strlen(job->log) : 0;

    if (job->format)
        return strcmp(job->format, "binary") == 0;
    return count < 4 || strcmp(job->log + count - 4, ".csv") != 0;
}

/* Check the options of the log that were given together. */
static int check_log(const struct job *job)
{
    const char *option = job->format   ? "--format"
                         : job->stacks ? "--stacks"
                         : job->ring   ? "--ring"
                                       : NULL;

    if (option && !job->log)
        return wrong_use(&verb_run, "%s requires --log FILE", option);
    bool has_stacks = job->stacks && strcmp(job->stacks, "1") != 0;
    if (!is_binary(job) && (has_stacks || job->ring))
        return wrong_use(&verb_run,
                         "%s requires a binary log: --format binary, or a FILE without "
                         "the suffix .csv",
                         has_stacks ? "--stacks" : "--ring");
    return 0;
}

/* --- frameworks --- */

/* Return true if `name` of `count` characters is a framework. */
static bool is_framework(const char *name, size_t count)
{
    for (int i = 0; frameworks[i]; i++)
        if (strlen(frameworks[i]) == count && strncmp(frameworks[i], name, count) == 0)
            return true;
    return false;
}

/* Return true if the list has the framework. "all" has each. */
static bool uses(const char *list, const char *name)
{
    if (strcmp(list, "all") == 0)
        return true;
    for (size_t count; *list; list += count + (list[count] == ',')) {
        count = strcspn(list, ",");
        if (strlen(name) == count && strncmp(list, name, count) == 0)
            return true;
    }
    return false;
}

static bool uses_numba(const struct job *job)
{
    return uses(job->use, "numba") || uses(job->use, "numba_cuda_mlir");
}

static int check_frameworks(const char *list)
{
    if (strcmp(list, "all") == 0)
        return 0;
    if (!*list)
        return wrong_use(&verb_run, "--use requires the names of frameworks, or all");
    for (size_t count; *list; list += count + (list[count] == ',')) {
        count = strcspn(list, ",");
        if (!is_framework(list, count))
            return wrong_use(&verb_run,
                             "unknown framework %.*s; the frameworks are numba, "
                             "numba_cuda_mlir, cupy, torch, cuda.core, warp, or all",
                             (int)count, list);
    }
    return 0;
}

/* Numba's own simulator makes no driver call: none of the program's memory would be
 * Tarn's. */
static int check_numba(void)
{
    const char *simulator = getenv("NUMBA_ENABLE_CUDASIM");
    const char *other = getenv("NUMBA_CUDA_MEMORY_MANAGER");

    if (simulator && *simulator && strcmp(simulator, "0") != 0)
        return failed(&verb_run,
                      "NUMBA_ENABLE_CUDASIM=%s: Numba's simulator uses no driver, so "
                      "Tarn would manage no memory; unset it",
                      simulator);
    bool is_ours = other && (strcmp(other, manager) == 0 || strcmp(other, "tarn") == 0);
    if (other && *other && strcmp(other, "default") != 0 && !is_ours)
        failed(&verb_run, "NUMBA_CUDA_MEMORY_MANAGER=%s is replaced by %s", other,
               manager);
    return 0;
}

/* Set what each Python reads when it starts. The process of the program reports at its end
 * if Tarn allocated no memory. */
static int set_frameworks(const struct job *job)
{
    char process[32];

    snprintf(process, sizeof process, "%ld", (long)getpid());
    int code = launch_set(&verb_run, "TARN_USE", job->use);
    if (code == 0)
        code = launch_set(&verb_run, "TARN_RUN_PID", process);
    if (code == 0 && uses_numba(job))
        code = launch_set(&verb_run, "NUMBA_CUDA_MEMORY_MANAGER", manager);
    return code;
}

static int set_environment(const struct job *job)
{
    int code = launch_check(&verb_run, job->program);

    if (code == 0 && uses_numba(job))
        code = check_numba();
    if (code == 0)
        code = launch_driver(&verb_run, job->driver);
    if (code == 0 && job->resource)
        code = launch_set(&verb_run, "TARN_RESOURCE", job->resource);
    if (code == 0)
        code = set_frameworks(job);
    if (code == 0)
        code = set_log(job);
    return code;
}

/* --- options --- */

/* The package checks the options behind the name. */
static int take_resource(struct job *job)
{
    static const char *const names[] = {
        "cuda",      "async", "managed", "pinned",     "pool",
        "cuda-pool", "slab",  "binning", "exportable", "async-exportable"};
    const size_t length = strcspn(optarg, ":");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == length && strncmp(names[i], optarg, length) == 0) {
            job->resource = optarg;
            return 0;
        }
    }
    return wrong_use(
        &verb_run,
        "unknown resource %s; the resources are cuda, async, managed, pinned, "
        "pool, cuda-pool, slab, binning, exportable, async-exportable",
        optarg);
}

/* Take one option; WRONG_USE where its value is invalid. */
static int take_option(void *data, int option)
{
    struct job *job = data;

    switch (option) {
    case 'd':
        job->driver = optarg;
        return 0;
    case 'l':
        job->log = optarg;
        return 0;
    case 'f':
        job->format = optarg;
        if (strcmp(optarg, "csv") != 0 && strcmp(optarg, "binary") != 0)
            return wrong_use(&verb_run, "unknown format %s; the formats are csv, binary",
                             optarg);
        return 0;
    case 's':
        job->stacks = optarg;
        if (!is_number(optarg, 1, TARN_STACK_DEPTH_MAX))
            return wrong_use(&verb_run, "--stacks %s is not a number from 1 to %d",
                             optarg, TARN_STACK_DEPTH_MAX);
        return 0;
    case 'g':
        job->ring = optarg;
        return 0;
    case 'u':
        job->use = optarg;
        return check_frameworks(optarg);
    default:
        return take_resource(job);
    }
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"driver", required_argument, NULL, 'd'},
                                            {"log", required_argument, NULL, 'l'},
                                            {"format", required_argument, NULL, 'f'},
                                            {"stacks", required_argument, NULL, 's'},
                                            {"ring", required_argument, NULL, 'g'},
                                            {"use", required_argument, NULL, 'u'},
                                            {"resource", required_argument, NULL, 'r'},
                                            HELP_OPTION,
                                            LAST_OPTION};
    struct job job = {.use = "all"};
    int code = take_options(&verb_run, argc, argv, options, true, take_option, &job);

    if (code != GO_ON)
        return code;
    if (optind == argc)
        return wrong_use(&verb_run, "a program is required");
    code = check_log(&job);
    if (code != 0)
        return code;
    job.program = argv + optind;
    code = set_environment(&job);
    if (code != 0)
        return code;
    int watch = -1;
    if (job.log && !launch_is_python(job.program)) /* a Python says it itself */
        watch = watch_log(&verb_run, getenv("TARN_LOG"), job.program[0]);
    code = launch_exec(&verb_run, job.program);
    if (watch >= 0 && write(watch, "", 1) < 0)
        close(watch);
    return code;
}

const struct verb verb_run = {
    "run", "runs a program with its GPU memory under Tarn",
    "run [--use NAMES] [--resource NAME] [--log FILE [--stacks N]] PROGRAM [ARGS...]",
    "Runs PROGRAM unchanged. Numba, CuPy, PyTorch, cuda.core and Warp allocate from\n"
    "Tarn, in PROGRAM and in each Python that it starts.\n"
    "\n"
    "PROGRAM is a file *.py, -m MODULE or -c CODE for the Python of Tarn's\n"
    "installation, or any command, such as pytest.\n"
    "\n"
    "  --use NAMES      frameworks that allocate from Tarn, with commas between them:\n"
    "                   numba, numba_cuda_mlir, cupy, torch, cuda.core, warp; default: "
    "all.\n"
    "                   A named one that cannot is an error; with all, it is a warning\n"
    "  --resource NAME  the resource: cuda, async, managed, pinned, pool, cuda-pool (a "
    "pool\n"
    "                   over cuMemAlloc), slab (blocks of up to 1 MiB), binning, "
    "exportable\n"
    "                   or async-exportable. Options of a pool follow a colon:\n"
    "                   pool:policy=tight,maximum_pool_size=8GiB\n"
    "  --log FILE       write a log; child processes of PROGRAM write FILE.PID\n"
    "  --format NAME    csv or binary; default: csv for FILE.csv, else binary\n"
    "  --stacks N       most frames of the call stack of a row, 1 to 128; default: 1.\n"
    "                   It requires a binary log\n"
    "  --ring SIZE      write a binary log of SIZE, such as 64MiB, with the newest rows\n"
    "  --driver WHICH   path of the driver library, or sim for the driver simulator\n",
    run};
