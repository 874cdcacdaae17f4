/* binary_records.c -- records of a binary log: definitions, pool rows, marks, lost rows.
 *
 * Definitions and events are in chunks of their own, because a ring keeps definitions. The
 * open chunk of definitions always has space for one more record: that of lost rows. The
 * disk may be full by then.
 *
 * The name of a native function comes from the loader, which has a lock. A thread that
 * loads a library may allocate, and so write rows, while it holds that lock. So names are
 * found before the lock of the chunks is taken.
 */
#define _GNU_SOURCE
#include "trace/binary_records.h"
#include "base/mutex_assert.h"
#include "trace/native_stack.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUMBERS = TARN__BINARY_NUMBERS,
    LOST_BYTES = sizeof(struct tarn__binary_record) + 16
};

bool tarn__binary_records_init(struct tarn__binary_records *records)
{
    records->defined = calloc(NUMBERS / 64, sizeof *records->defined);
    return records->defined != NULL;
}

void tarn__binary_records_free(struct tarn__binary_records *records)
{
    free(records->defined);
}

void tarn__binary_records_reset(struct tarn__binary_records *records)
{
    records->definitions = records->events = (struct tarn__binary_stream){0};
    records->has_lost = false;
    for (size_t i = 0; i < NUMBERS / 64; i++) /* most pages were never used */
        if (atomic_load_explicit(&records->defined[i], memory_order_relaxed))
            atomic_store_explicit(&records->defined[i], 0, memory_order_relaxed);
}

static void set_defined(struct tarn__binary_records *records, uint32_t number)
{
    atomic_fetch_or_explicit(&records->defined[number / 64], (uint64_t)1 << number % 64,
                             memory_order_release);
}

/* --- records --- */

static size_t record_bytes(size_t payload)
{
    return sizeof(struct tarn__binary_record) + ((payload + 7) & ~(size_t)7);
}

/* Store a record; its check last. */
static void store(char *memory, size_t at, uint32_t kind, const void *payload,
                  size_t bytes)
{
    struct tarn__binary_chunk chunk;
    struct tarn__binary_record *record = (void *)(memory + at);
    struct tarn__binary_record fresh = {.bytes = (uint32_t)bytes, .kind = kind};
    size_t end = at + record_bytes(bytes);

    memcpy(&chunk, memory, sizeof chunk);
    memset(memory + end - 8, 0, 8);
    memcpy(memory + at + sizeof fresh, payload, bytes);
    fresh.check = tarn__binary_record_check(&chunk, &fresh, payload);
    record->bytes = fresh.bytes;
    record->kind = fresh.kind;
    record->zero = 0;
    __atomic_store_n(&record->check, fresh.check, __ATOMIC_RELEASE);
}

/* Write the time into an event: not before its chunk's, or that of the last event. */
static void set_time(struct tarn__binary_stream *stream, const char *memory,
                     void *payload)
{
    struct tarn__binary_chunk header;
    uint64_t time_ns;

    memcpy(&header, memory, sizeof header);
    memcpy(&time_ns, payload, sizeof time_ns);
    if (time_ns < header.start_ns)
        time_ns = header.start_ns;
    if (time_ns < stream->last_ns)
        time_ns = stream->last_ns;
    stream->last_ns = time_ns;
    memcpy(payload, &time_ns, sizeof time_ns);
}

/* Take chunks and begin them. `lock` held. */
static enum tarn__binary_take take(struct tarn__binary_chunks *chunks,
                                   enum tarn__binary_use use, uint64_t time_ns,
                                   uint32_t count, struct tarn__binary_part *out)
{
    tarn__assert_mutex_held(&chunks->lock);

    enum tarn__binary_take taken =
        tarn__binary_chunks_take(chunks, use, 0, time_ns, count, false, out);

    if (taken != TARN__BINARY_TAKEN || tarn__binary_chunks_begin(chunks, out))
        return taken;
    int why = errno;
    tarn__binary_chunks_close(chunks, out, time_ns);
    errno = why;
    return TARN__BINARY_FAILED;
}

/* Write a record that needs chunks of its own. Not for a ring. `lock` held. */
static enum tarn__binary_take append_long(struct tarn__binary_chunks *chunks,
                                          struct tarn__binary_stream *stream,
                                          uint64_t time_ns, uint32_t kind, void *payload,
                                          size_t bytes)
{
    tarn__assert_mutex_held(&chunks->lock);

    size_t all = sizeof(struct tarn__binary_chunk) + record_bytes(bytes);
    uint32_t count = (uint32_t)((all + chunks->chunk_bytes - 1) / chunks->chunk_bytes);
    struct tarn__binary_part part;
    enum tarn__binary_take taken =
        take(chunks, TARN__BINARY_USE_EVENTS, time_ns, count, &part);

    if (taken != TARN__BINARY_TAKEN)
        return taken;
    set_time(stream, part.memory, payload);
    store(part.memory, sizeof(struct tarn__binary_chunk), kind, payload, bytes);
    tarn__binary_chunks_close(chunks, &part, stream->last_ns);
    return TARN__BINARY_TAKEN;
}

/* Begin another chunk. `lock` held. */
static enum tarn__binary_take renew(struct tarn__binary_chunks *chunks,
                                    struct tarn__binary_stream *stream,
                                    enum tarn__binary_use use, uint64_t time_ns)
{
    tarn__assert_mutex_held(&chunks->lock);

    struct tarn__binary_part part;
    enum tarn__binary_take taken = take(chunks, use, time_ns, 1, &part);

    if (taken != TARN__BINARY_TAKEN)
        return taken;
    tarn__binary_chunks_close(chunks, &stream->part, stream->last_ns);
    stream->part = part;
    stream->at = sizeof(struct tarn__binary_chunk);
    return TARN__BINARY_TAKEN;
}

static bool has_space(const struct tarn__binary_stream *stream, size_t bytes)
{
    return stream->part.memory && stream->at + bytes <= stream->part.bytes;
}

/* Write a definition. `lock` held. */
static enum tarn__binary_take define(struct tarn__binary_records *records,
                                     struct tarn__binary_chunks *chunks, uint32_t number,
                                     uint32_t kind, const void *payload, size_t bytes)
{
    tarn__assert_mutex_held(&chunks->lock);

    struct tarn__binary_stream *stream = &records->definitions;
    enum tarn__binary_take taken = TARN__BINARY_TAKEN;

    if (records->has_lost)
        return TARN__BINARY_FULL;
    if (!has_space(stream, record_bytes(bytes) + LOST_BYTES))
        taken = renew(chunks, stream, TARN__BINARY_USE_DEFINITIONS, 0);
    if (taken != TARN__BINARY_TAKEN)
        return taken;
    store(stream->part.memory, stream->at, kind, payload, bytes);
    stream->at += record_bytes(bytes);
    set_defined(records, number);
    return TARN__BINARY_TAKEN;
}

/* Write an event, whose payload begins with its time. `lock` held. */
static enum tarn__binary_take append(struct tarn__binary_records *records,
                                     struct tarn__binary_chunks *chunks, uint32_t kind,
                                     void *payload, size_t bytes)
{
    tarn__assert_mutex_held(&chunks->lock);

    struct tarn__binary_stream *stream = &records->events;
    enum tarn__binary_take taken = TARN__BINARY_TAKEN;
    uint64_t time_ns;

    memcpy(&time_ns, payload, sizeof time_ns);
    if (sizeof(struct tarn__binary_chunk) + record_bytes(bytes) > chunks->chunk_bytes)
        return append_long(chunks, stream, time_ns, kind, payload, bytes);
    if (!has_space(stream, record_bytes(bytes)))
        taken = renew(chunks, stream, TARN__BINARY_USE_EVENTS, time_ns);
    if (taken != TARN__BINARY_TAKEN)
        return taken;
    set_time(stream, stream->part.memory, payload);
    store(stream->part.memory, stream->at, kind, payload, bytes);
    stream->at += record_bytes(bytes);
    return TARN__BINARY_TAKEN;
}

enum tarn__binary_take tarn__binary_records_begin(struct tarn__binary_records *records,
                                                  struct tarn__binary_chunks *chunks)
{
    tarn__assert_mutex_held(&chunks->lock);

    return renew(chunks, &records->definitions, TARN__BINARY_USE_DEFINITIONS, 0);
}

void tarn__binary_records_end(struct tarn__binary_records *records,
                              struct tarn__binary_chunks *chunks)
{
    tarn__assert_mutex_held(&chunks->lock);

    tarn__binary_chunks_close(chunks, &records->definitions.part, 0);
    tarn__binary_chunks_close(chunks, &records->events.part, records->events.last_ns);
}

/* --- definitions --- */

/* Define a string, unless it is 0. `lock` held. */
static enum tarn__binary_take define_string(struct tarn__binary_records *records,
                                            struct tarn__binary_chunks *chunks,
                                            uint32_t string)
{
    tarn__assert_mutex_held(&chunks->lock);

    struct {
        uint32_t number, zero;
        char text[4096];
    } payload = {.number = string};
    const char *text = tarn__stack_table_text(string);
    size_t length = strnlen(text, sizeof payload.text);

    if (string == 0 || tarn__binary_records_has(records, string))
        return TARN__BINARY_TAKEN;
    memcpy(payload.text, text, length);
    return define(records, chunks, string, TARN__BINARY_STRING, &payload, 8 + length);
}

/* Define a frame and its strings. `lock` held. */
static enum tarn__binary_take define_frame(struct tarn__binary_records *records,
                                           struct tarn__binary_chunks *chunks,
                                           const struct tarn__binary_frame *frame)
{
    tarn__assert_mutex_held(&chunks->lock);

    const uint32_t strings[] = {frame->function, frame->file, frame->build_id};
    enum tarn__binary_take taken = TARN__BINARY_TAKEN;

    if (frame->number == 0 || tarn__binary_records_has(records, frame->number))
        return TARN__BINARY_TAKEN;
    for (int i = 0; i < 3 && taken == TARN__BINARY_TAKEN; i++)
        taken = define_string(records, chunks, strings[i]);
    if (taken == TARN__BINARY_TAKEN)
        taken = define(records, chunks, frame->number, TARN__BINARY_FRAME, frame,
                       sizeof *frame);
    return taken;
}

/* Describe a frame of the table that the log does not have. The number is 0 if it has. */
static struct tarn__binary_frame describe(const struct tarn__binary_records *records,
                                          uint32_t number)
{
    struct tarn__stack_table_frame entry;

    if (tarn__binary_records_has(records, number) ||
        !tarn__stack_table_frame(number, &entry))
        return (struct tarn__binary_frame){0};
    if (entry.build_id && !entry.function) {
        const char *name = tarn__native_stack_function(&entry);
        entry.function = name ? tarn__stack_table_string(name) : 0;
    }
    return (struct tarn__binary_frame){.number = number,
                                       .function = entry.function,
                                       .file = entry.file,
                                       .line = entry.line,
                                       .build_id = entry.build_id,
                                       .offset = entry.offset};
}

enum tarn__binary_take tarn__binary_records_define_stack(
    struct tarn__binary_records *records, struct tarn__binary_chunks *chunks,
    tarn_stack stack)
{
    struct {
        uint32_t number, count, frames[TARN_STACK_DEPTH_MAX];
    } payload = {.number = stack};
    struct tarn__binary_frame frames[TARN_STACK_DEPTH_MAX];
    enum tarn__binary_take taken = TARN__BINARY_TAKEN;
    size_t count = tarn__stack_table_numbers(stack, TARN_STACK_DEPTH_MAX, payload.frames);

    if (count == 0)
        return TARN__BINARY_FULL;
    payload.count = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        frames[i] = describe(records, payload.frames[i]);
    pthread_mutex_lock(&chunks->lock);
    for (size_t i = 0; i < count && taken == TARN__BINARY_TAKEN; i++)
        taken = define_frame(records, chunks, &frames[i]);
    if (taken == TARN__BINARY_TAKEN && !tarn__binary_records_has(records, stack))
        taken =
            define(records, chunks, stack, TARN__BINARY_STACK, &payload, 8 + 4 * count);
    pthread_mutex_unlock(&chunks->lock);
    return taken;
}

enum tarn__binary_take tarn__binary_records_define_string(
    struct tarn__binary_records *records, struct tarn__binary_chunks *chunks,
    uint32_t string)
{
    pthread_mutex_lock(&chunks->lock);
    enum tarn__binary_take taken = define_string(records, chunks, string);
    pthread_mutex_unlock(&chunks->lock);
    return taken;
}

/* --- events --- */

static struct tarn__binary_report encode_report(const tarn_pool_oom_report *report)
{
    struct tarn__binary_report out = {.requested = report->requested,
                                      .alignment = report->alignment,
                                      .live = report->live,
                                      .thread_cached = report->thread_cached,
                                      .cached = report->cached,
                                      .unfenced = report->unfenced,
                                      .captured = report->captured,
                                      .reserved = report->reserved,
                                      .maximum = report->maximum,
                                      .same_stream = report->same_stream,
                                      .other_streams = report->other_streams,
                                      .completed = report->completed,
                                      .largest_free = report->largest_free,
                                      .device_free = report->device_free,
                                      .device_total = report->device_total,
                                      .attempts = report->attempts,
                                      .upstream_status = (int32_t)report->upstream_status,
                                      .fragmentation = report->fragmentation};

    memcpy(out.upstream_message, report->upstream_message, sizeof out.upstream_message);
    return out;
}

static void encode_blocks(const tarn_trace_pool_row *row, char *at)
{
    for (size_t i = 0; i < row->block_count; i++) {
        const tarn_pool_block *block = &row->blocks[i];
        struct tarn__binary_block out = {.address = block->address,
                                         .bytes = block->bytes,
                                         .requested_bytes = block->requested_bytes,
                                         .stream_id = block->stream_id,
                                         .segment = block->segment,
                                         .state = block->state};
        memcpy(at + i * sizeof out, &out, sizeof out);
    }
}

/* Return how many blocks a pool row of that many other bytes can have. */
static uint64_t most_blocks(const struct tarn__binary_chunks *chunks, size_t others)
{
    size_t free_bytes = chunks->ring_chunks
                            ? chunks->chunk_bytes - sizeof(struct tarn__binary_chunk) -
                                  sizeof(struct tarn__binary_record)
                            : 1u << 30;

    return (free_bytes - others) / sizeof(struct tarn__binary_block);
}

enum tarn__binary_take tarn__binary_records_add_pool(struct tarn__binary_records *records,
                                                     struct tarn__binary_chunks *chunks,
                                                     const tarn_trace_pool_row *row)
{
    struct {
        struct tarn__binary_pool pool;
        struct tarn__binary_report report;
    } head = {.pool = {.time_ns = row->time_ns,
                       .pool = row->pool,
                       .reserved_bytes = row->reserved_bytes,
                       .live_bytes = row->live_bytes,
                       .cause = row->cause,
                       .device = row->device,
                       .stack = row->stack,
                       .has_report = row->report != NULL}};
    size_t bytes = sizeof head.pool, block_bytes = 0;

    if (row->report) {
        head.report = encode_report(row->report);
        bytes = sizeof head;
    }
    if (row->blocks && row->block_count <= most_blocks(chunks, bytes))
        block_bytes = row->block_count * sizeof(struct tarn__binary_block);
    char *all = block_bytes ? malloc(bytes + block_bytes) : NULL;
    if (all) {
        head.pool.block_count = row->block_count;
        memcpy(all, &head, bytes);
        encode_blocks(row, all + bytes);
        bytes += block_bytes;
    }
    pthread_mutex_lock(&chunks->lock);
    enum tarn__binary_take taken = append(records, chunks, TARN__BINARY_POOL,
                                          all ? (void *)all : (void *)&head, bytes);
    pthread_mutex_unlock(&chunks->lock);
    free(all);
    return taken;
}

enum tarn__binary_take tarn__binary_records_add_mark(struct tarn__binary_records *records,
                                                     struct tarn__binary_chunks *chunks,
                                                     uint32_t string, uint64_t time_ns)
{
    struct {
        uint64_t time_ns;
        uint32_t string, zero;
    } payload = {.time_ns = time_ns, .string = string};

    pthread_mutex_lock(&chunks->lock);
    enum tarn__binary_take taken =
        append(records, chunks, TARN__BINARY_MARK, &payload, sizeof payload);
    pthread_mutex_unlock(&chunks->lock);
    return taken;
}

void tarn__binary_records_set_lost(struct tarn__binary_records *records,
                                   struct tarn__binary_chunks *chunks, uint64_t time_ns,
                                   uint64_t rows)
{
    const uint64_t payload[] = {time_ns, rows};
    const struct tarn__binary_stream *stream = &records->definitions;

    pthread_mutex_lock(&chunks->lock);
    records->has_lost = true;
    if (stream->part.memory &&
        tarn__binary_file_has(&chunks->file,
                              tarn__binary_chunks_offset(chunks, stream->part.place + 1)))
        store(stream->part.memory, stream->at, TARN__BINARY_LOST, payload,
              sizeof payload);
    pthread_mutex_unlock(&chunks->lock);
}
