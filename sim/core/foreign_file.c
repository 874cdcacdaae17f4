/* foreign_file.c -- opens a memfd through /proc, which the kernel allows for processes of
 * the same user. It checks the name before it opens anything, so that a forged handle
 * cannot open another file, and the owner, so that it rejects root as well. */
#define _GNU_SOURCE
#include "sim/core/foreign_file.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int sim_foreign_file_open(int32_t process, int32_t file, uint64_t inode, const char *name)
{
    char path[64], target[64];
    struct stat status;
    ssize_t length;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)process, (int)file);
    length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return -1;
    target[length] = '\0';
    if (strncmp(target, "/memfd:", 7) != 0 ||
        strncmp(target + 7, name, strlen(name)) != 0)
        return -1;
    int opened_file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (opened_file < 0)
        return -1;
    if (fstat(opened_file, &status) == 0 && status.st_ino == inode &&
        status.st_uid == geteuid())
        return opened_file;
    close(opened_file);
    return -1;
}
