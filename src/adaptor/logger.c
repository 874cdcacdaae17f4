/* logger.c -- a resource that logs its calls.
 *
 * It writes every row after the upstream call, so that the times and the device's free
 * memory are those of the event. A free that failed leaves no row.
 *
 * The order of the rows must be consistent all the same. Once the upstream has a block
 * back, another thread may get it, and that row must not precede the row of the free. So
 * an allocation that returned an address whose free is still being written waits for it.
 * RMM writes the free before it happens instead, and has neither times nor memory
 * figures.
 *
 * In a binary log a row has the time at which a free began, and at which an allocation
 * ended. That is the order, whenever the rows are written, so no allocation waits there.
 *
 * A row of text costs the writer's lock and, in the NBEP 7 format alone, a query of the device's
 * free memory. That query takes the driver microseconds. The logger makes it where the
 * call may have changed the value: where the call was a blocking one
 * (base/blocking_hook.h). Otherwise it makes it once in a millisecond, because of other
 * users. A log that cannot be written does not stop the program: the writer keeps the
 * failure, and reports it at its flush and its last release. A writer to a file warns.
 */
#include "adaptor/forward.h"
#include "adaptor/pool_rows.h"
#include "base/blocking_hook.h"
#include "base/cancellation.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/mutex_assert.h"
#include "base/thread.h"
#include "base/warn.h"
#include "driver/stream.h"
#include "trace/site.h"
#include "trace/writer.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLACE_BYTES = 4096 + 16 }; /* the writer cuts at 4,096 */
enum { FRESH_NS = 1000000 };

/* The device's free memory at a query. */
struct figures {
    size_t free_bytes, total_bytes;
    uint64_t queried_ns; /* 0: never */
};

/* A free between its upstream call and its row; on the stack of the freeing thread. */
struct passing {
    tarn_device_ptr block;
    pthread_t thread;
    struct passing *next;
};

struct logger {
    struct tarn__adaptor adaptor; /* does the real work */
    tarn_trace_writer *writer;    /* retained */
    bool wants_figures;           /* the format has columns for memory and places */
    bool is_binary;
    unsigned stack_depth; /* frames to capture for each row */
    struct tarn__pool_rows pool_rows;
    atomic_uint_least64_t live_blocks;

    /* guards the fields below; never held during upstream calls */
    struct tarn__mutex lock;
    struct figures figures;
    pthread_cond_t row_written;
    struct passing *passing; /* frees under way */
};

/* --- frees under way --- */

static void begin_free(struct logger *logger, struct passing *passing)
{
    tarn__mutex_lock(&logger->lock);
    passing->next = logger->passing;
    logger->passing = passing;
    tarn__mutex_unlock(&logger->lock);
}

static void end_free(struct logger *logger, struct passing *passing)
{
    struct passing **link = &logger->passing;

    tarn__mutex_lock(&logger->lock);
    while (*link != passing)
        link = &(*link)->next;
    *link = passing->next;
    pthread_cond_broadcast(&logger->row_written);
    tarn__mutex_unlock(&logger->lock);
}

/* Return true if another thread is still writing the free of `block`. `lock` held. A
 * thread does not wait for itself: an upstream may allocate from here inside its
 * deallocate. */
static bool is_passing(const struct logger *logger, tarn_device_ptr block)
{
    tarn__assert_mutex_held(&logger->lock.mutex);

    const struct passing *passing = logger->passing;

    while (passing &&
           (passing->block != block || pthread_equal(passing->thread, pthread_self())))
        passing = passing->next;
    return passing != NULL;
}

static void await_row_of_free(struct logger *logger, tarn_device_ptr block)
{
    TARN__NOT_CANCELLED;
    tarn__mutex_lock(&logger->lock);
    while (is_passing(logger, block))
        pthread_cond_wait(&logger->row_written, &logger->lock.mutex);
    tarn__mutex_unlock(&logger->lock);
}

/* In a forked child the other threads do not exist, and write no row. */
static void forget_other_threads(struct tarn__mutex *lock)
{
    struct logger *logger =
        (struct logger *)((char *)lock - offsetof(struct logger, lock));
    struct passing **link = &logger->passing;

    while (*link)
        if (pthread_equal((*link)->thread, pthread_self()))
            link = &(*link)->next;
        else
            *link = (*link)->next;
    pthread_cond_init(&logger->row_written, NULL);
}

/* --- rows --- */

/* Detects whether the call was a blocking one. It also calls the hook that was set
 * before. */
struct hook_probe {
    tarn_blocking_hook before; /* first: note_blocking_call() gets its address */
    tarn_blocking_hook *outer;
    bool was_called;
};

static void note_blocking_call(tarn_blocking_hook *self)
{
    struct hook_probe *hook_probe = (struct hook_probe *)self;

    hook_probe->was_called = true;
    if (hook_probe->outer)
        hook_probe->outer->call(hook_probe->outer);
}

static void hook_probe_begin(struct hook_probe *hook_probe)
{
    *hook_probe = (struct hook_probe){.before = {note_blocking_call}};
    hook_probe->outer = tarn_set_blocking_hook(&hook_probe->before);
}

static bool hook_probe_end(struct hook_probe *hook_probe)
{
    tarn_set_blocking_hook(hook_probe->was_called ? NULL : hook_probe->outer);
    return hook_probe->was_called;
}

static struct figures known_figures(struct logger *logger)
{
    tarn__mutex_lock(&logger->lock);
    struct figures known = logger->figures;
    tarn__mutex_unlock(&logger->lock);
    return known;
}

static void keep_figures(struct logger *logger, const struct figures *figures)
{
    tarn__mutex_lock(&logger->lock);
    if (figures->queried_ns >= logger->figures.queried_ns)
        logger->figures = *figures;
    tarn__mutex_unlock(&logger->lock);
}

/* Query the figures; zeros mean unknown. */
static void query_figures(int device, struct figures *out)
{
    struct tarn__scope scope;
    size_t free_bytes = 0, total_bytes = 0;

    /* A log does not open a driver that is not open yet. */
    if (device < 0 || device >= tarn__driver_device_count() || tarn__driver_gone())
        return;
    if (tarn__scope_enter(device, &scope) != TARN_OK)
        return;
    if (scope.calls->mem_get_info(&free_bytes, &total_bytes) == CUDA_SUCCESS_) {
        out->free_bytes = free_bytes;
        out->total_bytes = total_bytes;
    }
    tarn__scope_leave(&scope);
}

/* Return the device's free memory at `now`. */
static void read_memory(struct logger *logger, bool may_have_changed, uint64_t now,
                        tarn_trace_event *event)
{
    struct figures figures = known_figures(logger);

    if (may_have_changed || figures.queried_ns == 0 ||
        now - figures.queried_ns > FRESH_NS) {
        figures = (struct figures){.queried_ns = now};
        query_figures(event->device, &figures);
        keep_figures(logger, &figures);
    }
    event->free_bytes = figures.free_bytes;
    event->total_bytes = figures.total_bytes;
}

/* Write a site as text: `file:line`, or a name without a line, unchanged. */
static void write_place(const tarn_site *site, char place[PLACE_BYTES],
                        tarn_trace_event *event)
{
    if (!site->file)
        return;
    if (site->line > 0)
        snprintf(place, PLACE_BYTES, "%s:%d", site->file, site->line);
    else
        snprintf(place, PLACE_BYTES, "%s", site->file);
    event->location = place;
}

static void read_place(char place[PLACE_BYTES], tarn_trace_event *event)
{
    tarn_site site = tarn__site_find(event->action == TARN_ACTION_FREE);

    write_place(&site, place, event);
}

/* Capture the stack of a binary row. Memory that the garbage collector frees, or the end of
 * the program, has that name in place of the stack. */
static void read_stack(const struct logger *logger, char place[PLACE_BYTES],
                       tarn_trace_event *event)
{
    bool is_free = event->action == TARN_ACTION_FREE;
    tarn_site site = {0};

    if (logger->stack_depth == 0)
        return;
    if (is_free || logger->stack_depth == 1)
        site = tarn__site_find(is_free);
    if (site.file && (site.line == 0 || logger->stack_depth == 1))
        write_place(&site, place, event);
    else
        event->stack = tarn_stack_capture(logger->stack_depth);
}

/* Complete `event` and write it; the thread's last failure stays. */
static void write_row(struct logger *logger, bool may_have_changed,
                      tarn_trace_event *event)
{
    struct tarn__kept_error last_error = tarn__error_keep();
    uint64_t now = event->end_ns;
    char place[PLACE_BYTES];

    event->device = tarn_resource_device(logger->adaptor.upstream);
    event->thread = tarn__thread_id();
    event->start_ns = tarn_trace_writer_time_ns(logger->writer, event->start_ns);
    event->end_ns = tarn_trace_writer_time_ns(logger->writer, event->end_ns);
    if (logger->wants_figures) {
        read_memory(logger, may_have_changed, now, event);
        read_place(place, event);
    } else if (logger->is_binary) {
        read_stack(logger, place, event);
    }
    tarn_trace_write(logger->writer, event);
    tarn__error_restore(&last_error);
    tarn__pool_rows_note(&logger->pool_rows, event->stack);
}

/* --- operations --- */

static tarn_status logger_allocate(void *self, size_t bytes, size_t alignment,
                                   tarn_stream stream, tarn_device_ptr *out)
{
    struct logger *logger = self;
    tarn_trace_event event = {.stream = tarn__stream_number(stream), .bytes = bytes};
    tarn_device_ptr block = 0;
    struct hook_probe hook_probe;

    hook_probe_begin(&hook_probe);
    event.start_ns = tarn__clock_now_ns();
    tarn_status status = tarn_resource_allocate(logger->adaptor.upstream, bytes,
                                                alignment, stream, &block);
    event.end_ns = tarn__clock_now_ns();
    bool may_have_changed = hook_probe_end(&hook_probe);
    if (status == TARN_OK) {
        if (!logger->is_binary)
            await_row_of_free(logger, block);
        event.action = TARN_ACTION_ALLOCATE;
        event.live_blocks = atomic_fetch_add(&logger->live_blocks, 1) + 1;
        event.address = *out = block;
    } else {
        event.action = TARN_ACTION_ALLOCATE_FAILURE;
        event.live_blocks = atomic_load(&logger->live_blocks);
    }
    write_row(logger, may_have_changed, &event);
    if (status == TARN_OUT_OF_MEMORY)
        tarn__pool_rows_note_failure(&logger->pool_rows, event.stack);
    return status;
}

static tarn_status logger_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                     size_t alignment, tarn_stream stream)
{
    struct logger *logger = self;
    struct passing passing = {.block = block, .thread = pthread_self()};
    tarn_trace_event event = {.action = TARN_ACTION_FREE,
                              .address = block,
                              .stream = tarn__stream_number(stream),
                              .bytes = bytes};
    struct hook_probe hook_probe;

    if (!logger->is_binary)
        begin_free(logger, &passing);
    hook_probe_begin(&hook_probe);
    event.start_ns = tarn__clock_now_ns();
    tarn_status status = tarn_resource_deallocate(logger->adaptor.upstream, block, bytes,
                                                  alignment, stream);
    event.end_ns = tarn__clock_now_ns();
    bool may_have_changed = hook_probe_end(&hook_probe);
    if (status == TARN_OK) {
        event.live_blocks = atomic_fetch_sub(&logger->live_blocks, 1) - 1;
        write_row(logger, may_have_changed, &event);
    }
    if (!logger->is_binary)
        end_free(logger, &passing);
    return status;
}

static tarn_status logger_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    struct logger *logger = self;
    tarn_status status = tarn__forward_trim(self, keep_bytes, released_out);

    if (status == TARN_OK)
        tarn__pool_rows_write(&logger->pool_rows, TARN_TRACE_POOL_TRIM,
                              TARN_STACK_UNKNOWN);
    return status;
}

/* RMM's log has these requests too, with the pointer (nil). */
static void logger_empty_request(void *self, bool is_free, tarn_stream stream)
{
    struct logger *logger = self;
    uint64_t now = tarn__clock_now_ns();
    tarn_trace_event event = {.action = is_free ? TARN_ACTION_FREE : TARN_ACTION_ALLOCATE,
                              .stream = tarn__stream_number(stream),
                              .live_blocks = atomic_load(&logger->live_blocks),
                              .start_ns = now,
                              .end_ns = now};

    tarn__forward_empty_request(self, is_free, stream);
    write_row(logger, false, &event);
}

/* A log that could not be written is reported once, by the last owner of the writer. */
static void logger_free(struct logger *logger)
{
    bool warns = tarn__writer_has_file(logger->writer);

    if (tarn_trace_writer_release(logger->writer) != TARN_OK && !warns)
        tarn__warn("logger: %s", tarn_error_last()->message);
    pthread_cond_destroy(&logger->row_written);
    tarn__mutex_destroy(&logger->lock);
    free(logger);
}

static void logger_destroy(void *self)
{
    struct logger *logger = self;

    tarn__forward_end(&logger->adaptor);
    logger_free(logger);
}

const tarn_resource_ops tarn__logger_ops = {
    .size = sizeof tarn__logger_ops,
    .name = "logger",
    .allocate = logger_allocate,
    .deallocate = logger_deallocate,
    .destroy = logger_destroy,
    TARN__FORWARD_QUERIES(logger_empty_request, logger_trim),
};

tarn_status tarn_logger_create(tarn_resource *upstream, tarn_trace_writer *writer,
                               tarn_resource **out)
{
    if (!upstream || !writer || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "logger: create: upstream, writer or out is NULL");
    struct logger *logger = calloc(1, sizeof *logger);
    if (!logger)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "logger: no host memory");
    logger->writer = tarn_trace_writer_retain(writer);
    logger->wants_figures = tarn_trace_writer_format(writer) == TARN_TRACE_NBEP7;
    logger->is_binary = tarn_trace_writer_format(writer) == TARN_TRACE_BINARY;
    logger->stack_depth = tarn_trace_writer_stack_depth(writer);
    atomic_init(&logger->live_blocks, 0);
    tarn__mutex_init(&logger->lock, forget_other_threads);
    pthread_cond_init(&logger->row_written, NULL);
    tarn_status status =
        tarn__forward_create(&tarn__logger_ops, &logger->adaptor, upstream, out);
    if (status == TARN_OK)
        tarn__pool_rows_begin(&logger->pool_rows, upstream, writer);
    else
        logger_free(logger);
    return status;
}
