/* cmd_run.c -- `tarn run`: run an unchanged Numba program with its memory under Tarn.
 *
 * The tool sets the environment and replaces itself by the program, so that signals, the
 * terminal and the exit code are the program's own. Numba and cuda.bindings look for the
 * driver by name; for the driver simulator, its folder has to come first.
 */
#define _GNU_SOURCE
#include "tool.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char manager[] = "tarn.numba";

struct job {
    const char *driver;   /* NULL: as the environment specifies */
    const char *log;      /* NULL: none */
    const char *resource; /* NULL: as the environment specifies */
    char **program;       /* and its arguments */
};

/* Paths are joined here; false: too long, errno tells so. */
static bool join(char path[PATH_MAX], const char *format, ...) TARN_PRINTF(2, 3);

static bool join(char path[PATH_MAX], const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(path, PATH_MAX, format, arguments);
    va_end(arguments);
    errno = ENAMETOOLONG;
    return length >= 0 && length < PATH_MAX;
}

/* Make `path` absolute without resolving links: a driver's name identifies it. */
static bool make_absolute(const char *path, char absolute[PATH_MAX])
{
    char directory[PATH_MAX];

    if (path[0] == '/')
        return join(absolute, "%s", path);
    return getcwd(directory, sizeof directory) &&
           join(absolute, "%s/%s", directory, path);
}

static bool is_file(const char *path)
{
    struct stat facts;

    if (stat(path, &facts) != 0)
        return false;
    errno = S_ISDIR(facts.st_mode) ? EISDIR : EINVAL;
    return S_ISREG(facts.st_mode);
}

static int set(const char *name, const char *value)
{
    if (setenv(name, value, 1) == 0)
        return 0;
    return failed(&verb_run, "cannot set %s: %s", name, strerror(errno));
}

/* Put the folder of a driver before those that the loader searches. */
static int search_first(const char *driver)
{
    const char *before = getenv("LD_LIBRARY_PATH");
    const char *slash = strrchr(driver, '/');
    char *value;

    if (asprintf(&value, "%.*s%s%s", (int)(slash - driver), driver,
                 before && *before ? ":" : "", before ? before : "") < 0)
        return failed(&verb_run, "no host memory for LD_LIBRARY_PATH");
    int code = set("LD_LIBRARY_PATH", value);
    free(value);
    return code;
}

/* Set TARN_DRIVER, and the loader's path where the driver is not the system's own. */
static int set_driver(const struct job *job)
{
    const char *requested = job->driver ? job->driver : getenv("TARN_DRIVER");
    bool is_simulator = requested && strcmp(requested, "sim") == 0;
    char path[PATH_MAX];

    if (!requested || !*requested)
        return 0;
    if (!job->driver && !is_simulator && !strchr(requested, '/'))
        return 0; /* a name for the loader to find; Tarn reports it if it cannot */
    if (!(is_simulator ? beside_libtarn("tarn/sim/libcuda.so.1", path)
                       : make_absolute(requested, path)) ||
        !is_file(path))
        return failed(&verb_run, "cannot find the driver %s: %s",
                      is_simulator ? path : requested, strerror(errno));
    int code = set("TARN_DRIVER", is_simulator ? "sim" : path);
    if (code == 0 && strcmp(strrchr(path, '/'), "/libcuda.so.1") == 0)
        code = search_first(path);
    return code;
}

/* Set TARN_LOG and its process. An old log is emptied, so that it cannot be taken for the
 * new one. */
static int set_log(const struct job *job)
{
    char path[PATH_MAX], process[32];

    if (!job->log)
        return 0;
    if (!make_absolute(job->log, path))
        return failed(&verb_run, "cannot write the log %s: %s", job->log,
                      strerror(errno));
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    if (file < 0)
        return failed(&verb_run, "cannot write the log %s: %s", job->log,
                      strerror(errno));
    close(file);
    snprintf(process, sizeof process, "%ld", (long)getpid());
    int code = set("TARN_LOG", path);
    return code ? code : set("TARN_LOG_PID", process);
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

static bool is_python_file(const char *program)
{
    size_t count = strlen(program);

    return count > 3 && strcmp(program + count - 3, ".py") == 0;
}

/* Check this before the old log is emptied: a program given by its path has to exist. */
static int check_program(const char *program)
{
    bool is_python = is_python_file(program);

    if (!is_python && !strchr(program, '/'))
        return 0; /* on the PATH, or exec reports that it is not */
    if (!is_file(program))
        return failed(&verb_run, "cannot find the program %s: %s", program,
                      strerror(errno));
    if (!is_python && access(program, X_OK) != 0)
        return failed(&verb_run, "cannot run %s: %s", program, strerror(errno));
    return 0;
}

static int set_environment(const struct job *job)
{
    int code = check_program(job->program[0]);

    if (code == 0)
        code = check_numba();
    if (code == 0)
        code = set_driver(job);
    if (code == 0 && job->resource)
        code = set("TARN_RESOURCE", job->resource);
    if (code == 0)
        code = set("NUMBA_CUDA_MEMORY_MANAGER", manager);
    if (code == 0)
        code = set_log(job);
    return code;
}

/* Find the Python beside the tool, which has Tarn installed; else return false. */
static bool own_python(char path[PATH_MAX])
{
    static const char *const names[] = {"python3", "python"};
    char tool[PATH_MAX];
    ssize_t count = readlink("/proc/self/exe", tool, sizeof tool - 1);

    if (count < 0)
        return false;
    tool[count] = 0;
    *strrchr(tool, '/') = 0;
    for (int i = 0; i < 2; i++)
        if (join(path, "%s/%s", tool, names[i]) && access(path, X_OK) == 0)
            return true;
    return false;
}

/* Run `python -m tarn._run program args`, which reports at the end if no memory came
 * through Tarn. Returns only if that fails. */
static int exec_python(char **program)
{
    static char default_python[] = "python3", as_module[] = "-m", runner[] = "tarn._run";
    char path[PATH_MAX];
    size_t count = 0;

    while (program[count])
        count++;
    char **line = calloc(count + 4, sizeof *line);
    if (!line)
        return failed(&verb_run, "no host memory for %zu arguments", count);
    line[0] = own_python(path) ? path : default_python;
    line[1] = as_module;
    line[2] = runner;
    memcpy(line + 3, program, count * sizeof *line);
    execvp(line[0], line);
    int code = failed(&verb_run, "cannot run %s: %s", line[0], strerror(errno));
    free(line);
    return code;
}

static int exec_program(char **program)
{
    if (is_python_file(program[0]))
        return exec_python(program);
    execvp(program[0], program);
    if (errno == ENOENT)
        return failed(&verb_run, "cannot find the program %s", program[0]);
    return failed(&verb_run, "cannot run %s: %s", program[0], strerror(errno));
}

/* Take one option; WRONG_USE where its value is invalid. */
static int take_option(struct job *job, int option)
{
    const struct resource_kind *kind;

    switch (option) {
    case 'd':
        job->driver = optarg;
        break;
    case 'l':
        job->log = optarg;
        break;
    case 'r':
        kind = resource_kind_of(optarg);
        if (!kind || !kind->on_device)
            return wrong_use(&verb_run,
                             "unknown resource %s for device arrays; the resources are "
                             "cuda, async, managed, pinned, pool, slab, binning",
                             optarg);
        job->resource = optarg;
        break;
    }
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"driver", required_argument, NULL, 'd'},
                                            {"log", required_argument, NULL, 'l'},
                                            {"resource", required_argument, NULL, 'r'},
                                            HELP_OPTION,
                                            LAST_OPTION};
    struct job job = {.driver = NULL};
    int option, code;

    while ((option = next_option(&verb_run, argc, argv, options, true, &code)) !=
           OPTIONS_END) {
        if (option == OPTIONS_STOP || (code = take_option(&job, option)) != 0)
            return code;
    }
    if (optind == argc)
        return wrong_use(&verb_run, "a program is required");
    job.program = argv + optind;
    code = set_environment(&job);
    return code ? code : exec_program(job.program);
}

const struct verb verb_run = {
    "run", "runs a Numba program with Tarn as its memory manager",
    "run [--driver sim|PATH] [--log FILE] [--resource NAME] PROGRAM [ARGS...]",
    "Runs PROGRAM, unchanged, with Tarn as Numba's memory manager. A file *.py runs "
    "with\n"
    "the Python of Tarn's installation.\n"
    "\n"
    "  --driver WHICH   path of the driver library, or sim for the driver simulator\n"
    "  --log FILE       write a log; child processes of PROGRAM write FILE.PID\n"
    "  --resource NAME  the resource of device arrays: cuda, async, managed, pinned, "
    "pool,\n"
    "                   slab (arrays of up to 1 MiB) or binning\n",
    run};
