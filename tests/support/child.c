/* child.c -- run a test in a process of its own. */
#define _GNU_SOURCE
#include "child.h"
#include "test.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void child_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _exit(1);
}

void child_ends_at_faults(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};

    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        signal(faults[i], SIG_DFL);
}

void in_child(void (*function)(void))
{
    int status = 0;
    pid_t child;

    fflush(NULL); /* otherwise buffered output is written twice */
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        child_ends_at_faults();
        function();
        _exit(0);
    }
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    if (status != 0)
        fail_msg("the child ended with status 0x%x", (unsigned)status);
}
