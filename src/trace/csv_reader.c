/* csv_reader.c -- a log of text, row by row, in a fixed amount of memory.
 *
 * Logs come from other programs, from crashed ones and from strangers. So nothing here
 * trusts a length, and every rejection names the line. Rows are CSV as in RFC 4180:
 * quoted fields may contain commas, quotes and line ends. Lines end with LF or CRLF, and
 * the last may have no end. The header tells the format and the order of the columns.
 * Another header of the same format may follow: logs are often appended to each other.
 */
#include "trace/csv_reader.h"
#include "trace/field.h"
#include "trace/header.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES_DEFAULT = 64 * 1024 };

enum state {
    AT_START,     /* of a field */
    PLAIN,        /* in a field without quotes */
    QUOTED,       /* in a quoted field */
    AFTER_QUOTE,  /* behind a quote in a quoted field: its end, or one of a pair */
    AFTER_RETURN, /* behind a CR, which needs its LF */
    COMPLETE
};

struct reader {
    struct tarn__input *input;
    const struct tarn__delivery *delivery;
    struct tarn__place place;
    size_t line_limit; /* most bytes of a row */

    /* The row: its fields one after the other in `text`, each ended with NUL. */
    char *text; /* line_limit + 2 bytes */
    size_t text_count;
    size_t row_bytes; /* as read, quotes and commas included */
    const char *starts[FIELDS_MAX];
    unsigned fields; /* may be more than FIELDS_MAX, then only counted */
    uint64_t lines;  /* lines of the source that the row takes */
    bool torn;       /* the source ended before the line did */
};

static tarn_status bad_row(const struct reader *reader, const char *what)
{
    return tarn_error_set(TARN_BAD_FORMAT, "%.200s:%llu: %s", reader->place.name,
                          (unsigned long long)reader->place.line, what);
}

static void begin_row(struct reader *reader)
{
    reader->place.line += reader->lines;
    reader->lines = 1;
    reader->text_count = 0;
    reader->row_bytes = 0;
    reader->fields = 1;
    reader->starts[0] = reader->text;
    reader->torn = false;
}

static void begin_field(struct reader *reader)
{
    reader->text[reader->text_count++] = 0;
    if (reader->fields < FIELDS_MAX)
        reader->starts[reader->fields] = reader->text + reader->text_count;
    reader->fields++;
}

static enum state append_byte(struct reader *reader, int byte, enum state next)
{
    reader->text[reader->text_count++] = (char)byte;
    return next;
}

/* A byte within quotes. */
static enum state take_quoted(struct reader *reader, int byte)
{
    if (byte == '"')
        return AFTER_QUOTE;
    reader->lines += byte == '\n';
    return append_byte(reader, byte, QUOTED);
}

/* A byte outside of quotes; the state after it, or a failure in `*status`. */
static enum state take_plain(struct reader *reader, enum state state, int byte,
                             tarn_status *status)
{
    if (byte == '\n')
        return COMPLETE;
    if (state == AFTER_RETURN)
        *status = bad_row(reader, "a carriage return inside a line");
    else if (byte == '\r')
        return AFTER_RETURN;
    else if (byte == ',') {
        begin_field(reader);
        return AT_START;
    } else if (byte == '"' && state == AT_START)
        return QUOTED;
    else if (byte == '"' && state == AFTER_QUOTE)
        return append_byte(reader, byte, QUOTED);
    else if (byte == '"')
        *status = bad_row(reader, "a quote inside an unquoted field");
    else if (state == AFTER_QUOTE)
        *status = bad_row(reader, "characters after the closing quote of a field");
    return append_byte(reader, byte, PLAIN);
}

/* The source is at its end: is that also the end of a row? */
static tarn_status end_of_source(struct reader *reader, enum state state)
{
    reader->torn = reader->row_bytes > 0;
    if (state == QUOTED)
        return bad_row(reader, "the file ends inside a quoted field");
    if (!reader->torn)
        reader->fields = 0;
    return TARN_OK;
}

/* Read a row; afterwards `fields` is 0 at the end of the source. */
static tarn_status read_row(struct reader *reader)
{
    enum state state = AT_START;
    tarn_status status = TARN_OK;

    begin_row(reader);
    while (state != COMPLETE && status == TARN_OK) {
        int byte = tarn__input_byte(reader->input);
        if (byte == TARN__INPUT_FAILED)
            return tarn_error_set_native(
                TARN_SYSTEM_FAILURE, errno, "%.200s:%llu: cannot read: %s",
                reader->place.name, (unsigned long long)reader->place.line,
                errno ? strerror(errno) : "no reason given");
        if (byte == TARN__INPUT_END) {
            status = end_of_source(reader, state);
            break;
        }
        if (byte == 0)
            return bad_row(reader, "a NUL byte: the file is not text");
        if (++reader->row_bytes > reader->line_limit)
            return tarn_error_set(
                TARN_BAD_FORMAT, "%.200s:%llu: the line exceeds %zu bytes",
                reader->place.name, (unsigned long long)reader->place.line,
                reader->line_limit);
        state = state == QUOTED ? take_quoted(reader, byte)
                                : take_plain(reader, state, byte, &status);
    }
    reader->text[reader->text_count] = 0;
    return status;
}

/* A line without anything on it; not a row. */
static bool is_blank(const struct reader *reader)
{
    return reader->fields == 1 && reader->text_count == 0;
}

static tarn_status read_row_not_blank(struct reader *reader)
{
    tarn_status status;

    do
        status = read_row(reader);
    while (status == TARN_OK && is_blank(reader));
    return status;
}

/* Parse the first row. */
static tarn_status read_header(struct reader *reader, struct tarn__header *out)
{
    tarn_status status = read_row_not_blank(reader);

    if (status != TARN_OK)
        return status;
    if (reader->fields == 0)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: the file is empty: a log starts with a header",
                              reader->place.name);
    return tarn__header_parse(&reader->place, reader->starts, reader->fields, out);
}

/* Reject a row that has not as many fields as the header. */
static tarn_status bad_count(const struct reader *reader,
                             const struct tarn__header *header)
{
    const char *text = reader->starts[0];
    char shown[96];

    if (strncmp(text, TARN__INCOMPLETE, strlen(TARN__INCOMPLETE)) == 0)
        return tarn_error_set(
            TARN_BAD_FORMAT,
            "%.200s:%llu: the program could not write the log to its end: %s",
            reader->place.name, (unsigned long long)reader->place.line,
            tarn__field_printable(text + strlen(TARN__INCOMPLETE), shown, sizeof shown));
    return tarn_error_set(TARN_BAD_FORMAT, "%.200s:%llu: %s %u columns, %u are required",
                          reader->place.name, (unsigned long long)reader->place.line,
                          reader->torn ? "the file ends inside a line with"
                                       : "the line has",
                          reader->fields, header->count);
}

/* Parse the current row as an event. */
static tarn_status parse_row(struct reader *reader, const struct tarn__header *header,
                             tarn_trace_event *out)
{
    const char *fields[COLUMNS_MAX];

    if (reader->fields != header->count)
        return bad_count(reader, header);
    tarn__header_pick(header, reader->starts, fields);
    memset(out, 0, sizeof *out);
    return header->format->parse(&reader->place, fields, out);
}

static tarn_status read_events(struct reader *reader, struct tarn__header *header)
{
    tarn_trace_event event;

    for (;;) {
        tarn_status status = read_row_not_blank(reader);
        if (status != TARN_OK || reader->fields == 0)
            return status;
        if (tarn__header_is(header->format, reader->starts, reader->fields)) {
            status = tarn__header_parse(&reader->place, reader->starts, reader->fields,
                                        header);
        } else {
            status = parse_row(reader, header, &event);
            if (status == TARN_OK)
                status =
                    tarn__delivery_event(reader->delivery, &event, reader->place.line);
        }
        if (status != TARN_OK)
            return status;
    }
}

tarn_status tarn__csv_reader_read(struct tarn__input *input,
                                  const tarn_trace_limits *limits,
                                  const struct tarn__delivery *delivery,
                                  tarn_trace_format *format_out)
{
    struct reader reader = {
        .input = input, .delivery = delivery, .place = {input->name, 0}, .lines = 1};
    const tarn_trace_end end = {.size = sizeof end};
    struct tarn__header header;

    reader.line_limit =
        limits && limits->line_bytes ? limits->line_bytes : LINE_BYTES_DEFAULT;
    if (reader.line_limit > SIZE_MAX - 2)
        reader.line_limit = SIZE_MAX - 2;
    reader.text = malloc(reader.line_limit + 2);
    if (!reader.text)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "%.200s: no host memory for lines of %zu bytes",
                              input->name, reader.line_limit);
    tarn_status status = read_header(&reader, &header);
    if (status == TARN_OK)
        status = read_events(&reader, &header);
    if (status == TARN_OK) {
        *format_out = header.format->id;
        status = tarn__delivery_end(delivery, &end);
    }
    free(reader.text);
    return status;
}
