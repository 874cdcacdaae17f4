/* open_logs.c -- all logs of this process: rows that wait, exit, and forks.
 *
 * Rows have waited for half a second: a thread of the library, the flusher, writes those
 * to files, because the program may log no more before it is killed. The thread exists
 * only while rows wait. Functions of the user are called on the user's threads alone.
 *
 * The program exits: the buffers are written out, since many programs never release their
 * logger.
 */
#define _GNU_SOURCE
#include "trace/open_logs.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "trace/binary_writer.h"
#include <stdlib.h>
#include <time.h>

enum { FLUSH_MS = 500 };

/* All buffers of files. Its lock is taken before those of buffers. */
static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    LIST_HEAD(, tarn__text_buffer) buffers;
    atomic_bool exiting;
} all = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* The thread that writes rows out which have waited. Its lock is taken after those of
 * buffers. */
static struct {
    struct tarn__mutex lock;
    bool runs;
    bool has_rows; /* rows have come since its last turn */
} flusher;

/* Flush all files. Several that break are one warning. */
static void flush_all(void)
{
    struct tarn__text_buffer *buffer;
    unsigned broken = 0;

    pthread_mutex_lock(&all.lock);
    LIST_FOREACH (buffer, &all.buffers, link) {
        pthread_mutex_lock(&buffer->lock);
        if (!buffer->broken && tarn__text_buffer_deliver(buffer) != TARN_OK)
            broken += tarn__text_buffer_must_tell(buffer);
        pthread_mutex_unlock(&buffer->lock);
    }
    pthread_mutex_unlock(&all.lock);
    tarn__text_buffer_tell(broken);
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

bool tarn__open_logs_flush_soon(void)
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

void tarn_trace_flush_all(void)
{
    flush_all();
    tarn__binary_writer_trim_all();
}

static void end_all(void)
{
    atomic_store(&all.exiting, true);
    tarn_trace_flush_all();
}

static void begin_watch(void)
{
    atexit(end_all);
}

void tarn__open_logs_watch_exit(void)
{
    pthread_once(&all.once, begin_watch);
}

bool tarn__open_logs_are_exiting(void)
{
    return atomic_load_explicit(&all.exiting, memory_order_relaxed);
}

/* In a forked child: forget the parent's buffers, whichever thread held the lock. */
static void forget_all(void)
{
    pthread_mutex_init(&all.lock, NULL);
    LIST_INIT(&all.buffers);
}

/* In a forked child the flusher does not exist. */
static void forget_flusher(struct tarn__mutex *lock)
{
    (void)lock;
    flusher.runs = flusher.has_rows = false;
}

/* When the library is loaded: a child of a process without a log may create one. */
__attribute__((constructor)) static void watch_forks(void)
{
    tarn__mutex_init(&flusher.lock, forget_flusher);
    pthread_atfork(NULL, NULL, forget_all);
}

void tarn__open_logs_add(struct tarn__text_buffer *buffer)
{
    pthread_mutex_lock(&all.lock);
    LIST_INSERT_HEAD(&all.buffers, buffer, link);
    pthread_mutex_unlock(&all.lock);
}

void tarn__open_logs_remove(struct tarn__text_buffer *buffer)
{
    pthread_mutex_lock(&all.lock);
    LIST_REMOVE(buffer, link);
    pthread_mutex_unlock(&all.lock);
}
