/* output.c -- a file that a verb writes: whole, or not at all.
 *
 * The verb writes a temporary file beside the output, which then gets its name in one
 * step. So a failure leaves an older output as it was. A symbolic link stays, and the
 * permissions of an existing file stay. A device, a FIFO or a socket is written directly.
 */
#define _GNU_SOURCE
#include "tool.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct output *unfinished; /* its temporary file is removed at exit */

static void remove_temporary(void)
{
    if (unfinished)
        unlink(unfinished->file);
    unfinished = NULL;
}

/* The permissions of a new file. */
static mode_t new_mode(void)
{
    mode_t mask = umask(0);

    umask(mask);
    return 0666 & ~mask;
}

/* Create the temporary file beside the output. */
static bool create_temporary(struct output *output, mode_t mode)
{
    static bool is_registered;

    if (!is_registered && atexit(remove_temporary) != 0)
        return false;
    is_registered = true;
    snprintf(output->file, sizeof output->file, "%s.XXXXXX", output->target);
    int file = mkostemp(output->file, O_CLOEXEC);
    if (file < 0)
        return false;
    unfinished = output;
    fchmod(file, mode);
    close(file);
    return true;
}

bool output_begin(struct output *output, const char *path)
{
    struct stat found;
    char *real = NULL;
    bool exists = stat(path, &found) == 0;

    *output = (struct output){.is_direct = exists && !S_ISREG(found.st_mode)};
    if (strlen(path) >= PATH_BYTES ||
        (exists && (!(real = realpath(path, NULL)) || strlen(real) >= PATH_BYTES))) {
        free(real);
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(output->target, real ? real : path);
    free(real);
    if (output->is_direct) {
        strcpy(output->file, path);
        return true;
    }
    return create_temporary(output, exists ? found.st_mode & 07777 : new_mode());
}

bool output_finish(struct output *output, bool is_whole)
{
    if (output->is_direct)
        return true;
    unfinished = NULL;
    if (is_whole && rename(output->file, output->target) == 0)
        return true;
    int error = errno;
    unlink(output->file);
    errno = error;
    return !is_whole;
}

bool is_same_file(const char *one, const char *other)
{
    struct stat a, b;

    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}
