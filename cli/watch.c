/* watch.c -- says that a program left its log empty.
 *
 * `tarn run` replaces itself by the program, so that signals and the exit code are the
 * program's own. A process beside it looks at the log at the end. It is no child of the
 * program, which may wait for its children.
 */
#define _GNU_SOURCE
#include "watch.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Return true if a file has bytes that were written at `since` or later. */
static bool has_bytes(int folder, const char *name, time_t since)
{
    struct stat facts;

    return folder >= 0 && fstatat(folder, name, &facts, 0) == 0 &&
           S_ISREG(facts.st_mode) && facts.st_size > 0 && facts.st_mtime >= since;
}

/* Return true if `name` is that of the log `log`, or of the log of a child process. */
static bool is_log(const char *name, const char *log)
{
    size_t count = strlen(log);

    if (strncmp(name, log, count) != 0)
        return false;
    return name[count] == 0 ||
           (name[count] == '.' && strspn(name + count + 1, "0123456789") > 0);
}

/* Return true if no log has a byte. If this cannot be found out, return false. */
static bool is_empty(const char *log, time_t since)
{
    const char *name = strrchr(log, '/') + 1;
    char path[PATH_MAX];
    struct stat facts;
    bool found = false;

    if (stat(log, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size > 0)
        return false;
    snprintf(path, sizeof path, "%.*s", (int)(name - log), log);
    DIR *folder = opendir(path);
    if (!folder)
        return false;
    for (const struct dirent *entry; !found && (entry = readdir(folder));)
        found =
            is_log(entry->d_name, name) && has_bytes(dirfd(folder), entry->d_name, since);
    closedir(folder);
    return !found;
}

/* Wait for the end of a process, and look at its log. `started` has a byte if the program
 * could not be started. */
static void watch(const struct verb *verb, int process, int started, const char *log,
                  const char *program)
{
    struct pollfd end = {.fd = process, .events = POLLIN};
    time_t since = time(NULL);
    char byte;

    setsid(); /* the signals of the terminal are the program's */
    close(STDIN_FILENO);
    close(STDOUT_FILENO); /* its reader waits for the program alone */
    if (read(started, &byte, 1) != 0)
        return;
    while (poll(&end, 1, -1) != 1)
        ;
    if (is_empty(log, since))
        failed(verb,
               "the log %s is empty: %s made no allocation through Tarn, or did not load "
               "it",
               log, program);
}

/* Start the process, which is no child of this one. */
static bool start(const struct verb *verb, const int ends[2], const char *log,
                  const char *program)
{
    int process = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (process < 0) /* before Linux 5.3 */
        return false;
    pid_t first = fork();
    if (first == 0) {
        close(ends[1]);
        if (fork() == 0)
            watch(verb, process, ends[0], log, program);
        _exit(0);
    }
    close(process);
    return first > 0 && waitpid(first, NULL, 0) == first;
}

int watch_log(const struct verb *verb, const char *log, const char *program)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    bool runs = start(verb, ends, log, program);
    close(ends[0]);
    if (runs)
        return ends[1];
    close(ends[1]);
    return -1;
}
