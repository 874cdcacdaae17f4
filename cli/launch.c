/* launch.c -- the environment of a program, and its start in place of the tool.
 *
 * Numba, cuda.bindings and others look for the driver by name. For the driver simulator,
 * its folder has to come first among those of the loader.
 */
#define _GNU_SOURCE
#include "launch.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

bool launch_absolute(const char *path, char absolute[PATH_MAX])
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

int launch_set(const struct verb *verb, const char *name, const char *value)
{
    if (setenv(name, value, 1) == 0)
        return 0;
    return failed(verb, "cannot set %s: %s", name, strerror(errno));
}

/* --- the driver --- */

/* Put the folder of a driver before those that the loader searches. */
static int search_first(const struct verb *verb, const char *driver)
{
    const char *before = getenv("LD_LIBRARY_PATH");
    const char *slash = strrchr(driver, '/');
    char *value;

    if (asprintf(&value, "%.*s%s%s", (int)(slash - driver), driver,
                 before && *before ? ":" : "", before ? before : "") < 0)
        return failed(verb, "no host memory for LD_LIBRARY_PATH");
    int code = launch_set(verb, "LD_LIBRARY_PATH", value);
    free(value);
    return code;
}

int launch_driver(const struct verb *verb, const char *driver)
{
    const char *requested = driver ? driver : getenv("TARN_DRIVER");
    bool is_simulator = requested && strcmp(requested, "sim") == 0;
    char path[PATH_MAX];

    if (!requested || !*requested)
        return 0;
    if (!driver && !is_simulator && !strchr(requested, '/'))
        return 0; /* a name for the loader to find; Tarn reports it if it cannot */
    if (!(is_simulator ? beside_libtarn("tarn/sim/libcuda.so.1", path)
                       : launch_absolute(requested, path)) ||
        !is_file(path))
        return failed(verb, "cannot find the driver %s: %s",
                      is_simulator ? path : requested, strerror(errno));
    int code = launch_set(verb, "TARN_DRIVER", is_simulator ? "sim" : path);
    if (code == 0 && strcmp(strrchr(path, '/'), "/libcuda.so.1") == 0)
        code = search_first(verb, path);
    if (code == 0 && getenv("NUMBA_CUDA_DRIVER")) /* the path that Numba loads instead */
        code = launch_set(verb, "NUMBA_CUDA_DRIVER", path);
    return code;
}

/* --- the program --- */

static bool is_python_file(const char *program)
{
    size_t count = strlen(program);

    return count > 3 && strcmp(program + count - 3, ".py") == 0;
}

/* The words are arguments of Python: `-m MODULE`, `-c CODE` or a file. */
static bool is_for_python(char **program)
{
    return is_python_option(program[0]) || is_python_file(program[0]);
}

int launch_check(const struct verb *verb, char **program)
{
    bool is_python = is_python_file(program[0]);

    if (is_python_option(program[0]))
        return program[1] ? 0 : wrong_use(verb, "%s requires a value", program[0]);
    if (!is_python && !strchr(program[0], '/'))
        return 0; /* on the PATH, or exec reports that it is not */
    if (!is_file(program[0]))
        return failed(verb, "cannot find the program %s: %s", program[0],
                      strerror(errno));
    if (!is_python && access(program[0], X_OK) != 0)
        return failed(verb, "cannot run %s: %s", program[0], strerror(errno));
    return 0;
}

/* Find a program in the folder of the tool. false: there is none. */
static bool find_beside_tool(const char *name, char path[PATH_MAX])
{
    char tool[PATH_MAX];
    ssize_t count = readlink("/proc/self/exe", tool, sizeof tool - 1);

    if (count < 0)
        return false;
    tool[count] = 0;
    *strrchr(tool, '/') = 0;
    return join(path, "%s/%s", tool, name) && is_file(path) && access(path, X_OK) == 0;
}

/* Find the Python beside the tool, which has Tarn installed. */
static bool own_python(char path[PATH_MAX])
{
    return find_beside_tool("python3", path) || find_beside_tool("python", path);
}

/* Return true if a file is a script for Python. */
static bool is_python_script(const char *path)
{
    char line[256];
    FILE *file = fopen(path, "re");
    bool is_script = file && fgets(line, sizeof line, file) &&
                     strncmp(line, "#!", 2) == 0 && strstr(line, "python");

    if (file)
        fclose(file);
    return is_script;
}

bool launch_is_python(char **program)
{
    const char *slash = strrchr(program[0], '/');
    const char *name = slash ? slash + 1 : program[0];
    char path[PATH_MAX];

    if (is_for_python(program) || strncmp(name, "python", 6) == 0)
        return true;
    if (slash)
        return is_python_script(program[0]);
    if (find_beside_tool(name, path))
        return is_python_script(path);
    const char *folders = getenv("PATH");
    for (size_t count; folders && *folders; folders += count + (folders[count] == ':')) {
        count = strcspn(folders, ":");
        if (join(path, "%.*s/%s", (int)count, folders, name) && is_file(path) &&
            access(path, X_OK) == 0)
            return is_python_script(path);
    }
    return false;
}

/* Run Python with the words as its arguments. */
static int exec_python(const struct verb *verb, char **program)
{
    static char default_python[] = "python3";
    char path[PATH_MAX];
    size_t count = 0;

    while (program[count])
        count++;
    char **line = calloc(count + 2, sizeof *line);
    if (!line)
        return failed(verb, "no host memory for %zu arguments", count);
    line[0] = own_python(path) ? path : default_python;
    memcpy(line + 1, program, count * sizeof *line);
    execvp(line[0], line);
    int code = failed(verb, "cannot run %s: %s", line[0], strerror(errno));
    free(line);
    return code;
}

/* A command by its name is first looked for beside the tool: the scripts there, such as
 * pytest, run with the Python that has Tarn, also where the environment is not active. */
int launch_exec(const struct verb *verb, char **program)
{
    char path[PATH_MAX], python[PATH_MAX];

    if (is_for_python(program))
        return exec_python(verb, program);
    if (!strchr(program[0], '/') && own_python(python) &&
        find_beside_tool(program[0], path))
        program[0] = path; /* Python finds its environment by it */
    execvp(program[0], program);
    if (errno == ENOENT)
        return failed(verb, "cannot find the program %s", program[0]);
    return failed(verb, "cannot run %s: %s", program[0], strerror(errno));
}
