/* socket_directory.c -- the socket directory: the servers' sockets lie where only our
 * user may enter.
 *
 * Abstract sockets have no owner, and in a shared directory any user may take a name
 * first. So the directory is opened without following a link, checked, and used by its
 * descriptor from then on: what lies at its path later does not matter.
 *
 * The file of a socket outlives a process that was killed. No process answers at it; each
 * starting server removes such files. A server binds under a name with a dot and takes
 * its real name when it listens. So a file that is just being made is not taken for a
 * dead one.
 */
#define _GNU_SOURCE
#include "ipc/socket_directory.h"
#include "ipc/descriptor.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PATH_BYTES = PATH_MAX, SWEPT_AT_ONCE = 1024 };

/* The value of an environment variable; NULL if it is unset or empty. */
static const char *text_of(const char *name)
{
    const char *text = secure_getenv(name);

    return text && *text ? text : NULL;
}

/* Remove trailing slashes, also with a dot: behind them the system would follow a link.
 */
static void cut_slashes(char *path)
{
    size_t length = strlen(path);

    while (length > 1 && (path[length - 1] == '/' ||
                          (path[length - 1] == '.' && path[length - 2] == '/')))
        path[--length] = '\0';
}

/* The path of directory `which`. TARN_NOT_FOUND: there is none. */
static tarn_status directory_path(unsigned which, char out[PATH_BYTES])
{
    const char *named = text_of("TARN_IPC_DIR"), *runtime = text_of("XDG_RUNTIME_DIR");
    int length = 0;

    if (named)
        length = which == 0 ? snprintf(out, PATH_BYTES, "%s", named) : 0;
    else if (runtime && which == 0)
        length = snprintf(out, PATH_BYTES, "%s/tarn", runtime);
    else if (which == (runtime != NULL))
        length = snprintf(out, PATH_BYTES, "/tmp/tarn-%u", (unsigned)geteuid());
    if (length == 0)
        return tarn_error_set(TARN_NOT_FOUND,
                              "ipc: no directory for sockets is left to try");
    if (length >= PATH_BYTES)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "ipc: %s names a directory of %d bytes, the maximum is %d",
                              named ? "TARN_IPC_DIR" : "XDG_RUNTIME_DIR", length,
                              PATH_BYTES - 1);
    cut_slashes(out);
    return TARN_OK;
}

static tarn_status check_directory(int directory, const char *path)
{
    struct stat status;

    if (fstat(directory, &status) != 0)
        return tarn_error_set_native(TARN_SYSTEM_FAILURE, errno,
                                     "ipc: cannot stat %.200s: %s", path,
                                     strerror(errno));
    if (status.st_uid != geteuid() || (status.st_mode & 077) != 0)
        return tarn_error_set(TARN_SYSTEM_FAILURE,
                              "ipc: %.200s belongs to user %u with mode %03o, it has to "
                              "belong to user %u with mode 700",
                              path, (unsigned)status.st_uid,
                              (unsigned)status.st_mode & 0777u, (unsigned)geteuid());
    return TARN_OK;
}

tarn_status tarn__socket_directory_open(unsigned which, bool make, int *out)
{
    char path[PATH_BYTES];
    tarn_status status = directory_path(which, path);

    if (status != TARN_OK)
        return status;
    if (make && mkdir(path, 0700) != 0 && errno != EEXIST)
        return tarn_error_set_native(TARN_SYSTEM_FAILURE, errno,
                                     "ipc: cannot create %.200s: %s", path,
                                     strerror(errno));
    tarn__descriptor_lock();
    int directory = tarn__descriptor_record(
        open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    int why = errno;
    tarn__descriptor_unlock();
    if (directory < 0)
        return tarn_error_set_native(TARN_SYSTEM_FAILURE, why,
                                     "ipc: cannot open the directory %.200s: %s", path,
                                     strerror(why));
    status = check_directory(directory, path);
    if (status != TARN_OK) {
        tarn__descriptor_close(directory);
        return status;
    }
    *out = directory;
    return TARN_OK;
}

void tarn__socket_directory_name(int process,
                                 const unsigned char server[TARN__SERVER_BYTES],
                                 char out[TARN__SOCKET_NAME])
{
    int length = snprintf(out, TARN__SOCKET_NAME, "%d-", process);

    for (int i = 0; i < TARN__SERVER_BYTES; i++)
        length += snprintf(out + length, (size_t)(TARN__SOCKET_NAME - length), "%02x",
                           server[i]);
}

void tarn__socket_directory_path(int directory, const char *name,
                                 char out[TARN__SOCKET_PATH])
{
    snprintf(out, TARN__SOCKET_PATH, "/proc/self/fd/%d/%.64s", directory, name);
}

/* Does no process listen at this socket any more? */
static bool is_dead(int directory, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct sockaddr *generic = (const struct sockaddr *)(const void *)&address;

    tarn__socket_directory_path(directory, name, address.sun_path);
    tarn__descriptor_lock();
    int probe = tarn__descriptor_record(
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    tarn__descriptor_unlock();
    if (probe < 0)
        return false;
    bool dead = connect(probe, generic, sizeof address) != 0 && errno == ECONNREFUSED;
    tarn__descriptor_close(probe);
    return dead;
}

/* Is this a name of ours: PID-32 hexadecimal digits, with or without a dot in front? */
static bool is_socket_name(const char *name, int *process_out)
{
    char *end;
    long process = strtol(name + (*name == '.'), &end, 10);

    *process_out = (int)process;
    return process > 0 && *end == '-' &&
           strspn(end + 1, "0123456789abcdef") == 2 * TARN__SERVER_BYTES &&
           end[1 + 2 * TARN__SERVER_BYTES] == '\0';
}

static bool is_stale(int directory, const char *name)
{
    int process;

    if (!is_socket_name(name, &process))
        return false;
    if (*name == '.') /* being made, unless its maker died meanwhile */
        return kill(process, 0) != 0 && errno == ESRCH;
    return is_dead(directory, name);
}

void tarn__socket_directory_sweep(int directory)
{
    const struct dirent *entry;

    tarn__descriptor_lock();
    int listed = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = listed < 0 ? NULL : fdopendir(listed);
    tarn__descriptor_unlock();
    if (!list) {
        if (listed >= 0)
            close(listed);
        return;
    }
    for (int i = 0; i < SWEPT_AT_ONCE && (entry = readdir(list)); i++)
        if (is_stale(directory, entry->d_name))
            unlinkat(directory, entry->d_name, 0);
    closedir(list);
}
