/* processes.c -- tests with several processes: children that execute commands. */
#define _GNU_SOURCE
#include "processes.h"
#include "child.h"
#include "test.h"
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t tester; /* the process that runs the tests */

static void report_failure(const char *what)
{
    if (getpid() == tester)
        fail_msg("%s", what);
    child_fail("%s", what);
}

/* A child keeps no connection of another one: the test would not notice its end. */
static struct {
    int lines[16];
    int count;
} open_lines;

static void close_lines(void)
{
    for (int i = 0; i < open_lines.count; i++)
        close(open_lines.lines[i]);
}

static void forget_line(int line)
{
    int i = 0;

    while (open_lines.lines[i] != line)
        i++;
    open_lines.lines[i] = open_lines.lines[--open_lines.count];
    close(line);
}

struct process process_start(void (*function)(int line))
{
    int ends[2];

    tester = getpid();
    fflush(NULL); /* otherwise buffered output is written twice */
    CHECK(open_lines.count < 16);
    CHECK_EQUAL(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        child_ends_at_faults();
        close_lines();
        close(ends[0]);
        function(ends[1]);
        exit(0); /* not _exit(): Tarn's exit handlers are part of the test */
    }
    close(ends[1]);
    open_lines.lines[open_lines.count++] = ends[0];
    return (struct process){pid, ends[0]};
}

static int wait_for(struct process *process)
{
    int status = 0;

    CHECK_EQUAL(process->pid, waitpid(process->pid, &status, 0));
    return status;
}

void process_end(struct process *process)
{
    forget_line(process->line);
    int status = wait_for(process);
    if (status != 0)
        fail_msg("a child ended with status 0x%x", (unsigned)status);
}

void process_kill(struct process *process)
{
    kill(process->pid, SIGKILL);
    int status = wait_for(process);
    forget_line(process->line);
    if (!WIFSIGNALED(status))
        fail_msg("a child ended with status 0x%x before it was killed", (unsigned)status);
}

void process_reaped(struct process *process)
{
    forget_line(process->line);
}

bool send_message(int line, const void *data, size_t bytes)
{
    const char *from = data;

    while (bytes > 0) {
        ssize_t sent = send(line, from, bytes, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        from += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

bool receive_message(int line, void *data, size_t bytes)
{
    return recv(line, data, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

void must_send(int line, const void *data, size_t bytes)
{
    if (!send_message(line, data, bytes))
        report_failure("the other process is gone");
}

void must_receive(int line, void *data, size_t bytes)
{
    if (!receive_message(line, data, bytes))
        report_failure("the other process is gone");
}

int open_files(void)
{
    DIR *list = opendir("/proc/self/fd");
    int count = -1; /* the list's own */

    while (list && readdir(list))
        count++;
    if (list)
        closedir(list);
    return count - 2; /* . and .. */
}
