/* field.h -- the fields of a row that is being read. */
#ifndef TARN_TRACE_FIELD_H
#define TARN_TRACE_FIELD_H

#include <tarn/trace.h>

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
/* A hexadecimal number, after 0x or without it. */
tarn_status tarn__field_hex(const struct tarn__field *field, uint64_t *out);
/* Seconds as a decimal number, with or without an exponent, truncated to whole
 * nanoseconds. */
tarn_status tarn__field_seconds(const struct tarn__field *field, uint64_t *out_ns);

/* Return the text without blanks at its beginning. */
static inline const char *tarn__field_trim(const char *text)
{
    while (*text == ' ' || *text == '\t')
        text++;
    return text;
}

/* Return `text` safe for printing: control characters escaped, cut to the buffer. */
const char *tarn__field_printable(const char *text, char *buffer, size_t capacity);

#endif
