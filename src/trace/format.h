/* format.h -- a log format, as the writer and the reader use it: one table each.
 *
 * A format knows its header, how an event becomes a row, and how the fields of a row
 * become an event. writer.c and reader.c handle buffers, files, quotes and line ends, so
 * a new format is one small file.
 */
#ifndef TARN_TRACE_FORMAT_H
#define TARN_TRACE_FORMAT_H

#include <tarn/trace.h>

enum {
    LOCATION_BYTES_MAX = 4096,                    /* a longer location is cut */
    ROW_BYTES_MAX = 2 * LOCATION_BYTES_MAX + 512, /* quoting at most doubles it */
    COLUMNS_MAX = 12
};

/* A row that is being built: `at` has ROW_BYTES_MAX bytes left when a format receives it.
 */
struct tarn__row {
    char *at;
};
void tarn__row_text(struct tarn__row *row, const char *text);
void tarn__row_decimal(struct tarn__row *row, uint64_t value);
void tarn__row_hex(struct tarn__row *row, uint64_t value);
/* Append `digits` digits, with leading zeros. */
void tarn__row_padded(struct tarn__row *row, uint64_t value, int digits);
/* Append any text, quoted as in RFC 4180 where that is needed. */
void tarn__row_quoted(struct tarn__row *row, const char *text);

/* The place where a row begins, for messages: `name:line: what`. */
struct tarn__place {
    const char *name;
    uint64_t line;
};

/* One field of a row. Errors name the place, the column and the field's text. */
struct tarn__field {
    const struct tarn__place *place;
    const char *column;
    const char *text;
};
tarn_status tarn__field_bad(const struct tarn__field *field, const char *what);
/* A whole number: decimal, or hexadecimal after 0x; not over `limit`. */
tarn_status tarn__field_number(const struct tarn__field *field, uint64_t limit,
                               uint64_t *out);
/* Seconds as a decimal number, with or without an exponent, truncated to whole
 * nanoseconds. */
tarn_status tarn__field_seconds(const struct tarn__field *field, uint64_t *out_ns);

/* Return `text` safe for printing: control characters escaped, cut to the buffer. */
const char *tarn__field_printable(const char *text, char *buffer, size_t capacity);

struct tarn__format {
    tarn_trace_format id;
    unsigned columns;
    const char *const *names; /* of the columns; the header is these with commas */
    void (*write)(struct tarn__row *row, const tarn_trace_event *event);
    /* `fields` has `columns` entries; the event is cleared before. */
    tarn_status (*parse)(const struct tarn__place *place, const char *const *fields,
                         tarn_trace_event *out);
};

extern const struct tarn__format tarn__nbep7_csv;
extern const struct tarn__format tarn__rmm_csv;

/* The format of that number, or NULL. */
const struct tarn__format *tarn__row_format(tarn_trace_format id);

#endif
