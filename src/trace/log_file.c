/* log_file.c -- the file of a log, and how it ends where the disk is full.
 *
 * A log that ends between two rows looks complete. So a write that fails replaces the end
 * of the file by a line with the reason. The last rows make space for that line: the disk
 * has none, but the file keeps the blocks that it has.
 *
 * The file is written and not mapped. A mapped page would survive the end of the process
 * as well. But a program that reads or rotates logs may cut the file, and the next row in
 * a page beyond its end would then kill the process with SIGBUS.
 */
#define _GNU_SOURCE
#include "trace/log_file.h"
#include "trace/format.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool tarn__log_file_open(const char *path, struct tarn__log_file *out)
{
    out->bytes = 0;
    out->descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return out->descriptor >= 0;
}

/* Cut the file after a line, of which `done` bytes of `lines` are in the file, and append
 * the reason. Where that fails too, the file ends with a whole line. */
static void end_early(const struct tarn__log_file *file, const char *lines, size_t done,
                      int why)
{
    char last[160];
    int count = snprintf(last, sizeof last, TARN__INCOMPLETE "%.120s\n", strerror(why));
    size_t kept = done > (size_t)count ? done - (size_t)count : 0;

    while (kept > 0 && lines[kept - 1] != '\n')
        kept--;
    off_t end = (off_t)(file->bytes + kept);
    if (ftruncate(file->descriptor, end) == 0 &&
        pwrite(file->descriptor, last, (size_t)count, end) != count &&
        ftruncate(file->descriptor, end) != 0)
        return;
}

bool tarn__log_file_append(struct tarn__log_file *file, const char *lines, size_t count)
{
    size_t done = 0;

    while (done < count) {
        ssize_t written = write(file->descriptor, lines + done, count - done);
        if (written < 0 && errno != EINTR) {
            int why = errno;
            end_early(file, lines, done, why);
            errno = why;
            return false;
        }
        done += written > 0 ? (size_t)written : 0;
    }
    file->bytes += count;
    return true;
}

bool tarn__log_file_close(struct tarn__log_file *file)
{
    return file->descriptor < 0 || close(file->descriptor) == 0;
}
