/* processes.h -- run another process for a test: this program again, in a role.
 *
 *     static int reader(int peer) { ... }            the other process
 *     ROLES({"reader", reader})                      its return value is its exit status
 *
 *     struct process other = start("reader");        in a test
 *     send_file(other.peer, file);
 *     CHECK_EQUAL(0, end(other));
 *
 * `peer` is a socket between the two; descriptors go over it as they do between any two
 * processes.
 */
#ifndef TARN_TESTS_SIM_PROCESSES_H
#define TARN_TESTS_SIM_PROCESSES_H

#include "driver.h"
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct role {
    const char *name;
    int (*run)(int peer);
};

#define ROLES(...)                                                                   \
    __attribute__((constructor(65535))) static void play_role(int argc, char **argv) \
    {                                                                                \
        static const struct role roles[] = {__VA_ARGS__};                            \
        for (size_t i = 0; argc == 1 && i < sizeof roles / sizeof *roles; i++)       \
            if (strcmp(argv[0], roles[i].name) == 0)                                 \
                exit(roles[i].run(0));                                               \
    }

struct process {
    pid_t id;
    int peer;
};

static inline struct process start(const char *role)
{
    struct process process;
    int ends[2];

    CHECK_EQUAL(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    fflush(NULL);
    process.id = fork();
    if (process.id == 0) {
        dup2(ends[1], 0);
        execl("/proc/self/exe", role, NULL);
        _exit(120);
    }
    close(ends[1]);
    process.peer = ends[0];
    return process;
}

/* Return its exit status, or 200 and the signal that ended it. */
static inline int end(struct process process)
{
    int status;

    close(process.peer);
    CHECK_EQUAL(process.id, waitpid(process.id, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

static inline void end_killed(struct process process)
{
    CHECK_EQUAL(0, kill(process.id, SIGKILL));
    CHECK_EQUAL(200 + SIGKILL, end(process));
}

/* One byte each way; false: the other process is gone. */
static inline bool notify_peer(int peer)
{
    return write(peer, "x", 1) == 1;
}

static inline bool wait_for_peer(int peer)
{
    char byte;

    return read(peer, &byte, 1) == 1;
}

struct file_message {
    char byte;
    struct iovec content;
    union {
        struct cmsghdr header;
        char buffer[CMSG_SPACE(sizeof(int))];
    } control;
};

static inline struct msghdr make_header(struct file_message *file_message)
{
    file_message->content = (struct iovec){&file_message->byte, 1};
    return (struct msghdr){
        .msg_iov = &file_message->content,
        .msg_iovlen = 1,
        .msg_control = &file_message->control,
        .msg_controllen = sizeof file_message->control,
    };
}

static inline bool send_file(int peer, int file)
{
    struct file_message file_message = {.byte = 'f'};
    struct msghdr message = make_header(&file_message);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(header), &file, sizeof file);
    return sendmsg(peer, &message, 0) == 1;
}

/* -1: none came. */
static inline int receive_file(int peer)
{
    struct file_message file_message;
    struct msghdr message = make_header(&file_message);
    struct cmsghdr *header;
    int file;

    if (recvmsg(peer, &message, 0) != 1)
        return -1;
    header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS)
        return -1;
    memcpy(&file, CMSG_DATA(header), sizeof file);
    return file;
}

#endif
