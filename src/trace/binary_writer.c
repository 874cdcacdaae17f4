/* binary_writer.c -- events on their way into a binary log: a chunk for each thread.
 *
 * A row is a few stores into the mapped chunk of its thread, without a lock. Everything
 * else takes the lock of the chunks: another chunk, a stack that the log does not have yet,
 * a pool row.
 *
 * A failure breaks the log permanently: a full disk, mostly. No thread writes a row after
 * that, so the log ends at one time. A record of it tells how many rows are lost.
 *
 * `floor_ns` of the chunks leads a row to the lock where it cannot just be stored. It does
 * so in a log that is broken, in a forked child, and for a row that is older than the
 * checkpoint of a ring.
 *
 * A forked child has no part of its parent's file in its memory. With its first row it
 * creates a file of its own, PATH.PID.
 */
#define _GNU_SOURCE
#include "trace/binary_writer.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/mutex_assert.h"
#include "base/process_barrier.h"
#include "base/thread.h"
#include "base/warn.h"
#include "trace/binary_header.h"
#include "trace/binary_records.h"
#include "trace/binary_ring.h"
#include "trace/binary_slots.h"
#include "trace/stack_table.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

enum { RING_BYTES_MIN = 1 << 20, FOLDS = 3 };

/* Threads that end leave their chunk, so a file need not be much longer than its rows. */
struct tarn__binary_writer {
    struct tarn__binary_chunks chunks; /* first: it is aligned to cache lines */
    struct tarn__binary_slots slots;
    struct tarn__binary_records records;
    struct tarn__binary_ring ring;
    struct tarn__binary_head head;
    char *path; /* owned */
    bool is_ring;

    atomic_uint_least64_t lost; /* rows that found no space */
    atomic_uint_least64_t lost_ns;
    atomic_bool told; /* a warning or a caller knows that the log is broken */

    /* under the lock of the chunks */
    int broken;        /* errno of the failure; 0: none */
    bool is_inherited; /* this is a forked child, and its log is not open yet */
    bool has_folder;   /* a thread folds, or has ended and is not joined */
    bool folder_runs;
    pthread_t folder;

    LIST_ENTRY(tarn__binary_writer) link; /* under all.lock */
};

/* All writers, for forks and for the end of the program. */
static struct {
    struct tarn__mutex lock;
    LIST_HEAD(, tarn__binary_writer) writers;
    uint64_t last_id;
} all;

/* --- a broken log --- */

/* No row goes into the log any more. */
static void break_log(struct tarn__binary_writer *writer, int why)
{
    pthread_mutex_lock(&writer->chunks.lock);
    if (!writer->broken)
        writer->broken = why ? why : EIO;
    atomic_store(&writer->chunks.floor_ns, UINT64_MAX);
    pthread_mutex_unlock(&writer->chunks.lock);
}

static int why_broken(struct tarn__binary_writer *writer)
{
    pthread_mutex_lock(&writer->chunks.lock);
    int why = writer->broken;
    pthread_mutex_unlock(&writer->chunks.lock);
    return why;
}

static tarn_status reject_broken(const struct tarn__binary_writer *writer, int why)
{
    return tarn_error_set_native(TARN_SYSTEM_FAILURE, why,
                                 "trace: cannot write %.200s: %s", writer->path,
                                 strerror(why));
}

/* Fail because the log is broken, with a warning if nobody knows yet. No lock is held. */
static tarn_status fail(struct tarn__binary_writer *writer)
{
    tarn_status status = reject_broken(writer, why_broken(writer));

    if (!atomic_exchange(&writer->told, true))
        tarn__warn("%s; the log ends early", tarn_error_last()->message);
    return status;
}

/* Write how many rows are lost, if there are any. */
static void write_lost(struct tarn__binary_writer *writer)
{
    uint64_t lost = atomic_load(&writer->lost);

    if (lost)
        tarn__binary_records_set_lost(&writer->records, &writer->chunks,
                                      atomic_load(&writer->lost_ns), lost);
}

/* A row of a broken log. */
static tarn_status lose(struct tarn__binary_writer *writer, uint64_t time_ns)
{
    if (atomic_fetch_add(&writer->lost, 1) == 0) {
        atomic_store(&writer->lost_ns, time_ns);
        write_lost(writer);
    }
    return fail(writer);
}

/* --- files --- */

/* Begin a file. Returns false on failure: errno has the reason. `lock` of the chunks
 * held. */
static bool begin_file(struct tarn__binary_writer *writer, const char *path)
{
    struct tarn__binary_chunks *chunks = &writer->chunks;

    tarn__assert_mutex_held(&chunks->lock);

    tarn__binary_header_begin(&writer->head);
    chunks->id = writer->head.header.id;
    if (!tarn__binary_file_open(path, &chunks->file))
        return false;
    tarn__binary_records_reset(&writer->records);
    bool begun =
        tarn__binary_file_reserve(&chunks->file, TARN__BINARY_HEADER_BYTES) &&
        tarn__binary_file_write(&chunks->file, 0, &writer->head, sizeof writer->head) &&
        tarn__binary_records_begin(&writer->records, chunks) == TARN__BINARY_TAKEN;
    if (begun)
        atomic_store(&chunks->floor_ns, 0);
    return begun;
}

/* The path of a forked child's file. */
static void child_path(const struct tarn__binary_writer *writer, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%.*s.%d", PATH_MAX - 16, writer->path, (int)getpid());
}

/* Open the log of a forked child, if this is one. Returns false if the log is broken. */
static bool open_in_child(struct tarn__binary_writer *writer)
{
    char path[PATH_MAX];

    pthread_mutex_lock(&writer->chunks.lock);
    if (writer->is_inherited && !writer->broken) {
        child_path(writer, path);
        if (!begin_file(writer, path))
            writer->broken = errno ? errno : EIO;
        writer->is_inherited = false;
    }
    bool is_whole = !writer->broken;
    pthread_mutex_unlock(&writer->chunks.lock);
    return is_whole;
}

/* Is the log ready for a record? */
static bool is_ready(struct tarn__binary_writer *writer)
{
    return atomic_load_explicit(&writer->chunks.floor_ns, memory_order_acquire) !=
               UINT64_MAX ||
           open_in_child(writer);
}

/* --- the thread that folds --- */

static void *run_folder(void *data)
{
    struct tarn__binary_writer *writer = data;
    uint32_t enough = writer->chunks.ring_chunks / 4;

    if (!tarn__binary_ring_fold(&writer->ring, &writer->chunks, enough))
        break_log(writer, errno);
    pthread_mutex_lock(&writer->chunks.lock);
    writer->folder_runs = false;
    pthread_mutex_unlock(&writer->chunks.lock);
    return NULL;
}

/* Start a thread that folds, if few chunks are free and none runs. `lock` of the chunks
 * held. Without a thread, the one that needs a chunk folds. */
static void start_folder(struct tarn__binary_writer *writer)
{
    struct tarn__binary_chunks *chunks = &writer->chunks;

    tarn__assert_mutex_held(&chunks->lock);

    if (!writer->is_ring || writer->folder_runs ||
        tarn__binary_chunks_has_free(chunks, chunks->ring_chunks / 4))
        return;
    if (writer->has_folder) /* it has let go of the lock, and ends */
        pthread_join(writer->folder, NULL);
    writer->folder_runs = writer->has_folder =
        tarn__thread_start(&writer->folder, run_folder, writer) == 0;
}

static void stop_folder(struct tarn__binary_writer *writer)
{
    pthread_mutex_lock(&writer->chunks.lock);
    bool has_folder = writer->has_folder;
    writer->has_folder = false;
    pthread_mutex_unlock(&writer->chunks.lock);
    if (has_folder)
        pthread_join(writer->folder, NULL);
}

/* --- stacks --- */

/* Make a stack of one frame of a location: `file:line`, or a name. */
static tarn_stack stack_of(const char *location)
{
    char file[4096];
    const char *colon = strrchr(location, ':');
    char *end = NULL;
    long line = colon ? strtol(colon + 1, &end, 10) : 0;
    bool has_line = colon && end > colon + 1 && *end == 0 && line > 0 && line <= INT_MAX;
    size_t length = has_line ? (size_t)(colon - location) : strlen(location);

    if (length >= sizeof file)
        length = sizeof file - 1;
    memcpy(file, location, length);
    file[length] = 0;
    tarn_stack_frame frame = {
        .function = "", .file = file, .line = has_line ? (int)line : 0};
    uint32_t number = tarn_stack_add_frame(&frame);
    return number ? tarn_stack_add(&number, 1) : TARN_STACK_UNKNOWN;
}

/* Return the stack of a location. A thread keeps its last one: a loop allocates in one
 * place. */
__attribute__((noinline)) static tarn_stack stack_at(struct tarn__binary_slot *slot,
                                                     const char *location)
{
    size_t length = strlen(location);

    if (slot->place_stack && length < sizeof slot->place &&
        memcmp(slot->place, location, length + 1) == 0)
        return slot->place_stack;
    slot->place_stack = TARN_STACK_UNKNOWN;
    tarn_stack stack = stack_of(location);
    if (length < sizeof slot->place) {
        memcpy(slot->place, location, length + 1);
        slot->place_stack = stack;
    }
    return stack;
}

/* Return a stack that the log has, after it is defined; TARN_STACK_UNKNOWN: the log cannot
 * have it. */
__attribute__((noinline)) static tarn_stack defined_stack(
    struct tarn__binary_writer *writer, tarn_stack stack)
{
    if (stack == TARN_STACK_UNKNOWN || !is_ready(writer))
        return TARN_STACK_UNKNOWN;
    if (tarn__binary_records_has(&writer->records, stack))
        return stack;
    enum tarn__binary_take taken =
        tarn__binary_records_define_stack(&writer->records, &writer->chunks, stack);
    if (taken == TARN__BINARY_FAILED)
        break_log(writer, errno);
    return taken == TARN__BINARY_TAKEN ? stack : TARN_STACK_UNKNOWN;
}

/* --- rows --- */

/* Store a row behind the others of its chunk, in which there is space. Member by member, so
 * that the compiler keeps them in registers. */
static inline __attribute__((always_inline)) void store_row(
    struct tarn__binary_slot *slot, struct tarn__binary_row *row)
{
    struct tarn__binary_row *place = &slot->rows[slot->index];

    if (row->time_ns < slot->last_ns)
        row->time_ns = slot->last_ns;
    slot->last_ns = row->time_ns;
    place->time_ns = row->time_ns;
    place->address = row->address;
    place->bytes = row->bytes;
    place->stream = row->stream;
    place->stack = row->stack;
    place->duration_ns = row->duration_ns;
    place->action = row->action;
    place->zero = 0;
    place->device = row->device;
    __atomic_store_n(&place->check, tarn__binary_check(slot->seed, slot->index, row),
                     __ATOMIC_RELEASE);
    slot->index++;
}

/* Tell in the slot's chunk that the next rows are of another thread. */
static void store_thread(struct tarn__binary_slot *slot, uint64_t thread)
{
    struct tarn__binary_row row = {
        .time_ns = slot->last_ns, .address = thread, .action = TARN__BINARY_THREAD};

    store_row(slot, &row);
    slot->thread = thread;
}

/* Take a chunk of rows. `attempt` counts from 0: a ring that has nothing to fold grows. */
static enum tarn__binary_take take_chunk(struct tarn__binary_writer *writer,
                                         struct tarn__binary_slot *slot, uint64_t thread,
                                         uint64_t time_ns, int attempt)
{
    struct tarn__binary_chunks *chunks = &writer->chunks;
    struct tarn__binary_part part;

    pthread_mutex_lock(&chunks->lock);
    tarn__binary_chunks_close(chunks, &slot->part, slot->last_ns);
    tarn__binary_slots_forget_part(slot);
    enum tarn__binary_take taken =
        writer->broken ? TARN__BINARY_FAILED
                       : tarn__binary_chunks_take(chunks, TARN__BINARY_USE_ROWS, thread,
                                                  time_ns, 1, attempt >= FOLDS, &part);
    int why = writer->broken ? writer->broken : errno;
    start_folder(writer);
    pthread_mutex_unlock(&chunks->lock);
    if (taken == TARN__BINARY_TAKEN)
        tarn__binary_slots_set_part(slot, &part, thread,
                                    tarn__binary_chunks_rows(chunks));
    errno = why;
    return taken;
}

/* Give the slot another chunk. Returns false if the log is broken now. */
static bool renew_chunk(struct tarn__binary_writer *writer,
                        struct tarn__binary_slot *slot, uint64_t thread, uint64_t time_ns)
{
    enum tarn__binary_take taken;

    for (int attempt = 0;; attempt++) {
        taken = take_chunk(writer, slot, thread, time_ns, attempt);
        if (taken != TARN__BINARY_FULL)
            break;
        if (!tarn__binary_ring_fold(&writer->ring, &writer->chunks, 1)) {
            taken = TARN__BINARY_FAILED;
            break;
        }
    }
    if (taken == TARN__BINARY_FAILED)
        break_log(writer, errno);
    return taken == TARN__BINARY_TAKEN;
}

/* Give a row that is older than the checkpoint the checkpoint's time. Returns false if the
 * row does not matter any more. */
static bool raise_time(struct tarn__binary_writer *writer, struct tarn__binary_row *row)
{
    pthread_mutex_lock(&writer->ring.lock);
    bool takes = tarn__binary_ring_takes(&writer->ring, row);
    row->time_ns = atomic_load(&writer->chunks.floor_ns);
    pthread_mutex_unlock(&writer->ring.lock);
    return takes;
}

/* The slot's last row was stored while its time came before the floor. If the turn that
 * set the floor has not seen it, correct it. */
static void correct_row(struct tarn__binary_writer *writer,
                        struct tarn__binary_slot *slot)
{
    struct tarn__binary_chunks *chunks = &writer->chunks;
    struct tarn__binary_row row = slot->rows[slot->index - 1];

    pthread_mutex_lock(&writer->ring.lock);
    pthread_mutex_lock(&chunks->lock);
    bool is_folded = chunks->places[slot->part.place].folded >= slot->index;
    uint64_t floor_ns = atomic_load(&chunks->floor_ns);
    pthread_mutex_unlock(&chunks->lock);
    if (!is_folded && floor_ns != UINT64_MAX) {
        if (!tarn__binary_ring_takes(&writer->ring, &row)) {
            row.action = TARN__BINARY_THREAD;
            row.address = slot->thread;
        }
        row.time_ns = floor_ns;
        slot->index--;
        store_row(slot, &row);
    }
    pthread_mutex_unlock(&writer->ring.lock);
}

/* Correct the slot's last row if it came too late for its time. */
static void settle_row(struct tarn__binary_writer *writer, struct tarn__binary_slot *slot)
{
    if (tarn__process_barrier_is_on)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&writer->chunks.floor_ns, memory_order_relaxed) >
        slot->last_ns)
        correct_row(writer, slot);
}

/* Write a row that cannot just be stored. */
__attribute__((noinline)) static tarn_status write_slowly(
    struct tarn__binary_writer *writer, struct tarn__binary_slot *slot,
    struct tarn__binary_row row, uint64_t thread)
{
    for (;;) {
        uint64_t floor_ns = atomic_load(&writer->chunks.floor_ns);
        if (floor_ns == UINT64_MAX && !open_in_child(writer))
            return lose(writer, row.time_ns);
        if (floor_ns == UINT64_MAX) { /* another file, which has no stack yet */
            row.stack = defined_stack(writer, row.stack);
            continue;
        }
        if (row.time_ns < floor_ns && !raise_time(writer, &row))
            return TARN_OK;
        if (slot->index == slot->capacity) {
            if (!renew_chunk(writer, slot, thread, row.time_ns))
                return lose(writer, row.time_ns);
        } else if (slot->thread != thread) {
            store_thread(slot, thread);
        } else if (row.time_ns >= atomic_load(&writer->chunks.floor_ns)) {
            break;
        }
    }
    store_row(slot, &row);
    if (writer->is_ring)
        settle_row(writer, slot);
    return TARN_OK;
}

static uint32_t duration_of(const tarn_trace_event *event)
{
    uint64_t duration_ns =
        event->end_ns > event->start_ns ? event->end_ns - event->start_ns : 0;

    return duration_ns < UINT32_MAX ? (uint32_t)duration_ns : UINT32_MAX;
}

__attribute__((noinline)) static tarn_status reject_thread(
    const struct tarn__binary_writer *writer)
{
    return tarn_error_set(TARN_OUT_OF_MEMORY,
                          "trace: no host memory for a thread of %.200s", writer->path);
}

tarn_status tarn__binary_writer_event(struct tarn__binary_writer *writer,
                                      const tarn_trace_event *event)
{
    struct tarn__binary_slot *slot = tarn__binary_slots_own;
    struct tarn__binary_row row = {
        .time_ns = event->action == TARN_ACTION_FREE ? event->start_ns : event->end_ns,
        .address = event->address,
        .bytes = event->bytes,
        .stream = event->stream,
        .stack = event->stack,
        .duration_ns = duration_of(event),
        .action = (uint8_t)event->action,
        .device = (int16_t)event->device};

    if (!slot ||
        atomic_load_explicit(&slot->writer, memory_order_relaxed) != writer->slots.writer)
        slot = tarn__binary_slots_find(&writer->slots, row.time_ns);
    if (!slot)
        return reject_thread(writer);
    if (row.stack == TARN_STACK_UNKNOWN && event->location && *event->location)
        row.stack = stack_at(slot, event->location);
    if (row.stack != TARN_STACK_UNKNOWN &&
        !tarn__binary_records_has(&writer->records, row.stack))
        row.stack = defined_stack(writer, row.stack);
    uint64_t thread = event->thread ? event->thread : slot->own_thread;
    if (slot->index == slot->capacity || slot->thread != thread ||
        row.time_ns <
            atomic_load_explicit(&writer->chunks.floor_ns, memory_order_relaxed))
        return write_slowly(writer, slot, row, thread);
    store_row(slot, &row);
    if (writer->is_ring)
        settle_row(writer, slot);
    return TARN_OK;
}

/* --- pool rows and marks --- */

/* After an attempt to write an event: return true if it is to be made again. */
static bool must_retry(struct tarn__binary_writer *writer, enum tarn__binary_take *taken,
                       int attempt)
{
    if (*taken != TARN__BINARY_FULL || attempt >= FOLDS)
        return false;
    if (!tarn__binary_ring_fold(&writer->ring, &writer->chunks, 1))
        *taken = TARN__BINARY_FAILED;
    return *taken == TARN__BINARY_FULL;
}

/* Return the status of a record. A ring that has no space for it leaves it out. */
static tarn_status end_record(struct tarn__binary_writer *writer,
                              enum tarn__binary_take taken)
{
    if (taken != TARN__BINARY_FAILED)
        return TARN_OK;
    break_log(writer, errno);
    return fail(writer);
}

tarn_status tarn__binary_writer_pool(struct tarn__binary_writer *writer,
                                     const tarn_trace_pool_row *row)
{
    tarn_trace_pool_row copy = *row;
    enum tarn__binary_take taken;
    int attempt = 0;

    if (!is_ready(writer))
        return fail(writer);
    copy.stack = defined_stack(writer, row->stack);
    do
        taken = tarn__binary_records_add_pool(&writer->records, &writer->chunks, &copy);
    while (must_retry(writer, &taken, attempt++));
    return end_record(writer, taken);
}

tarn_status tarn__binary_writer_mark(struct tarn__binary_writer *writer, const char *name,
                                     uint64_t time_ns)
{
    uint32_t string = tarn__stack_table_string(name);
    enum tarn__binary_take taken;
    int attempt = 0;

    if (!is_ready(writer))
        return fail(writer);
    if (string == 0)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "trace: no space for the mark %.200s",
                              name);
    taken = tarn__binary_records_define_string(&writer->records, &writer->chunks, string);
    if (taken != TARN__BINARY_TAKEN)
        return end_record(writer, taken);
    do
        taken = tarn__binary_records_add_mark(&writer->records, &writer->chunks, string,
                                              time_ns);
    while (must_retry(writer, &taken, attempt++));
    return end_record(writer, taken);
}

/* --- lifecycle --- */

static void enlist(struct tarn__binary_writer *writer)
{
    tarn__mutex_lock(&all.lock);
    writer->slots.writer = ++all.last_id;
    LIST_INSERT_HEAD(&all.writers, writer, link);
    tarn__mutex_unlock(&all.lock);
}

static void delist(struct tarn__binary_writer *writer)
{
    tarn__mutex_lock(&all.lock);
    LIST_REMOVE(writer, link);
    tarn__mutex_unlock(&all.lock);
}

/* In a forked child: leave the parent's file. What other threads were changing stays as it
 * is, also their memory. */
static void leave_file(struct tarn__binary_writer *writer)
{
    struct tarn__binary_chunks *chunks = &writer->chunks;

    atomic_store(&chunks->floor_ns, UINT64_MAX);
    tarn__binary_file_close(&chunks->file);
    pthread_mutex_init(&chunks->lock, NULL);
    chunks->next_number = chunks->start_ns = 0;
    chunks->place_count = chunks->place_capacity = chunks->next_free = 0;
    chunks->places = NULL;
    memset(chunks->used, 0, sizeof chunks->used);
    writer->records.definitions = writer->records.events =
        (struct tarn__binary_stream){0};
    tarn__binary_ring_init(&writer->ring);
    tarn__binary_slots_in_child(&writer->slots);
    writer->is_inherited = true;
    writer->broken = 0;
    writer->has_folder = writer->folder_runs = false;
    atomic_store(&writer->lost, 0);
    atomic_store(&writer->told, false);
}

static void leave_files(struct tarn__mutex *lock)
{
    struct tarn__binary_writer *writer;

    (void)lock;
    LIST_FOREACH (writer, &all.writers, link)
        leave_file(writer);
}

__attribute__((constructor)) static void watch_forks(void)
{
    tarn__mutex_init(&all.lock, leave_files);
}

/* Return a path that stays right when the program changes its folder. */
static char *absolute(const char *path)
{
    char folder[PATH_MAX], *out = NULL;

    if (*path == '/' || !getcwd(folder, sizeof folder))
        return strdup(path);
    return asprintf(&out, "%s/%s", folder, path) < 0 ? NULL : out;
}

static void free_writer(struct tarn__binary_writer *writer)
{
    tarn__binary_records_free(&writer->records);
    tarn__binary_ring_free(&writer->ring);
    pthread_mutex_destroy(&writer->chunks.lock);
    free(writer->chunks.places);
    free(writer->path);
    free(writer);
}

static struct tarn__binary_writer *make_writer(const char *path,
                                               const struct tarn__binary_options *options)
{
    struct tarn__binary_writer *writer = tarn__cache_line_allocate(
        (sizeof *writer + TARN__CACHE_LINE - 1) / TARN__CACHE_LINE * TARN__CACHE_LINE);

    if (!writer)
        return NULL;
    pthread_mutex_init(&writer->chunks.lock, NULL);
    tarn__binary_ring_init(&writer->ring);
    writer->path = absolute(path);
    if (!tarn__binary_records_init(&writer->records) || !writer->path) {
        free_writer(writer);
        return NULL;
    }
    writer->is_ring = options->ring_bytes > 0;
    writer->chunks.file.descriptor = -1;
    writer->chunks.chunk_bytes = TARN__BINARY_CHUNK_BYTES;
    writer->chunks.ring_chunks =
        (uint32_t)(options->ring_bytes / TARN__BINARY_CHUNK_BYTES);
    tarn__binary_header_describe(&writer->head, options->made_ns);
    writer->head.header.stack_depth = options->stack_depth;
    writer->head.header.ring_chunks = writer->chunks.ring_chunks;
    writer->head.header.flags = writer->is_ring ? TARN__BINARY_RING : 0;
    return writer;
}

tarn_status tarn__binary_writer_open(const char *path,
                                     const struct tarn__binary_options *options,
                                     struct tarn__binary_writer **out)
{
    if (options->ring_bytes && (options->ring_bytes < RING_BYTES_MIN ||
                                options->ring_bytes / TARN__BINARY_CHUNK_BYTES > INT_MAX))
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "trace: writer_open: ring_bytes is %llu, at least %d and at most 128 TiB are "
            "possible",
            (unsigned long long)options->ring_bytes, RING_BYTES_MIN);
    struct tarn__binary_writer *writer = make_writer(path, options);
    if (!writer)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "trace: no host memory for a writer");
    pthread_mutex_lock(&writer->chunks.lock);
    bool begun = begin_file(writer, writer->path);
    int why = errno;
    pthread_mutex_unlock(&writer->chunks.lock);
    if (!begun) {
        tarn_status status =
            tarn_error_set_native(TARN_SYSTEM_FAILURE, why,
                                  "trace: cannot create %.200s: %s", path, strerror(why));
        tarn__binary_file_close(&writer->chunks.file);
        free_writer(writer);
        return status;
    }
    enlist(writer);
    *out = writer;
    return TARN_OK;
}

tarn_status tarn__binary_writer_check(struct tarn__binary_writer *writer)
{
    int why = why_broken(writer);

    if (!why)
        return TARN_OK;
    write_lost(writer);
    atomic_store(&writer->told, true);
    return reject_broken(writer, why);
}

/* The end of the chunks in the file. `lock` of the chunks held. */
static bool trim(struct tarn__binary_chunks *chunks)
{
    tarn__assert_mutex_held(&chunks->lock);

    return tarn__binary_file_trim(
        &chunks->file, tarn__binary_chunks_offset(chunks, chunks->place_count));
}

tarn_status tarn__binary_writer_end(struct tarn__binary_writer *writer)
{
    struct tarn__binary_chunks *chunks = &writer->chunks;

    delist(writer);
    stop_folder(writer);
    tarn_status status = TARN_OK;
    if (why_broken(writer)) {
        write_lost(writer);
        status = fail(writer);
    }
    tarn__binary_slots_end(&writer->slots);
    pthread_mutex_lock(&chunks->lock);
    tarn__binary_records_end(&writer->records, chunks);
    bool is_closed = trim(chunks);
    is_closed = tarn__binary_file_close(&chunks->file) && is_closed;
    int why = errno;
    pthread_mutex_unlock(&chunks->lock);
    if (!is_closed && status == TARN_OK)
        status = tarn_error_set_native(TARN_SYSTEM_FAILURE, why,
                                       "trace: cannot close %.200s: %s", writer->path,
                                       strerror(why));
    free_writer(writer);
    return status;
}

void tarn__binary_writer_trim_all(void)
{
    struct tarn__binary_writer *writer;

    tarn__mutex_lock(&all.lock);
    LIST_FOREACH (writer, &all.writers, link) {
        struct tarn__binary_chunks *chunks = &writer->chunks;
        if (pthread_mutex_trylock(&chunks->lock) != 0)
            continue; /* it does not wait: a fork takes this lock and not that one */
        trim(chunks);
        pthread_mutex_unlock(&chunks->lock);
    }
    tarn__mutex_unlock(&all.lock);
}
