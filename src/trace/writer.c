/* writer.c -- the public functions of log writers: text and binary logs.
 *
 * The rows of a text log wait in a buffer (text_buffer.c), which is written out in four
 * cases:
 *
 *   - It is full.
 *   - The log is flushed, or it is flushed after each row.
 *   - Rows have waited for half a second, or the program exits (open_logs.c).
 *   - Rows for a function of the user have waited for a second when the next one comes.
 *
 * Everything about a binary log is in binary_writer.c and binary_rows.c.
 */
#include "trace/writer.h"
#include "base/clock.h"
#include "base/mutex_assert.h"
#include "base/options.h"
#include "trace/binary_rows.h"
#include "trace/binary_writer.h"
#include "trace/day.h"
#include "trace/open_logs.h"
#include "trace/row.h"
#include "trace/text_buffer.h"
#include <stdlib.h>

static const uint64_t SECOND_NS = 1000000000u;
static const uint64_t DAY_NS = 24 * 60 * 60 * (uint64_t)1000000000u;

struct tarn_trace_writer {
    tarn_trace_format id;
    struct tarn__text_buffer *text;     /* of a text log, behind the writer; else NULL */
    struct tarn__binary_writer *binary; /* of a binary log; else NULL */
    unsigned stack_depth;
    atomic_uint references;
    uint64_t made_ns;  /* CLOCK_MONOTONIC */
    uint64_t made_day; /* the same moment in ns since midnight, local time */
};

bool tarn__writer_has_file(const tarn_trace_writer *writer)
{
    return writer->binary || tarn__text_buffer_has_file(writer->text);
}

static tarn_status reject_format(tarn_trace_format id)
{
    return tarn_error_set(TARN_INVALID_ARGUMENT, "trace: unknown format %d", (int)id);
}

/* Create a writer without a destination yet; the header of text is in the buffer. */
static tarn_status make_writer(tarn_trace_format id, const char *name,
                               tarn_trace_writer **out)
{
    const struct tarn__format *format = tarn__row_format(id);

    if (!format && id != TARN_TRACE_BINARY)
        return reject_format(id);
    tarn_trace_writer *writer =
        calloc(1, sizeof *writer + (format ? sizeof *writer->text : 0));
    if (writer && format)
        writer->text = (struct tarn__text_buffer *)(writer + 1);
    if (!writer || (format && !tarn__text_buffer_init(writer->text, format, name))) {
        free(writer);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "trace: no host memory for a writer");
    }
    tarn__open_logs_watch_exit();
    writer->id = id;
    writer->made_ns = tarn__clock_now_ns();
    writer->made_day = tarn__day_now_ns();
    atomic_init(&writer->references, 1);
    *out = writer;
    return TARN_OK;
}

/* Close the destination of a text log, if it has one, and free the writer. */
static tarn_status end_writer(tarn_trace_writer *writer)
{
    tarn_status status = TARN_OK;

    if (writer->text)
        status = tarn__text_buffer_end(writer->text);
    free(writer);
    return status;
}

static tarn_status open_text(tarn_trace_writer *writer, const char *path)
{
    tarn_status status = tarn__text_buffer_open(writer->text, path);

    if (status == TARN_OK)
        tarn__open_logs_add(writer->text);
    return status;
}

static tarn_status open_binary(tarn_trace_writer *writer, const char *path,
                               const tarn_trace_writer_options *options)
{
    const struct tarn__binary_options binary = {.made_ns = writer->made_ns,
                                                .stack_depth = options->stack_depth,
                                                .ring_bytes = options->ring_bytes};

    writer->stack_depth = options->stack_depth;
    return tarn__binary_writer_open(path, &binary, &writer->binary);
}

/* Check the options that are not for every format. */
static tarn_status check_options(const tarn_trace_writer_options *options)
{
    if (options->format != TARN_TRACE_BINARY &&
        (options->stack_depth || options->ring_bytes))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: writer_open: stack_depth is %u and ring_bytes is "
                              "%llu, which only TARN_TRACE_BINARY has",
                              options->stack_depth,
                              (unsigned long long)options->ring_bytes);
    if (options->stack_depth > TARN_STACK_DEPTH_MAX)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: writer_open: stack_depth is %u, at most %d",
                              options->stack_depth, TARN_STACK_DEPTH_MAX);
    return TARN_OK;
}

tarn_status tarn_trace_writer_open_with(const char *path,
                                        const tarn_trace_writer_options *options,
                                        tarn_trace_writer **out)
{
    tarn_trace_writer_options all_options;
    tarn_trace_writer *writer;

    if (!path || !*path || !out)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "trace: writer_open: path is NULL or empty, or out is NULL");
    tarn_status status =
        tarn__options_read("trace: writer_open", options, sizeof all_options,
                           &all_options, sizeof all_options);
    if (status == TARN_OK)
        status = check_options(&all_options);
    if (status == TARN_OK)
        status = make_writer(all_options.format, path, &writer);
    if (status != TARN_OK)
        return status;
    status = all_options.format == TARN_TRACE_BINARY
                 ? open_binary(writer, path, &all_options)
                 : open_text(writer, path);
    if (status != TARN_OK) {
        end_writer(writer);
        return status;
    }
    *out = writer;
    return TARN_OK;
}

tarn_status tarn_trace_writer_open(const char *path, tarn_trace_format format,
                                   tarn_trace_writer **out)
{
    const tarn_trace_writer_options options = {.size = sizeof options, .format = format};

    return tarn_trace_writer_open_with(path, &options, out);
}

tarn_status tarn_trace_writer_create(tarn_trace_write_fn write, void *data,
                                     tarn_trace_format format, tarn_trace_writer **out)
{
    tarn_trace_writer *writer;

    if (!write || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: writer_create: write or out is NULL");
    if (format == TARN_TRACE_BINARY)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: writer_create: a binary log needs a file");
    tarn_status status = make_writer(format, "the log", &writer);
    if (status != TARN_OK)
        return status;
    writer->text->write = write;
    writer->text->data = data;
    *out = writer;
    return TARN_OK;
}

uint64_t tarn_trace_writer_time_ns(const tarn_trace_writer *writer, uint64_t monotonic_ns)
{
    uint64_t since = monotonic_ns > writer->made_ns ? monotonic_ns - writer->made_ns : 0;

    if (writer->id == TARN_TRACE_RMM)
        return (writer->made_day + since % DAY_NS) % DAY_NS;
    return since;
}

tarn_trace_format tarn_trace_writer_format(const tarn_trace_writer *writer)
{
    return writer->id;
}

unsigned tarn_trace_writer_stack_depth(const tarn_trace_writer *writer)
{
    return writer->stack_depth;
}

static tarn_status reject_null(void)
{
    return tarn_error_set(TARN_INVALID_ARGUMENT, "trace: the writer is NULL");
}

static tarn_status reject_reentrant(const struct tarn__text_buffer *text)
{
    return tarn_error_set(
        TARN_REENTRANT_CALL,
        "trace: the write function of %.200s must not use its own writer", text->name);
}

/* Check that this thread may take the lock of a text log. */
static tarn_status check_text(const struct tarn__text_buffer *text)
{
    if (tarn__text_buffer_is_inherited(text))
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "trace: %.200s was opened by the parent process, a forked "
                              "child cannot write to it",
                              text->name);
    return tarn__text_buffer_is_inside(text) ? reject_reentrant(text) : TARN_OK;
}

/* Return true if the new row may not wait in the buffer. `lock` held. */
static bool is_due(struct tarn__text_buffer *text)
{
    tarn__assert_mutex_held(&text->lock);

    if (text->auto_flush || tarn__open_logs_are_exiting())
        return true;
    if (!tarn__text_buffer_has_file(text))
        return tarn__clock_now_ns() - text->delivered_ns >= SECOND_NS;
    if (!text->awaited)
        text->awaited = tarn__open_logs_flush_soon();
    return !text->awaited;
}

/* Unlock a text log and return the status of a call. */
static tarn_status unlock_and_tell(struct tarn__text_buffer *text, tarn_status status)
{
    bool must = tarn__text_buffer_must_tell(text);

    pthread_mutex_unlock(&text->lock);
    tarn__text_buffer_tell(must);
    return status;
}

__attribute__((noinline)) static tarn_status write_text(struct tarn__text_buffer *text,
                                                        const tarn_trace_event *event)
{
    tarn_status status = check_text(text);

    if (status != TARN_OK)
        return status;
    pthread_mutex_lock(&text->lock);
    status = tarn__text_buffer_append(text, event);
    if (status == TARN_OK && is_due(text))
        status = tarn__text_buffer_deliver(text);
    return unlock_and_tell(text, status);
}

__attribute__((noinline)) static tarn_status reject_event(const tarn_trace_writer *writer)
{
    return writer ? tarn_error_set(
                        TARN_INVALID_ARGUMENT,
                        "trace: write: the event is NULL or has an unknown action")
                  : reject_null();
}

tarn_status tarn_trace_write(tarn_trace_writer *writer, const tarn_trace_event *event)
{
    if (!writer || !event || (unsigned)event->action > TARN_ACTION_ALLOCATE_FAILURE)
        return reject_event(writer);
    return writer->binary ? tarn__binary_rows_add(writer->binary, event)
                          : write_text(writer->text, event);
}

tarn_status tarn_trace_write_pool(tarn_trace_writer *writer,
                                  const tarn_trace_pool_row *row)
{
    if (!writer)
        return reject_null();
    if (!row || row->size < sizeof *row ||
        (unsigned)row->cause > TARN_TRACE_POOL_SNAPSHOT)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "trace: write_pool: the row is NULL, its size is not %zu, or "
            "its cause is unknown",
            sizeof *row);
    return writer->binary ? tarn__binary_writer_pool(writer->binary, row) : TARN_OK;
}

tarn_status tarn_trace_write_mark(tarn_trace_writer *writer, const char *name,
                                  uint64_t time_ns)
{
    if (!writer || !name)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: write_mark: the writer or the name is NULL");
    if (!writer->binary)
        return TARN_OK;
    if (time_ns == UINT64_MAX)
        time_ns = tarn_trace_writer_time_ns(writer, tarn__clock_now_ns());
    return tarn__binary_writer_mark(writer->binary, name, time_ns);
}

/* Write the buffer out and unlock the writer, for a caller who looks at the status. */
static tarn_status flush_for_caller(struct tarn__text_buffer *text)
{
    tarn_status status = tarn__text_buffer_deliver(text);

    text->told |= status != TARN_OK;
    pthread_mutex_unlock(&text->lock);
    return status;
}

tarn_status tarn_trace_flush(tarn_trace_writer *writer)
{
    if (!writer)
        return reject_null();
    if (writer->binary)
        return tarn__binary_writer_check(writer->binary);
    tarn_status status = check_text(writer->text);
    if (status != TARN_OK)
        return status;
    pthread_mutex_lock(&writer->text->lock);
    return flush_for_caller(writer->text);
}

tarn_status tarn_trace_writer_set_auto_flush(tarn_trace_writer *writer, bool auto_flush)
{
    if (!writer)
        return reject_null();
    if (writer->binary)
        return tarn__binary_writer_check(writer->binary);
    tarn_status status = check_text(writer->text);
    if (status != TARN_OK)
        return status;
    pthread_mutex_lock(&writer->text->lock);
    writer->text->auto_flush = auto_flush;
    return flush_for_caller(writer->text);
}

tarn_trace_writer *tarn_trace_writer_retain(tarn_trace_writer *writer)
{
    if (writer)
        atomic_fetch_add(&writer->references, 1);
    return writer;
}

/* Write out what waits in a text log that ends. */
static tarn_status flush_at_end(struct tarn__text_buffer *text)
{
    if (tarn__text_buffer_is_inherited(text))
        return TARN_OK;
    if (tarn__text_buffer_has_file(text))
        tarn__open_logs_remove(text);
    pthread_mutex_lock(&text->lock);
    return unlock_and_tell(text, tarn__text_buffer_deliver(text));
}

tarn_status tarn_trace_writer_release(tarn_trace_writer *writer)
{
    unsigned references = writer ? atomic_load(&writer->references) : 0;

    if (!writer)
        return TARN_OK;
    struct tarn__text_buffer *text = writer->text;
    do
        if (references == 1 && text && !tarn__text_buffer_is_inherited(text) &&
            tarn__text_buffer_is_inside(text))
            return reject_reentrant(text);
    while (
        !atomic_compare_exchange_weak(&writer->references, &references, references - 1));
    if (references != 1)
        return TARN_OK;
    tarn_status status =
        text ? flush_at_end(text) : tarn__binary_writer_end(writer->binary);
    tarn_status closed = end_writer(writer);
    return status != TARN_OK ? status : closed;
}
