/* row.h -- a row that is being built. */
#ifndef TARN_TRACE_ROW_H
#define TARN_TRACE_ROW_H

#include "trace/format.h"

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

/* The format of that number, or NULL. */
const struct tarn__format *tarn__row_format(tarn_trace_format id);

#endif
