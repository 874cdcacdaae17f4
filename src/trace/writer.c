/* writer.c -- events on their way into a log: one buffer, whole lines, any thread.
 *
 * A row is built in the buffer itself, under the writer's lock, so lines of two threads
 * cannot mix. The buffer is written out in three cases:
 *
 *   - It is full.
 *   - A second has passed since the last write, so that a log can be watched and a crash
 *     loses little.
 *   - The program exits: many programs never release their logger.
 *
 * A write that fails once breaks the log permanently, and every later call reports that.
 * Continuing would leave an unnoticed gap in it. A forked child has a copy of the buffer
 * and the file, and must use neither.
 */
#define _GNU_SOURCE
#include "base/mutex_assert.h"
#include "base/clock.h"
#include "base/warn.h"
#include "trace/format.h"
#include "trace/row.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 64 * 1024 };
static const uint64_t SECOND_NS = 1000000000u;
static const int64_t DAY_SECONDS = 24 * 60 * 60;
static const uint64_t DAY_NS = 24 * 60 * 60 * (uint64_t)1000000000u;

struct tarn_trace_writer {
    const struct tarn__format *format;
    tarn_trace_write_fn write; /* takes whole lines; called under the lock */
    void *data;                /* of `write` */
    _Atomic(pthread_t) inside; /* the thread that is in `write`; 0: none */
    int file;                  /* to be closed by the writer; -1: there is none */
    char *name;                /* for messages; owned */
    atomic_uint references;
    unsigned process;  /* value of `processes` when the writer was made */
    uint64_t made_ns;  /* CLOCK_MONOTONIC */
    uint64_t made_day; /* the same moment in ns since midnight, local time */
    struct tarn_trace_writer *next, *previous; /* in the list of all writers; under
                                                * all.lock */

    pthread_mutex_t lock; /* guards what follows */
    int broken;           /* errno of the write that failed; 0: none failed */
    uint64_t delivered_ns;
    size_t count; /* bytes in the buffer */
    char buffer[BUFFER_BYTES];
};

/* All writers to files, for the flush at exit. */
static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    struct tarn_trace_writer *first;
    atomic_bool exiting; /* from now on nothing may stay in a buffer */
} all = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

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
    writer->delivered_ns = tarn__clock_now_ns();
    if (taken)
        return TARN_OK;
    writer->broken = errno ? errno : EIO;
    return reject_broken(writer);
}

static bool write_file(void *data, const char *bytes, size_t count)
{
    tarn_trace_writer *writer = data;

    while (count > 0) {
        ssize_t written = write(writer->file, bytes, count);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        }
    }
    return true;
}

static void flush_all_at_exit(void)
{
    unsigned failed = 0;

    atomic_store(&all.exiting, true);
    pthread_mutex_lock(&all.lock);
    for (tarn_trace_writer *writer = all.first; writer; writer = writer->next)
        failed += tarn_trace_flush(writer) != TARN_OK;
    pthread_mutex_unlock(&all.lock);
    if (failed > 0)
        tarn__warn("trace: %u logs are incomplete at exit: %s", failed,
                   tarn_error_last()->message);
}

/* Local time minus UTC, in seconds. glibc takes a lock to find it. In a forked child that
 * lock may be held forever, so a child uses the value that its parent had at the fork. */
static atomic_llong zone;

static void note_zone(void)
{
    time_t now = time(NULL);
    struct tm local;

    if (processes == 0 && localtime_r(&now, &local))
        atomic_store(&zone, (local.tm_hour * 60 + local.tm_min) * 60 + local.tm_sec -
                                now % DAY_SECONDS);
}

/* In a forked child: forget the parent's writers, whichever thread held the lock. */
static void start_anew(void)
{
    processes++;
    pthread_mutex_init(&all.lock, NULL);
    all.first = NULL;
}

/* When the library is loaded: a child of a process without a writer may create one. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(note_zone, NULL, start_anew);
}

static void watch_exit(void)
{
    atexit(flush_all_at_exit);
}

static void enlist(tarn_trace_writer *writer)
{
    pthread_mutex_lock(&all.lock);
    writer->next = all.first;
    if (all.first)
        all.first->previous = writer;
    all.first = writer;
    pthread_mutex_unlock(&all.lock);
}

static void delist(tarn_trace_writer *writer)
{
    pthread_mutex_lock(&all.lock);
    if (writer->previous)
        writer->previous->next = writer->next;
    else
        all.first = writer->next;
    if (writer->next)
        writer->next->previous = writer->previous;
    pthread_mutex_unlock(&all.lock);
}

static uint64_t since_midnight_ns(void)
{
    struct timespec now;

    note_zone();
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t seconds = (now.tv_sec + atomic_load(&zone) + DAY_SECONDS) % DAY_SECONDS;
    return (uint64_t)seconds * SECOND_NS + (uint64_t)now.tv_nsec;
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

/* Create a writer without a destination yet; its header is in the buffer. */
static tarn_status make_writer(tarn_trace_format id, const char *name,
                               tarn_trace_writer **out)
{
    const struct tarn__format *format = tarn__row_format(id);

    if (!format)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "trace: unknown format %d", (int)id);
    tarn_trace_writer *writer = calloc(1, sizeof *writer);
    char *copy = strdup(name);
    if (!writer || !copy) {
        free(writer);
        free(copy);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "trace: no host memory for a writer");
    }
    pthread_once(&all.once, watch_exit);
    writer->format = format;
    writer->name = copy;
    writer->file = -1;
    writer->process = processes;
    writer->made_ns = writer->delivered_ns = tarn__clock_now_ns();
    writer->made_day = since_midnight_ns();
    atomic_init(&writer->references, 1);
    pthread_mutex_init(&writer->lock, NULL);
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

tarn_status tarn_trace_writer_open(const char *path, tarn_trace_format format,
                                   tarn_trace_writer **out)
{
    tarn_trace_writer *writer;

    if (!path || !*path || !out)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "trace: writer_open: path is NULL or empty, or out is NULL");
    tarn_status status = make_writer(format, path, &writer);
    if (status != TARN_OK)
        return status;
    writer->file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (writer->file < 0) {
        status = tarn_error_set_native(TARN_SYSTEM_FAILURE, errno,
                                       "trace: cannot create %.200s: %s", path,
                                       strerror(errno));
        free_writer(writer);
        return status;
    }
    writer->write = write_file;
    writer->data = writer;
    enlist(writer);
    *out = writer;
    return TARN_OK;
}

tarn_status tarn_trace_writer_create(tarn_trace_write_fn write, void *data,
                                     tarn_trace_format format, tarn_trace_writer **out)
{
    tarn_trace_writer *writer;

    if (!write || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: writer_create: write or out is NULL");
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

    if (writer->format->id == TARN_TRACE_RMM)
        return (writer->made_day + since % DAY_NS) % DAY_NS;
    return since;
}

tarn_trace_format tarn_trace_writer_format(const tarn_trace_writer *writer)
{
    return writer->format->id;
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

static bool is_due(const tarn_trace_writer *writer)
{
    return tarn__clock_now_ns() - writer->delivered_ns >= SECOND_NS ||
           atomic_load_explicit(&all.exiting, memory_order_relaxed);
}

tarn_status tarn_trace_write(tarn_trace_writer *writer, const tarn_trace_event *event)
{
    tarn_status status = check_writer(writer);

    if (status != TARN_OK)
        return status;
    if (!event || (unsigned)event->action > TARN_ACTION_ALLOCATE_FAILURE)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: write: the event is NULL or has an unknown action");
    pthread_mutex_lock(&writer->lock);
    if (writer->broken || writer->count + ROW_BYTES_MAX > BUFFER_BYTES)
        status = deliver_buffer(writer);
    if (status == TARN_OK) {
        append(writer, event);
        if (is_due(writer))
            status = deliver_buffer(writer);
    }
    pthread_mutex_unlock(&writer->lock);
    return status;
}

tarn_status tarn_trace_flush(tarn_trace_writer *writer)
{
    tarn_status status = check_writer(writer);

    if (status != TARN_OK)
        return status;
    pthread_mutex_lock(&writer->lock);
    status = deliver_buffer(writer);
    pthread_mutex_unlock(&writer->lock);
    return status;
}

tarn_trace_writer *tarn_trace_writer_retain(tarn_trace_writer *writer)
{
    if (writer)
        atomic_fetch_add(&writer->references, 1);
    return writer;
}

/* Some file systems report only here that they had no space. */
static tarn_status close_file(tarn_trace_writer *writer)
{
    if (writer->file < 0 || close(writer->file) == 0)
        return TARN_OK;
    return tarn_error_set_native(TARN_SYSTEM_FAILURE, errno,
                                 "trace: cannot close %.200s: %s", writer->name,
                                 strerror(errno));
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
    if (!is_inherited(writer)) {
        if (writer->file >= 0)
            delist(writer);
        status = tarn_trace_flush(writer);
    }
    closed = close_file(writer);
    free_writer(writer);
    return status != TARN_OK ? status : closed;
}
