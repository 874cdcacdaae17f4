/* text_buffer.c -- the rows of a text log on their way to its file or function.
 *
 * A row is built in the buffer itself, under its lock, so lines of two threads cannot
 * mix.
 *
 * A write that fails once breaks the log permanently, and every later call reports that.
 * Continuing would leave an unnoticed gap in it. Nobody looks at the status of a row, so
 * a file that breaks is one warning, unless a flush has returned the failure first. A
 * forked child has a copy of the buffer and the file, and must use neither.
 */
#define _GNU_SOURCE
#include "trace/text_buffer.h"
#include "base/cancellation.h"
#include "base/clock.h"
#include "base/mutex_assert.h"
#include "base/warn.h"
#include "trace/row.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Incremented in each forked child. */
static unsigned processes;

static void count_process(void)
{
    processes++;
}

/* When the library is loaded: a child of a process without a buffer may create one. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_process);
}

static void write_header(struct tarn__text_buffer *buffer)
{
    struct tarn__row row = {buffer->bytes};

    for (unsigned i = 0; i < buffer->format->columns; i++) {
        tarn__row_text(&row, i ? "," : "");
        tarn__row_text(&row, buffer->format->names[i]);
    }
    *row.at++ = '\n';
    buffer->count = (size_t)(row.at - buffer->bytes);
}

bool tarn__text_buffer_init(struct tarn__text_buffer *buffer,
                            const struct tarn__format *format, const char *name)
{
    buffer->format = format;
    buffer->name = strdup(name);
    if (!buffer->name)
        return false;
    buffer->file.descriptor = -1;
    buffer->process = processes;
    buffer->delivered_ns = tarn__clock_now_ns();
    pthread_mutex_init(&buffer->lock, NULL);
    write_header(buffer);
    return true;
}

static bool write_file(void *data, const char *bytes, size_t count)
{
    struct tarn__text_buffer *buffer = data;

    return tarn__log_file_append(&buffer->file, bytes, count);
}

tarn_status tarn__text_buffer_open(struct tarn__text_buffer *buffer, const char *path)
{
    if (!tarn__log_file_open(path, &buffer->file))
        return tarn_error_set_native(TARN_SYSTEM_FAILURE, errno,
                                     "trace: cannot create %.200s: %s", path,
                                     strerror(errno));
    buffer->write = write_file;
    buffer->data = buffer;
    return TARN_OK;
}

static tarn_status close_file(struct tarn__text_buffer *buffer)
{
    if (tarn__log_file_close(&buffer->file))
        return TARN_OK;
    tarn_status status = tarn_error_set_native(TARN_SYSTEM_FAILURE, errno,
                                               "trace: cannot close %.200s: %s",
                                               buffer->name, strerror(errno));
    if (!buffer->told)
        tarn__warn("%s", tarn_error_last()->message);
    return status;
}

tarn_status tarn__text_buffer_end(struct tarn__text_buffer *buffer)
{
    tarn_status status = close_file(buffer);

    pthread_mutex_destroy(&buffer->lock);
    free(buffer->name);
    return status;
}

bool tarn__text_buffer_has_file(const struct tarn__text_buffer *buffer)
{
    return buffer->write == write_file;
}

bool tarn__text_buffer_is_inherited(const struct tarn__text_buffer *buffer)
{
    return buffer->process != processes;
}

bool tarn__text_buffer_is_inside(const struct tarn__text_buffer *buffer)
{
    return pthread_equal(atomic_load(&buffer->inside), pthread_self());
}

static tarn_status reject_broken(const struct tarn__text_buffer *buffer)
{
    return tarn_error_set_native(TARN_SYSTEM_FAILURE, buffer->broken,
                                 "trace: cannot write %.200s: %s", buffer->name,
                                 strerror(buffer->broken));
}

tarn_status tarn__text_buffer_deliver(struct tarn__text_buffer *buffer)
{
    tarn__assert_mutex_held(&buffer->lock);

    if (buffer->broken)
        return reject_broken(buffer);
    if (buffer->count == 0)
        return TARN_OK;
    TARN__NOT_CANCELLED;
    errno = 0;
    atomic_store(&buffer->inside, pthread_self());
    bool taken = buffer->write(buffer->data, buffer->bytes, buffer->count);
    atomic_store(&buffer->inside, 0);
    buffer->count = 0;
    buffer->awaited = false;
    buffer->delivered_ns = tarn__clock_now_ns();
    if (taken)
        return TARN_OK;
    buffer->broken = errno ? errno : EIO;
    return reject_broken(buffer);
}

tarn_status tarn__text_buffer_append(struct tarn__text_buffer *buffer,
                                     const tarn_trace_event *event)
{
    tarn_status status = TARN_OK;

    tarn__assert_mutex_held(&buffer->lock);

    if (buffer->broken || buffer->count + ROW_BYTES_MAX > TARN__TEXT_BUFFER_BYTES)
        status = tarn__text_buffer_deliver(buffer);
    if (status != TARN_OK)
        return status;
    struct tarn__row row = {buffer->bytes + buffer->count};
    buffer->format->write(&row, event);
    *row.at++ = '\n';
    buffer->count = (size_t)(row.at - buffer->bytes);
    return TARN_OK;
}

bool tarn__text_buffer_must_tell(struct tarn__text_buffer *buffer)
{
    tarn__assert_mutex_held(&buffer->lock);

    bool must = buffer->broken && !buffer->told && tarn__text_buffer_has_file(buffer);
    buffer->told |= must;
    return must;
}

void tarn__text_buffer_tell(unsigned broken)
{
    if (broken == 1)
        tarn__warn("%s; the log ends early", tarn_error_last()->message);
    else if (broken > 1)
        tarn__warn("trace: %u logs are incomplete: %s", broken,
                   tarn_error_last()->message);
}
