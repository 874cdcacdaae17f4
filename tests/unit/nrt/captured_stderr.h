/* captured_stderr.h -- run a child process, and return its end and its output on stderr. */
#ifndef TARN_TESTS_CAPTURED_STDERR_H
#define TARN_TESTS_CAPTURED_STDERR_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char captured_stderr[16384];

/* Run `function` in a child, and let it call exit() (or _exit(), if `hard`). Return its
 * exit code, or minus the signal that ended it; `captured_stderr` is its stderr. */
static int child_status(void (*function)(void), int hard)
{
    FILE *file = tmpfile();
    int status = 0;

    if (!file)
        abort();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(fileno(file), 2);
        function();
        if (hard)
            _exit(0);
        exit(0);
    }
    waitpid(child, &status, 0);
    fseek(file, 0, SEEK_SET);
    size_t count = fread(captured_stderr, 1, sizeof captured_stderr - 1, file);
    fclose(file);
    captured_stderr[count] = 0;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
