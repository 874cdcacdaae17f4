/* header.c -- find the columns of a log by their names.
 *
 * Other programs write logs with more columns, or with the columns in another order, and
 * programs that edit tables add some of their own. RMM reads logs by the names of the
 * columns, too. A column that no format knows is left out.
 */
#define _GNU_SOURCE
#include "trace/header.h"
#include <string.h>

static const struct tarn__format *const formats[] = {&tarn__nbep7_csv, &tarn__rmm_csv};
enum { FORMATS = sizeof formats / sizeof formats[0] };
_Static_assert(FIELDS_MAX == 64, "a message has the number");

/* The name in a header's field, without blanks before it. */
static const char *name_of(const char *const *fields, unsigned i)
{
    static const char mark[] = "\xef\xbb\xbf"; /* some editors put it in front of text */

    if (i == 0 && strncmp(fields[0], mark, 3) == 0)
        return tarn__field_trim(fields[0] + 3);
    return tarn__field_trim(fields[i]);
}

/* The number of fields with that name; `*at` is the last of them. */
static unsigned find(const char *const *fields, unsigned count, const char *name,
                     unsigned char *at)
{
    unsigned found = 0;

    for (unsigned i = 0; i < count && i < FIELDS_MAX; i++) {
        const char *found_name = name_of(fields, i);
        if (found_name[0] != name[0] || strcmp(found_name, name) != 0)
            continue;
        *at = (unsigned char)i;
        found++;
    }
    return found;
}

bool tarn__header_is(const struct tarn__format *format, const char *const *fields,
                     unsigned count)
{
    unsigned char at;

    return find(fields, count, format->names[format->key], &at) > 0;
}

static tarn_status bad_header(const struct tarn__place *place,
                              const struct tarn__format *format, const char *what,
                              const char *column)
{
    return tarn_error_set(TARN_BAD_FORMAT, "%.200s:%llu: not a header of %s: %s %s",
                          place->name, (unsigned long long)place->line,
                          format->id == TARN_TRACE_RMM ? "RMM" : "NBEP 7", what, column);
}

/* Reject a first row that is no header, and show its beginning. */
static tarn_status unknown_header(const struct tarn__place *place,
                                  const char *const *fields, unsigned count)
{
    char row[128] = "", shown[96];
    size_t used = 0;

    for (unsigned i = 0; i < count && i < FIELDS_MAX && used < sizeof row - 2; i++) {
        size_t bytes = strnlen(fields[i], sizeof row - 2 - used);
        if (i > 0)
            row[used++] = ',';
        memcpy(row + used, fields[i], bytes);
        used += bytes;
    }
    row[used] = 0;
    return tarn_error_set(TARN_BAD_FORMAT,
                          "%.200s:%llu: not a header of NBEP 7 or of RMM: \"%s\"",
                          place->name, (unsigned long long)place->line,
                          tarn__field_printable(row, shown, sizeof shown));
}

tarn_status tarn__header_parse(const struct tarn__place *place, const char *const *fields,
                               unsigned count, struct tarn__header *out)
{
    struct tarn__header header = {.count = count};

    for (int i = 0; i < FORMATS && !header.format; i++)
        if (tarn__header_is(formats[i], fields, count))
            header.format = formats[i];
    if (!header.format)
        return unknown_header(place, fields, count);
    if (count > FIELDS_MAX)
        return bad_header(place, header.format, "it has more than 64", "columns");
    for (unsigned i = 0; i < header.format->columns; i++) {
        const char *name = header.format->names[i];
        header.at[i] = FIELDS_MAX;
        unsigned found = find(fields, count, name, &header.at[i]);
        if (found > 1)
            return bad_header(place, header.format, "it has two columns", name);
        if (found == 0 && !(header.format->optional >> i & 1))
            return bad_header(place, header.format, "it has no column", name);
    }
    *out = header;
    return TARN_OK;
}

void tarn__header_pick(const struct tarn__header *header, const char *const *fields,
                       const char *out[COLUMNS_MAX])
{
    for (unsigned i = 0; i < header->format->columns; i++)
        out[i] = header->at[i] < FIELDS_MAX ? fields[header->at[i]] : NULL;
}
