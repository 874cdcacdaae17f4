/* writer.c -- events on their way into a log: one buffer, whole lines, any thread.
 *
 * A row is built in the buffer itself, under the writer's lock, so lines of two threads
 * cannot mix. The buffer is written out in four cases:
 *
 *   - It is full.
 *   - The log is flushed, or it is flushed after each row.
 *   - Rows have waited for half a second. A thread of the library writes those to files,
 *     because the program may log no more before it is killed. The thread exists only
 *     while rows wait. Functions of the user are called on the user's threads alone.
 *   - The program exits: many programs never release their logger.
 *
 * A write that fails once breaks the log permanently, and every later call reports that.
 * Continuing would leave an unnoticed gap in it. Nobody looks at the status of a row, so
 * a file that breaks is one warning, unless a flush has returned the failure first. A
 * forked child has a copy of the buffer and the file, and must use neither.
 */
#define _GNU_SOURCE
#include "trace/writer.h"
#include "base/mutex.h"
#include "base/mutex_assert.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/thread.h"
#include "base/warn.h"
#include "trace/binary_writer.h"
#include "trace/day.h"
#include "trace/format.h"
#include "trace/log_file.h"
#include "trace/row.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

enum { BUFFER_BYTES = 64 * 1024, FLUSH_MS = 500 };
static const uint64_t SECOND_NS = 1000000000u;
static const uint64_t DAY_NS = 24 * 60 * 60 * (uint64_t)1000000000u;

struct tarn_trace_writer {
    tarn_trace_format id;
    const struct tarn__format *format;  /* of text; else NULL */
    struct tarn__binary_writer *binary; /* does all the work of a binary log; else NULL */
    unsigned stack_depth;
    tarn_trace_write_fn write; /* takes whole lines; called under the lock */
    void *data;                /* of `write` */
    _Atomic(pthread_t) inside; /* the thread that is in `write`; 0: none */
    char *name;                /* for messages; owned */
    atomic_uint references;
    unsigned process;  /* value of `processes` when the writer was made */
    uint64_t made_ns;  /* CLOCK_MONOTONIC */
    uint64_t made_day; /* the same moment in ns since midnight, local time */
    LIST_ENTRY(tarn_trace_writer) link; /* under all.lock */

    pthread_mutex_t lock; /* guards what follows */
    struct tarn__log_file file;
    int broken;      /* errno of the write that failed; 0: none failed */
    bool told;       /* a warning or a flush has told that it is broken */
    bool auto_flush; /* each row goes out at once */
    bool awaited;    /* the flusher knows of the rows in the buffer */
    uint64_t delivered_ns;
    size_t count;  /* bytes in the buffer */
    char buffer[]; /* of BUFFER_BYTES, for text */
};

/* All writers to files, for the flusher and the flush at exit. Taken before the locks of
 * writers. */
static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    LIST_HEAD(, tarn_trace_writer) writers;
    atomic_bool exiting; /* from now on nothing may stay in a buffer */
} all = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* The thread that writes rows out which have waited. Taken after the locks of writers. */
static struct {
    struct tarn__mutex lock;
    bool runs;
    bool has_rows; /* rows have come since its last turn */
} flusher;

/* Incremented in each forked child: tells a parent's writers from the child's own. */
static unsigned processes;

static bool is_inherited(const tarn_trace_writer *writer)
{
    return writer->process != processes;
}

static tarn_status reject_broken(const tarn_trace_writer *writer)
{
    return tarn_error_set_native(TARN_SYSTEM_FAILURE, writer->broken,
                                 "trace: cannot write %.200s: %s", writer->name,
                                 strerror(writer->broken));
}

/* Write the buffer out. `lock` held. */
static tarn_status deliver_buffer(tarn_trace_writer *writer)
{
    tarn__assert_mutex_held(&writer->lock);

    if (writer->broken)
        return reject_broken(writer);
    if (writer->count == 0)
        return TARN_OK;
    errno = 0;
    atomic_store(&writer->inside, pthread_self());
    bool taken = writer->write(writer->data, writer->buffer, writer->count);
    atomic_store(&writer->inside, 0);
    writer->count = 0;
    writer->awaited = false;
    writer->delivered_ns = tarn__clock_now_ns();
    if (taken)
        return TARN_OK;
    writer->broken = errno ? errno : EIO;
    return reject_broken(writer);
}

static bool write_file(void *data, const char *bytes, size_t count)
{
    tarn_trace_writer *writer = data;

    return tarn__log_file_append(&writer->file, bytes, count);
}

bool tarn__writer_has_file(const tarn_trace_writer *writer)
{
    return writer->binary || writer->write == write_file;
}

/* Return true if a warning is due that the log is broken, once. `lock` held. */
static bool must_tell(tarn_trace_writer *writer)
{
    tarn__assert_mutex_held(&writer->lock);

    bool must = writer->broken && !writer->told && tarn__writer_has_file(writer);
    writer->told |= must;
    return must;
}

/* Warn of logs that broke, the last of them on this thread. The handler of warnings is
 * code of the user, so no lock may be held. */
static void tell(unsigned broken)
{
    if (broken == 1)
        tarn__warn("%s; the log ends early", tarn_error_last()->message);
    else if (broken > 1)
        tarn__warn("trace: %u logs are incomplete: %s", broken,
                   tarn_error_last()->message);
}

/* Unlock the writer and return the status of a call. */
static tarn_status unlock_and_tell(tarn_trace_writer *writer, tarn_status status)
{
    bool must = must_tell(writer);

    pthread_mutex_unlock(&writer->lock);
    tell(must);
    return status;
}

/* --- rows that wait --- */

/* Flush all files. Several that break are one warning. */
static void flush_all(void)
{
    tarn_trace_writer *writer;
    unsigned broken = 0;

    pthread_mutex_lock(&all.lock);
    LIST_FOREACH (writer, &all.writers, link) {
        pthread_mutex_lock(&writer->lock);
        if (!writer->broken && deliver_buffer(writer) != TARN_OK)
            broken += must_tell(writer);
        pthread_mutex_unlock(&writer->lock);
    }
    pthread_mutex_unlock(&all.lock);
    tell(broken);
}

static void *run_flusher(void *unused)
{
    const struct timespec pause = {.tv_nsec = FLUSH_MS * 1000000};

    for (;;) {
        nanosleep(&pause, NULL);
        tarn__mutex_lock(&flusher.lock);
        bool goes_on = flusher.runs = flusher.has_rows;
        flusher.has_rows = false;
        tarn__mutex_unlock(&flusher.lock);
        if (!goes_on)
            return unused;
        flush_all();
    }
}

/* Have the buffer flushed a short time from now; false: there is no thread for it. */
static bool await_flush(void)
{
    pthread_t thread;

    tarn__mutex_lock(&flusher.lock);
    if (!flusher.runs && tarn__thread_start(&thread, run_flusher, NULL) == 0) {
        pthread_detach(thread);
        flusher.runs = true;
    }
    bool runs = flusher.has_rows = flusher.runs;
    tarn__mutex_unlock(&flusher.lock);
    return runs;
}

static void flush_all_at_exit(void)
{
    atomic_store(&all.exiting, true);
    flush_all();
    tarn__binary_writer_trim_all();
}

/* In a forked child: forget the parent's writers, whichever thread held the lock. */
static void start_anew(void)
{
    processes++;
    pthread_mutex_init(&all.lock, NULL);
    LIST_INIT(&all.writers);
}

/* In a forked child the flusher does not exist. */
static void forget_flusher(struct tarn__mutex *lock)
{
    (void)lock;
    flusher.runs = flusher.has_rows = false;
}

/* When the library is loaded: a child of a process without a writer may create one. */
__attribute__((constructor)) static void watch_forks(void)
{
    tarn__mutex_init(&flusher.lock, forget_flusher);
    pthread_atfork(NULL, NULL, start_anew);
}

static void watch_exit(void)
{
    atexit(flush_all_at_exit);
}

static void enlist(tarn_trace_writer *writer)
{
    pthread_mutex_lock(&all.lock);
    LIST_INSERT_HEAD(&all.writers, writer, link);
    pthread_mutex_unlock(&all.lock);
}

static void delist(tarn_trace_writer *writer)
{
    pthread_mutex_lock(&all.lock);
    LIST_REMOVE(writer, link);
    pthread_mutex_unlock(&all.lock);
}

static void write_header(tarn_trace_writer *writer)
{
    struct tarn__row row = {writer->buffer};

    for (unsigned i = 0; i < writer->format->columns; i++) {
        tarn__row_text(&row, i ? "," : "");
        tarn__row_text(&row, writer->format->names[i]);
    }
    *row.at++ = '\n';
    writer->count = (size_t)(row.at - writer->buffer);
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
    tarn_trace_writer *writer = calloc(1, sizeof *writer + (format ? BUFFER_BYTES : 0));
    char *copy = strdup(name);
    if (!writer || !copy) {
        free(writer);
        free(copy);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "trace: no host memory for a writer");
    }
    pthread_once(&all.once, watch_exit);
    writer->id = id;
    writer->format = format;
    writer->name = copy;
    writer->file.descriptor = -1;
    writer->process = processes;
    writer->made_ns = writer->delivered_ns = tarn__clock_now_ns();
    writer->made_day = tarn__day_now_ns();
    atomic_init(&writer->references, 1);
    pthread_mutex_init(&writer->lock, NULL);
    if (format)
        write_header(writer);
    *out = writer;
    return TARN_OK;
}

static void free_writer(tarn_trace_writer *writer)
{
    pthread_mutex_destroy(&writer->lock);
    free(writer->name);
    free(writer);
}

static tarn_status open_text(tarn_trace_writer *writer, const char *path)
{
    if (!tarn__log_file_open(path, &writer->file))
        return tarn_error_set_native(TARN_SYSTEM_FAILURE, errno,
                                     "trace: cannot create %.200s: %s", path,
                                     strerror(errno));
    writer->write = write_file;
    writer->data = writer;
    enlist(writer);
    return TARN_OK;
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
        free_writer(writer);
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
    writer->write = write;
    writer->data = data;
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

/* Is this thread in the writer's own `write`, and so holds its lock? */
static bool is_inside(const tarn_trace_writer *writer)
{
    return pthread_equal(atomic_load(&writer->inside), pthread_self());
}

static tarn_status reject_reentrant(const tarn_trace_writer *writer)
{
    return tarn_error_set(
        TARN_REENTRANT_CALL,
        "trace: the write function of %.200s must not use its own writer", writer->name);
}

static tarn_status check_writer(const tarn_trace_writer *writer)
{
    if (!writer)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "trace: the writer is NULL");
    if (is_inherited(writer))
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "trace: %.200s was opened by the parent process, a forked "
                              "child cannot write to it",
                              writer->name);
    return is_inside(writer) ? reject_reentrant(writer) : TARN_OK;
}

/* Append a row. `lock` held, with enough space in the buffer. */
static void append(tarn_trace_writer *writer, const tarn_trace_event *event)
{
    tarn__assert_mutex_held(&writer->lock);

    struct tarn__row row = {writer->buffer + writer->count};

    writer->format->write(&row, event);
    *row.at++ = '\n';
    writer->count = (size_t)(row.at - writer->buffer);
}

/* Return true if the new row may not wait in the buffer. `lock` held. */
static bool is_due(tarn_trace_writer *writer)
{
    tarn__assert_mutex_held(&writer->lock);

    if (writer->auto_flush || atomic_load_explicit(&all.exiting, memory_order_relaxed))
        return true;
    if (!tarn__writer_has_file(writer))
        return tarn__clock_now_ns() - writer->delivered_ns >= SECOND_NS;
    if (!writer->awaited)
        writer->awaited = await_flush();
    return !writer->awaited;
}

__attribute__((noinline)) static tarn_status write_text(tarn_trace_writer *writer,
                                                        const tarn_trace_event *event)
{
    tarn_status status = check_writer(writer);

    if (status != TARN_OK)
        return status;
    pthread_mutex_lock(&writer->lock);
    if (writer->broken || writer->count + ROW_BYTES_MAX > BUFFER_BYTES)
        status = deliver_buffer(writer);
    if (status == TARN_OK) {
        append(writer, event);
        if (is_due(writer))
            status = deliver_buffer(writer);
    }
    return unlock_and_tell(writer, status);
}

__attribute__((noinline)) static tarn_status reject_event(const tarn_trace_writer *writer)
{
    return writer ? tarn_error_set(
                        TARN_INVALID_ARGUMENT,
                        "trace: write: the event is NULL or has an unknown action")
                  : check_writer(writer);
}

tarn_status tarn_trace_write(tarn_trace_writer *writer, const tarn_trace_event *event)
{
    if (!writer || !event || (unsigned)event->action > TARN_ACTION_ALLOCATE_FAILURE)
        return reject_event(writer);
    return writer->binary ? tarn__binary_writer_event(writer->binary, event)
                          : write_text(writer, event);
}

tarn_status tarn_trace_write_pool(tarn_trace_writer *writer,
                                  const tarn_trace_pool_row *row)
{
    if (!writer)
        return check_writer(writer);
    if (!row || row->size < sizeof *row ||
        (unsigned)row->cause > TARN_TRACE_POOL_SNAPSHOT)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "trace: write_pool: the row is NULL, its size is not %zu, or "
            "its cause is unknown",
            sizeof *row);
    return writer->binary ? tarn__binary_writer_pool(writer->binary, row) : TARN_OK;
}

tarn_status tarn_trace_write_mark(tarn_trace_writer *writer, const char *name)
{
    if (!writer || !name)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: write_mark: the writer or the name is NULL");
    return writer->binary ? tarn__binary_writer_mark(
                                writer->binary, name,
                                tarn_trace_writer_time_ns(writer, tarn__clock_now_ns()))
                          : TARN_OK;
}

/* Write the buffer out and unlock the writer, for a caller who looks at the status. */
static tarn_status flush_for_caller(tarn_trace_writer *writer)
{
    tarn_status status = deliver_buffer(writer);

    writer->told |= status != TARN_OK;
    pthread_mutex_unlock(&writer->lock);
    return status;
}

tarn_status tarn_trace_flush(tarn_trace_writer *writer)
{
    if (writer && writer->binary)
        return tarn__binary_writer_check(writer->binary);
    tarn_status status = check_writer(writer);

    if (status != TARN_OK)
        return status;
    pthread_mutex_lock(&writer->lock);
    return flush_for_caller(writer);
}

tarn_status tarn_trace_writer_set_auto_flush(tarn_trace_writer *writer, bool auto_flush)
{
    if (writer && writer->binary)
        return tarn__binary_writer_check(writer->binary);
    tarn_status status = check_writer(writer);

    if (status != TARN_OK)
        return status;
    pthread_mutex_lock(&writer->lock);
    writer->auto_flush = auto_flush;
    return flush_for_caller(writer);
}

tarn_trace_writer *tarn_trace_writer_retain(tarn_trace_writer *writer)
{
    if (writer)
        atomic_fetch_add(&writer->references, 1);
    return writer;
}

/* Close the file; a failure is a warning unless the log was broken before. */
static tarn_status close_file(tarn_trace_writer *writer)
{
    if (tarn__log_file_close(&writer->file))
        return TARN_OK;
    tarn_status status = tarn_error_set_native(TARN_SYSTEM_FAILURE, errno,
                                               "trace: cannot close %.200s: %s",
                                               writer->name, strerror(errno));
    if (!writer->told)
        tarn__warn("%s", tarn_error_last()->message);
    return status;
}

tarn_status tarn_trace_writer_release(tarn_trace_writer *writer)
{
    tarn_status status = TARN_OK, closed;
    unsigned references = writer ? atomic_load(&writer->references) : 0;

    if (!writer)
        return TARN_OK;
    do
        if (references == 1 && !is_inherited(writer) && is_inside(writer))
            return reject_reentrant(writer);
    while (
        !atomic_compare_exchange_weak(&writer->references, &references, references - 1));
    if (references != 1)
        return TARN_OK;
    if (writer->binary) {
        status = tarn__binary_writer_end(writer->binary);
        free_writer(writer);
        return status;
    }
    if (!is_inherited(writer)) {
        if (tarn__writer_has_file(writer))
            delist(writer);
        pthread_mutex_lock(&writer->lock);
        status = unlock_and_tell(writer, deliver_buffer(writer));
    }
    closed = close_file(writer);
    free_writer(writer);
    return status != TARN_OK ? status : closed;
}
