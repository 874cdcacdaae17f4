/* header.h -- the columns of a log, by name and in any order. */
#ifndef TARN_TRACE_HEADER_H
#define TARN_TRACE_HEADER_H

#include "trace/field.h"
#include "trace/format.h"

enum { FIELDS_MAX = 64 }; /* most columns of a log, unknown ones included */

/* A header: where the columns of its format are. */
struct tarn__header {
    const struct tarn__format *format;
    unsigned count;                /* fields of each row */
    unsigned char at[COLUMNS_MAX]; /* field of each column; FIELDS_MAX: there is none */
};

/* Return true if the row is a header of this format. A row has `count` fields, and
 * `fields` has the first FIELDS_MAX of them. */
bool tarn__header_is(const struct tarn__format *format, const char *const *fields,
                     unsigned count);

/* Parse the first row of a log, or a later header of the same format. */
tarn_status tarn__header_parse(const struct tarn__place *place, const char *const *fields,
                               unsigned count, struct tarn__header *out);

/* List the fields of a row in the order of the format's columns. */
void tarn__header_pick(const struct tarn__header *header, const char *const *fields,
                       const char *out[COLUMNS_MAX]);

#endif
