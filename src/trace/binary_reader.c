/* binary_reader.c -- a binary log, merged by time, in a bounded amount of memory.
 *
 * The chunks come in the order in which they were begun. A chunk that began at T has no
 * row before T, and no later chunk has. So all that waits and is before T can go. What
 * remains is at most a chunk for each thread, and those of the last milliseconds.
 *
 * A ring has its chunks in any order. It is kept, sorted, and read like a file.
 */
#include "trace/binary_reader.h"
#include "trace/binary_chunk.h"
#include "trace/binary_event.h"
#include "trace/binary_process.h"
#include "trace/binary_sorted.h"
#include <inttypes.h>
#include <stdlib.h>

static const size_t RECORD_BYTES_MAX = (size_t)256 * 1024 * 1024;

struct reader {
    struct tarn__input *input;
    const struct tarn__delivery *delivery;
    struct tarn__binary_header header;
    struct tarn__binary_names names;
    struct tarn__binary_merge merge;
    struct tarn__binary_sorted ring; /* empty unless the log is one */

    unsigned char *chunk; /* the present chunk and those that continue it; owned */
    size_t chunk_capacity;
    uint64_t begin_ns; /* rows and records before are left out */
    uint64_t last_ns;  /* of what was passed on last */
    uint64_t rows;     /* passed on */
    tarn_trace_end end;
};

static tarn_status no_space(const struct reader *reader, const char *things)
{
    return tarn_error_set(TARN_OUT_OF_MEMORY,
                          "%.200s: too many %s in a binary log, or no host memory",
                          reader->input->name, things);
}

/* --- passing on --------------------------------------------------------------------- */

static tarn_status deliver_row(struct reader *reader,
                               const struct tarn__binary_item *item)
{
    tarn_trace_event event;

    if (!tarn__binary_event_of(item, &event))
        return TARN_OK; /* of a newer minor version */
    if (!tarn__binary_names_knows(&reader->names, event.stack))
        event.stack = TARN_STACK_UNKNOWN;
    if (!tarn__binary_names_location(&reader->names, event.stack, &event.location))
        return no_space(reader, "strings");
    return tarn__delivery_event(reader->delivery, &event, ++reader->rows);
}

static tarn_status deliver_mark(struct reader *reader,
                                const struct tarn__binary_item *item)
{
    uint32_t string;

    memcpy(&string, item->payload + sizeof(uint64_t), sizeof string);
    return tarn__delivery_mark(
        reader->delivery, tarn__binary_names_text(&reader->names, string), item->time_ns);
}

static tarn_status deliver_record(struct reader *reader,
                                  const struct tarn__binary_item *item)
{
    tarn_status status = TARN_OK;
    bool is_valid = item->bytes >= 2 * sizeof(uint64_t);
    uint64_t lost;

    if (item->kind == TARN__BINARY_POOL)
        status = tarn__binary_event_deliver_pool(reader->delivery, &reader->names, item,
                                                 &is_valid);
    else if (is_valid && item->kind == TARN__BINARY_MARK)
        status = deliver_mark(reader, item);
    else if (is_valid && item->kind == TARN__BINARY_LOST) {
        memcpy(&lost, item->payload + sizeof lost, sizeof lost);
        reader->end.lost_rows += lost;
    }
    reader->end.torn_rows += !is_valid;
    return status;
}

/* Pass on what waits, up to a time. */
static tarn_status deliver(struct reader *reader, uint64_t last_ns)
{
    struct tarn__binary_item item;
    tarn_status status = TARN_OK;

    while (status == TARN_OK && tarn__binary_merge_next(&reader->merge, last_ns, &item)) {
        if (item.time_ns < reader->last_ns) {
            reader->end.moved_rows += item.row != NULL;
            item.time_ns = reader->last_ns;
        }
        reader->last_ns = item.time_ns;
        status = item.row ? deliver_row(reader, &item) : deliver_record(reader, &item);
    }
    return status;
}

/* --- chunks ------------------------------------------------------------------------- */

/* Add a stack and pass it on. */
static tarn_status take_stack(struct reader *reader, const unsigned char *payload,
                              size_t bytes, enum tarn__binary_name *result)
{
    tarn_stack_frame frames[TARN_STACK_DEPTH_MAX];
    tarn_stack stack;
    size_t count;

    *result = tarn__binary_names_add_stack(&reader->names, payload, bytes, &stack, frames,
                                           &count);
    return *result == TARN__BINARY_NAME_ADDED
               ? tarn__delivery_stack(reader->delivery, stack, frames, count)
               : TARN_OK;
}

/* Let a record with a time wait for its turn. */
static tarn_status take_timed(struct reader *reader,
                              const struct tarn__binary_record *record,
                              const unsigned char *payload, uint64_t number)
{
    struct tarn__binary_item item = {
        .kind = record->kind, .bytes = record->bytes, .payload = payload};

    if (record->bytes < sizeof item.time_ns) {
        reader->end.torn_rows++;
        return TARN_OK;
    }
    memcpy(&item.time_ns, payload, sizeof item.time_ns);
    if (item.time_ns < reader->begin_ns)
        return TARN_OK;
    return tarn__binary_merge_add_record(&reader->merge, &item, number)
               ? TARN_OK
               : no_space(reader, "records at once");
}

static tarn_status take_record(struct reader *reader,
                               const struct tarn__binary_record *record,
                               const unsigned char *payload, uint64_t number)
{
    enum tarn__binary_name result = TARN__BINARY_NAME_ADDED;
    tarn_status status = TARN_OK;

    switch (record->kind) {
    case TARN__BINARY_STRING:
        result = tarn__binary_names_add_string(&reader->names, payload, record->bytes);
        break;
    case TARN__BINARY_FRAME:
        result = tarn__binary_names_add_frame(&reader->names, payload, record->bytes);
        break;
    case TARN__BINARY_STACK:
        status = take_stack(reader, payload, record->bytes, &result);
        break;
    case TARN__BINARY_POOL:
    case TARN__BINARY_MARK:
    case TARN__BINARY_LOST:
        return take_timed(reader, record, payload, number);
    default: /* of a newer minor version */
        break;
    }
    if (result == TARN__BINARY_NAME_NO_SPACE)
        return no_space(reader, "strings, frames or stacks");
    reader->end.torn_rows += result == TARN__BINARY_NAME_INVALID;
    return status;
}

static tarn_status take_records(struct reader *reader, const unsigned char *chunk,
                                size_t bytes)
{
    struct tarn__binary_walk walk = {.chunk = chunk, .bytes = bytes};
    const struct tarn__binary_chunk *header = (const void *)chunk;
    const struct tarn__binary_record *record;
    const unsigned char *payload;
    tarn_status status = TARN_OK;

    while (status == TARN_OK && tarn__binary_chunk_next(&walk, &record, &payload))
        status = take_record(reader, record, payload, header->number);
    reader->end.torn_rows += walk.torn;
    if (!reader->header.ring_chunks)
        reader->end.torn_rows += walk.doubtful;
    return status;
}

static int compare_times(const void *a, const void *b)
{
    const struct tarn__binary_row *one = a, *other = b;

    return (one->time_ns > other->time_ns) - (one->time_ns < other->time_ns);
}

/* Let the rows of a chunk wait for their turn, except those before `begin_ns`. */
static tarn_status take_rows(struct reader *reader, const unsigned char *chunk,
                             size_t bytes, uint64_t begin_ns)
{
    const struct tarn__binary_chunk *header = (const void *)chunk;
    bool is_live = header->kind == TARN__BINARY_LIVE;
    struct tarn__binary_row *rows = malloc(bytes);

    if (!rows)
        return no_space(reader, "rows");
    size_t found = tarn__binary_chunk_rows(chunk, bytes, reader->header.ring_chunks != 0,
                                           rows, &reader->end.torn_rows);
    size_t count = 0;
    for (size_t i = 0; i < found; i++)
        if (is_live
                ? rows[i].action != TARN__BINARY_THREAD
                : rows[i].time_ns >= begin_ns || rows[i].action == TARN__BINARY_THREAD)
            rows[count++] = rows[i];
    if (count == 0) {
        free(rows);
        return TARN_OK;
    }
    if (is_live)
        qsort(rows, count, sizeof *rows, compare_times);
    struct tarn__binary_row *fitted = realloc(rows, count * sizeof *rows);
    return tarn__binary_merge_add_rows(&reader->merge, fitted ? fitted : rows, count,
                                       is_live ? 0 : header->thread, header->number)
               ? TARN_OK
               : no_space(reader, "rows at once");
}

/* Take a chunk of a file, or keep one of a ring. */
static tarn_status take_chunk(struct reader *reader, size_t bytes)
{
    const struct tarn__binary_chunk *header = (const void *)reader->chunk;
    tarn_status status = TARN_OK;

    if (reader->header.ring_chunks)
        return tarn__binary_sorted_add(&reader->ring, reader->chunk, bytes)
                   ? TARN_OK
                   : no_space(reader, "chunks");
    if (header->start_ns > 0)
        status = deliver(reader, header->start_ns - 1);
    if (status == TARN_OK && header->kind == TARN__BINARY_ROWS)
        status = take_rows(reader, reader->chunk, bytes, 0);
    else if (status == TARN_OK && header->kind == TARN__BINARY_RECORDS)
        status = take_records(reader, reader->chunk, bytes);
    return status;
}

/* Read a chunk behind the first `done` bytes. What the log lacks is 0. */
static tarn_status read_part(struct reader *reader, size_t done, size_t *got)
{
    size_t chunk_bytes = reader->header.chunk_bytes;

    if (done + chunk_bytes > reader->chunk_capacity) {
        size_t capacity = 2 * done + chunk_bytes;
        void *grown = realloc(reader->chunk, capacity);
        if (!grown)
            return no_space(reader, "bytes in a record");
        reader->chunk = grown;
        reader->chunk_capacity = capacity;
    }
    tarn_status status =
        tarn__input_take(reader->input, reader->chunk + done, chunk_bytes, got);
    if (status == TARN_OK)
        memset(reader->chunk + done + *got, 0, chunk_bytes - *got);
    return status;
}

/* Read the chunks that continue the first one. */
static tarn_status read_rest(struct reader *reader, size_t *bytes)
{
    struct tarn__binary_chunk first;
    size_t got = 1, chunk_bytes = reader->header.chunk_bytes;

    memcpy(&first, reader->chunk, sizeof first);
    if (first.kind != TARN__BINARY_RECORDS || first.chunks < 2)
        return TARN_OK;
    if (first.chunks > RECORD_BYTES_MAX / chunk_bytes + 1)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "%.200s: a record of %" PRIu32
                              " chunks in a binary log; the most are %zu MiB",
                              reader->input->name, first.chunks, RECORD_BYTES_MAX >> 20);
    for (uint32_t i = 1; i < first.chunks && got > 0; i++) {
        tarn_status status = read_part(reader, *bytes, &got);
        if (status != TARN_OK)
            return status;
        *bytes += chunk_bytes;
        reader->end.is_cut = got < chunk_bytes;
    }
    return TARN_OK;
}

static tarn_status read_chunks(struct reader *reader)
{
    for (;;) {
        size_t got, bytes = reader->header.chunk_bytes;
        tarn_status status = read_part(reader, 0, &got);
        if (status != TARN_OK || got == 0)
            return status;
        reader->end.is_cut = got < bytes; /* or unused: a writer that ends trims both */
        switch (
            tarn__binary_chunk_judge((const void *)reader->chunk, reader->header.id)) {
        case TARN__BINARY_CHUNK_UNUSED:
            reader->end.is_cut = true;
            break;
        case TARN__BINARY_CHUNK_DAMAGED:
            reader->end.torn_rows++;
            break;
        case TARN__BINARY_CHUNK_VALID:
            status = read_rest(reader, &bytes);
            if (status == TARN_OK)
                status = take_chunk(reader, bytes);
            break;
        }
        if (status != TARN_OK)
            return status;
    }
}

/* --- rings -------------------------------------------------------------------------- */

/* Take the chunks of a ring that count. */
static tarn_status take_ring(struct reader *reader)
{
    struct tarn__binary_sorted *ring = &reader->ring;
    struct tarn__binary_newest checkpoint;
    tarn_status status = TARN_OK;

    if (!tarn__binary_sorted_sort(ring) ||
        !tarn__binary_sorted_checkpoint(ring, &checkpoint))
        return no_space(reader, "chunks");
    reader->begin_ns = checkpoint.start_ns;
    reader->end.begin_ns = checkpoint.start_ns;
    for (size_t i = 0; i < ring->count && status == TARN_OK; i++) {
        const struct tarn__binary_chunk *header = tarn__binary_sorted_header(ring, i);
        if (header->kind == TARN__BINARY_RECORDS)
            status = take_records(reader, ring->chunks[i], ring->sizes[i]);
        else if (header->kind == TARN__BINARY_ROWS)
            status = take_rows(reader, ring->chunks[i], ring->sizes[i], reader->begin_ns);
        else if (header->kind == TARN__BINARY_LIVE && checkpoint.exists &&
                 header->thread == checkpoint.number)
            status = take_rows(reader, ring->chunks[i], ring->sizes[i], 0);
    }
    return status;
}

tarn_status tarn__binary_reader_read(struct tarn__input *input,
                                     const struct tarn__delivery *delivery)
{
    struct reader reader = {
        .input = input, .delivery = delivery, .end = {.size = sizeof reader.end}};
    tarn_status status = tarn__binary_process_read(input, delivery, &reader.header);

    if (status != TARN_OK)
        return status;
    tarn__binary_names_init(&reader.names);
    tarn__binary_merge_init(&reader.merge);
    tarn__binary_sorted_init(&reader.ring);
    status = read_chunks(&reader);
    if (status == TARN_OK && reader.header.ring_chunks)
        status = take_ring(&reader);
    if (status == TARN_OK)
        status = deliver(&reader, UINT64_MAX);
    if (status == TARN_OK)
        status = tarn__delivery_end(delivery, &reader.end);
    tarn__binary_sorted_free(&reader.ring);
    tarn__binary_merge_free(&reader.merge);
    tarn__binary_names_free(&reader.names);
    free(reader.chunk);
    return status;
}
