/* binary_rows.c -- the rows of a binary log: a chunk for each thread.
 *
 * A row is a few stores into the mapped chunk of its thread, without a lock. Everything
 * else takes the lock of the chunks: another chunk, or a stack that the log does not have
 * yet.
 *
 * `floor_ns` of the chunks leads a row to the lock where it cannot just be stored. It does
 * so in a log that is broken, in a forked child, and for a row that is older than the
 * checkpoint of a ring.
 */
#include "trace/binary_rows.h"
#include "base/process_barrier.h"
#include "trace/binary_folder.h"
#include "trace/binary_output.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

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

/* Close a part that cannot be used, and keep errno. */
static void drop_part(struct tarn__binary_chunks *chunks, struct tarn__binary_part *part,
                      uint64_t time_ns)
{
    int why = errno;

    pthread_mutex_lock(&chunks->lock);
    tarn__binary_chunks_close(chunks, part, time_ns);
    pthread_mutex_unlock(&chunks->lock);
    errno = why;
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
        writer->broken
            ? TARN__BINARY_FAILED
            : tarn__binary_chunks_take(chunks, TARN__BINARY_USE_ROWS, thread, time_ns, 1,
                                       attempt >= TARN__BINARY_FOLDS, &part);
    int why = writer->broken ? writer->broken : errno;
    tarn__binary_folder_start(writer);
    pthread_mutex_unlock(&chunks->lock);
    errno = why;
    if (taken != TARN__BINARY_TAKEN)
        return taken;
    if (!tarn__binary_chunks_begin(chunks, &part)) {
        drop_part(chunks, &part, time_ns);
        return TARN__BINARY_FAILED;
    }
    tarn__binary_slots_set_part(slot, &part, thread, tarn__binary_chunks_rows(chunks));
    return TARN__BINARY_TAKEN;
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
        tarn__binary_output_break(writer, errno);
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
        if (floor_ns == UINT64_MAX && !tarn__binary_output_open_in_child(writer))
            return tarn__binary_output_lose(writer, row.time_ns);
        if (floor_ns == UINT64_MAX) { /* another file, which has no stack yet */
            row.stack = tarn__binary_output_define_stack(writer, row.stack);
            continue;
        }
        if (row.time_ns < floor_ns && !raise_time(writer, &row))
            return TARN_OK;
        if (slot->index == slot->capacity) {
            if (!renew_chunk(writer, slot, thread, row.time_ns))
                return tarn__binary_output_lose(writer, row.time_ns);
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

tarn_status tarn__binary_rows_add(struct tarn__binary_writer *writer,
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
        row.stack = tarn__binary_output_define_stack(writer, row.stack);
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
