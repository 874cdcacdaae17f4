/* format.h -- a log format, as the writer and the reader use it: one table each.
 *
 * A format knows its header, how an event becomes a row, and how the fields of a row
 * become an event. text_buffer.c and reader.c handle buffers, files, quotes and line
 * ends. A new format therefore consists of:
 *
 *    its file              beside rmm_csv.c: the table, one function to write and one to
 *                          parse a row
 *    this header           the declaration of the table
 *    row.c                 tarn__row_format(), through which the writer finds the table
 *    header.c              the list of formats, and the text of the error
 *    tarn/trace.h          a constant of enum tarn_trace_format; tools/abi.txt lists it
 *    cli/cmd_log.c         its name in the output of `tarn log`
 */
#ifndef TARN_TRACE_FORMAT_H
#define TARN_TRACE_FORMAT_H

#include <tarn/trace.h>

enum {
    LOCATION_BYTES_MAX = 4096,                    /* a longer location is cut */
    ROW_BYTES_MAX = 2 * LOCATION_BYTES_MAX + 512, /* quoting at most doubles it */
    COLUMNS_MAX = 12
};

/* The last line of a log that its program could not write to its end. */
#define TARN__INCOMPLETE "# incomplete: "

struct tarn__row;
struct tarn__place;

struct tarn__format {
    tarn_trace_format id;
    unsigned columns;
    const char *const *names; /* of the columns; the header is these with commas */
    unsigned key;             /* the column by whose name a header is recognized */
    unsigned optional;        /* bit i: a log may lack column i */
    void (*write)(struct tarn__row *row, const tarn_trace_event *event);
    /* `fields` has `columns` entries, NULL for a column that the log lacks; the event is
     * cleared before. */
    tarn_status (*parse)(const struct tarn__place *place, const char *const *fields,
                         tarn_trace_event *out);
};

extern const struct tarn__format tarn__nbep7_csv;
extern const struct tarn__format tarn__rmm_csv;

#endif
