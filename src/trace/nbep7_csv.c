/* nbep7_csv.c -- the log of NBEP 7: twelve columns, in the format of its example.
 *
 * The document's prototype wrote 0 into columns that it did not know (the size of a free,
 * the memory of the device). Here every column has its value. Two things go beyond the
 * example: a failed allocation is `Alloc Failure`, and no-stream memory has the stream
 * `none`. This format has no threads.
 */
#include "trace/field.h"
#include "trace/format.h"
#include "trace/row.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    "Event Type",   "Device ID",      "Address", "Stream", "Size (bytes)", "Free Memory",
    "Total Memory", "Current Allocs", "Start",   "End",    "Elapsed",      "Location"};

/* By tarn_action. */
static const char *const event_types[] = {"Alloc", "Free", "Alloc Failure"};
enum { EVENT_TYPES = sizeof event_types / sizeof event_types[0] };

static void write_seconds(struct tarn__row *row, uint64_t ns)
{
    tarn__row_decimal(row, ns / 1000000000u);
    tarn__row_text(row, ".");
    tarn__row_padded(row, ns % 1000000000u, 9);
    tarn__row_text(row, ",");
}

static void write_number(struct tarn__row *row, uint64_t value)
{
    tarn__row_decimal(row, value);
    tarn__row_text(row, ",");
}

static void write_stream(struct tarn__row *row, uint64_t stream)
{
    if (stream == UINT64_MAX)
        tarn__row_text(row, "none");
    else if (stream == 0)
        tarn__row_text(row, "0");
    else
        tarn__row_hex(row, stream);
    tarn__row_text(row, ",");
}

static void nbep7_write(struct tarn__row *row, const tarn_trace_event *event)
{
    uint64_t elapsed =
        event->end_ns > event->start_ns ? event->end_ns - event->start_ns : 0;

    tarn__row_text(row, event_types[event->action]);
    tarn__row_text(row, event->device < 0 ? ",-" : ",");
    write_number(row, (uint64_t)(event->device < 0 ? -(int64_t)event->device
                                                   : (int64_t)event->device));
    tarn__row_hex(row, event->address);
    tarn__row_text(row, ",");
    write_stream(row, event->stream);
    write_number(row, event->bytes);
    write_number(row, event->free_bytes);
    write_number(row, event->total_bytes);
    write_number(row, event->live_blocks);
    write_seconds(row, event->start_ns);
    write_seconds(row, event->end_ns);
    write_seconds(row, elapsed);
    tarn__row_quoted(row, event->location ? event->location : "");
}

static tarn_status parse_action(const struct tarn__field *field, tarn_action *out)
{
    for (int i = 0; i < EVENT_TYPES; i++) {
        if (strcmp(field->text, event_types[i]) == 0) {
            *out = (tarn_action)i;
            return TARN_OK;
        }
    }
    return tarn__field_bad(field, "is not Alloc, Free or Alloc Failure");
}

static tarn_status parse_device(const struct tarn__field *field, int *out)
{
    uint64_t value;

    if (strcmp(field->text, "-1") == 0) {
        *out = TARN_DEVICE_NONE;
        return TARN_OK;
    }
    tarn_status status = tarn__field_number(field, INT_MAX, &value);
    if (status == TARN_OK)
        *out = (int)value;
    return status;
}

static tarn_status parse_stream(const struct tarn__field *field, uint64_t *out)
{
    if (strcmp(field->text, "none") != 0)
        return tarn__field_number(field, UINT64_MAX, out);
    *out = UINT64_MAX;
    return TARN_OK;
}

static tarn_status nbep7_parse(const struct tarn__place *place, const char *const *fields,
                               tarn_trace_event *out)
{
    struct tarn__field field[COLUMNS_MAX];
    uint64_t elapsed;
    tarn_status status;

    for (int i = 0; i < COLUMNS_MAX; i++)
        field[i] = (struct tarn__field){place, names[i], fields[i]};
    if ((status = parse_action(&field[0], &out->action)) != TARN_OK ||
        (status = parse_device(&field[1], &out->device)) != TARN_OK ||
        (status = tarn__field_number(&field[2], UINT64_MAX, &out->address)) != TARN_OK ||
        (status = parse_stream(&field[3], &out->stream)) != TARN_OK ||
        (status = tarn__field_number(&field[4], UINT64_MAX, &out->bytes)) != TARN_OK ||
        (status = tarn__field_number(&field[5], UINT64_MAX, &out->free_bytes)) !=
            TARN_OK ||
        (status = tarn__field_number(&field[6], UINT64_MAX, &out->total_bytes)) !=
            TARN_OK ||
        (status = tarn__field_number(&field[7], UINT64_MAX, &out->live_blocks)) !=
            TARN_OK ||
        (status = tarn__field_seconds(&field[8], &out->start_ns)) != TARN_OK ||
        (status = tarn__field_seconds(&field[9], &out->end_ns)) != TARN_OK ||
        (status = tarn__field_seconds(&field[10], &elapsed)) != TARN_OK)
        return status;
    out->location = fields[11];
    return TARN_OK;
}

const struct tarn__format tarn__nbep7_csv = {
    .id = TARN_TRACE_NBEP7,
    .columns = COLUMNS_MAX,
    .names = names,
    .key = 0, /* Event Type */
    .write = nbep7_write,
    .parse = nbep7_parse,
};
