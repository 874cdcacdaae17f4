/* source.c -- a log file, gzip or not, or stdin.
 *
 * zlib passes data that is not gzip through unchanged, so one path serves both.
 */
#define _GNU_SOURCE
#include "tool.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

bool source_open(struct source *source, const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int file = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);

    *source = (struct source){.name = is_stdin ? "stdin" : path};
    if (file < 0)
        return false;
    source->file = gzdopen(file, "rb");
    if (source->file)
        return true;
    close(file);
    errno = ENOMEM;
    return false;
}

/* zlib puts its own file name "<fd:3>: " before the message, which means nothing to the
 * user. */
static const char *without_file(const char *message)
{
    const char *end = strncmp(message, "<fd:", 4) == 0 ? strstr(message, ">: ") : NULL;

    return end ? end + 3 : message;
}

/* Record why zlib failed: errno for the system's reasons, a message for its own. */
static long note_failure(struct source *source)
{
    int error, system_error = errno;
    const char *message = gzerror(source->file, &error);

    if (error == Z_OK || error == Z_STREAM_END)
        return 0;
    if (error == Z_BUF_ERROR)
        source->why = "the gzip file is truncated";
    else if (error != Z_ERRNO)
        source->why = *message ? without_file(message) : "not a valid gzip file";
    errno = error == Z_ERRNO && system_error ? system_error : EBADMSG;
    return -1;
}

long source_read(void *data, char *buffer, size_t capacity)
{
    struct source *source = data;

    errno = 0;
    int count = gzread(source->file, buffer, (unsigned)capacity);
    return count > 0 ? count : note_failure(source);
}

void source_close(struct source *source)
{
    gzclose_r(source->file);
}

int source_failed(const struct verb *verb, const struct source *source)
{
    if (source->why && tarn_error_last()->status == TARN_SYSTEM_FAILURE)
        return failed(verb, "%s: %s", source->name, source->why);
    return failed_with_last_error(verb);
}

const char *format_key(tarn_trace_format format)
{
    static const char *const keys[] = {"nbep7", "rmm", "binary"};

    return keys[format];
}
