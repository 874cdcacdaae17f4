/* reader.c -- a fuzz target: any bytes as a log, read, checked and loaded.
 *
 *     fuzz-reader [-max_total_time=120] [FOLDER]
 *
 * The checks of a binary log are repaired first: random bytes would not get past them.
 *
 * The reader accepts the bytes, or rejects them with a message that names the log. A log
 * that is loaded does not depend on the portions in which its source returns it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/trace.h>
#include "input.h"
#include "trace/binary.h"

static tarn_status load(const uint8_t *bytes, size_t count, size_t portion,
                        tarn_trace_summary *out)
{
    struct input input = {bytes, bytes + count, portion};
    const tarn_trace_limits limits = {
        .line_bytes = 1024, .live_rows = 1 << 16, .operations = 1 << 16};
    tarn_trace *trace;
    tarn_status status = tarn_trace_load("fuzz", read_input, &input, &limits, &trace);

    if (status == TARN_OK) {
        tarn_trace_summarize(trace, out);
        tarn_trace_release(trace);
    } else if (strncmp(tarn_error_last()->message, "fuzz:", 5) != 0) {
        fprintf(stderr, "no place in: %s\n", tarn_error_last()->message);
        abort();
    }
    return status;
}

/* What the handlers received. */
struct received {
    uint64_t rows, last_ns;
    unsigned stacks, known[64]; /* stacks by the low bits of their numbers */
    bool has_ended;
};

static tarn_status on_stack(void *data, tarn_stack stack, const tarn_stack_frame *frames,
                            size_t count)
{
    struct received *received = data;

    if (count == 0 || count > TARN_STACK_DEPTH_MAX)
        abort();
    for (size_t i = 0; i < count; i++)
        if (!frames[i].function || strlen(frames[i].file) > 1u << 27)
            abort();
    received->known[stack % 64]++;
    return TARN_OK;
}

static void check_time(struct received *received, uint64_t time_ns)
{
    if (time_ns < received->last_ns)
        abort();
    received->last_ns = time_ns;
}

static tarn_status on_event(void *data, const tarn_trace_event *event, uint64_t line)
{
    struct received *received = data;

    if (line != ++received->rows || !event->location || event->end_ns < event->start_ns ||
        (event->stack && !received->known[event->stack % 64]))
        abort();
    check_time(received,
               event->action == TARN_ACTION_FREE ? event->start_ns : event->end_ns);
    return TARN_OK;
}

static tarn_status on_pool(void *data, const tarn_trace_pool_row *row)
{
    volatile uint64_t sum = 0;

    check_time(data, row->time_ns);
    for (size_t i = 0; i < row->block_count; i++)
        sum += row->blocks[i].bytes;
    return row->report && strlen(row->report->upstream_message) > 255 ? abort(),
           TARN_OK                                                    : TARN_OK;
}

static tarn_status on_mark(void *data, const char *name, uint64_t time_ns)
{
    check_time(data, time_ns);
    return name ? TARN_OK : TARN_PLUGIN_FAILURE;
}

static tarn_status on_end(void *data, const tarn_trace_end *end)
{
    struct received *received = data;

    received->has_ended = end->size == sizeof *end;
    return TARN_OK;
}

/* Read a binary log with all handlers. */
static void read_all(const uint8_t *bytes, size_t count)
{
    static const tarn_trace_handlers handlers = {
        sizeof handlers, NULL, on_stack, on_event, on_pool, on_mark, on_end};
    struct input input = {bytes, bytes + count, SIZE_MAX};
    struct received received = {0};
    tarn_status status =
        tarn_trace_read_all("fuzz", read_input, &input, NULL, &handlers, &received, NULL);

    if (received.has_ended != (status == TARN_OK))
        abort();
}

/* Make the checks of the rows or records of a chunk fit, but for those that are 0. */
static void repair_chunk(uint8_t *bytes, size_t count)
{
    struct tarn__binary_chunk head;
    struct tarn__binary_row row;
    struct tarn__binary_record record;
    size_t at = sizeof head;

    memcpy(&head, bytes, sizeof head);
    uint64_t seed = tarn__binary_seed(head.id, head.number);
    for (; head.kind != TARN__BINARY_RECORDS && count - at >= sizeof row;
         at += sizeof row) {
        memcpy(&row, bytes + at, sizeof row);
        if (row.check)
            row.check = tarn__binary_check(seed, (at - sizeof head) / sizeof row, &row);
        memcpy(bytes + at, &row, sizeof row);
    }
    while (head.kind == TARN__BINARY_RECORDS && count - at >= sizeof record) {
        memcpy(&record, bytes + at, sizeof record);
        if (record.bytes > count - at - sizeof record)
            break;
        if (record.check)
            record.check =
                tarn__binary_record_check(&head, &record, bytes + at + sizeof record);
        memcpy(bytes + at, &record, sizeof record);
        size_t space = ((size_t)record.bytes + 7) & ~(size_t)7;
        at += sizeof record;
        at += space < count - at ? space : count - at;
    }
}

/* Make the checks of a binary log fit. */
static void repair(uint8_t *bytes, size_t count)
{
    struct tarn__binary_header header;
    struct tarn__binary_chunk chunk;

    memcpy(&header, bytes, sizeof header);
    if (header.text_bytes > TARN__BINARY_HEADER_BYTES - sizeof header)
        return;
    uint32_t crc =
        tarn__binary_crc(0, &header, offsetof(struct tarn__binary_header, crc));
    header.crc = tarn__binary_crc(crc, bytes + sizeof header, header.text_bytes);
    memcpy(bytes, &header, sizeof header);
    size_t step = header.chunk_bytes;
    if (step < sizeof chunk + sizeof(struct tarn__binary_row) || step % 8 != 0)
        return;
    for (size_t at = TARN__BINARY_HEADER_BYTES; count - at >= sizeof chunk;
         at += step < count - at ? step : count - at) {
        memcpy(&chunk, bytes + at, sizeof chunk);
        if (memcmp(chunk.magic, "TCHK", 4) != 0)
            continue;
        chunk.id = header.id;
        chunk.crc = tarn__binary_crc(0, &chunk, offsetof(struct tarn__binary_chunk, crc));
        memcpy(bytes + at, &chunk, sizeof chunk);
        size_t own = chunk.kind == TARN__BINARY_RECORDS && chunk.chunks > 1 &&
                             chunk.chunks <= count / step
                         ? chunk.chunks * step
                         : step;
        repair_chunk(bytes + at, own < count - at ? own : count - at);
    }
}

static void check(const uint8_t *bytes, size_t count)
{
    tarn_trace_summary whole, parts;

    memset(&whole, 0, sizeof whole);
    memset(&parts, 0, sizeof parts);
    tarn_status status = load(bytes, count, SIZE_MAX, &whole);
    if (load(bytes, count, 1 + count % 7, &parts) != status ||
        memcmp(&whole, &parts, offsetof(tarn_trace_summary, has_exit)) != 0 ||
        whole.has_exit != parts.has_exit)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    check(bytes, count);
    if (count < TARN__BINARY_HEADER_BYTES ||
        memcmp(bytes, TARN__BINARY_MAGIC, sizeof TARN__BINARY_MAGIC) != 0)
        return 0;
    uint8_t *copy = malloc(count);
    memcpy(copy, bytes, count);
    repair(copy, count);
    check(copy, count);
    read_all(copy, count);
    free(copy);
    return 0;
}
