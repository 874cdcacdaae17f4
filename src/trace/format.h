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

struct tarn__row;
struct tarn__place;

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

#endif
