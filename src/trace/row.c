/* row.c -- the parts of a row: numbers, text, quoted text.
 *
 * They are written by hand and not with printf. A logged allocation should cost little
 * more than one that is not, and a row has eleven numbers.
 */
#define _GNU_SOURCE
#include "trace/row.h"
#include "trace/format.h"
#include <string.h>

const struct tarn__format *tarn__row_format(tarn_trace_format id)
{
    switch (id) {
    case TARN_TRACE_NBEP7:
        return &tarn__nbep7_csv;
    case TARN_TRACE_RMM:
        return &tarn__rmm_csv;
    case TARN_TRACE_BINARY: /* has no text */
        break;
    }
    return NULL;
}

void tarn__row_text(struct tarn__row *row, const char *text)
{
    size_t count = strlen(text);

    memcpy(row->at, text, count);
    row->at += count;
}

static void digits_of(struct tarn__row *row, uint64_t value, unsigned base, int at_least)
{
    char digits[24];
    int count = 0;

    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0 || count < at_least);
    while (count > 0)
        *row->at++ = digits[--count];
}

void tarn__row_decimal(struct tarn__row *row, uint64_t value)
{
    digits_of(row, value, 10, 1);
}

void tarn__row_padded(struct tarn__row *row, uint64_t value, int digits)
{
    digits_of(row, value, 10, digits);
}

void tarn__row_hex(struct tarn__row *row, uint64_t value)
{
    *row->at++ = '0';
    *row->at++ = 'x';
    digits_of(row, value, 16, 1);
}

void tarn__row_quoted(struct tarn__row *row, const char *text)
{
    size_t count = strnlen(text, LOCATION_BYTES_MAX);
    size_t plain = strcspn(text, ",\"\r\n");

    if (plain >= count) {
        memcpy(row->at, text, count);
        row->at += count;
        return;
    }
    *row->at++ = '"';
    for (size_t i = 0; i < count; i++) {
        if (text[i] == '"')
            *row->at++ = '"';
        *row->at++ = text[i];
    }
    *row->at++ = '"';
}
