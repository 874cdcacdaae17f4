/* columns.h -- the live bytes over time, in at most 2,048 columns of one width.
 *
 * A column has the minimum and the maximum of the live bytes. It also has the time of the
 * maximum, and the value of each series at that time. If the log needs more columns,
 * adjacent ones are merged and the width doubles. A merged column keeps the values of
 * the one with the larger maximum, so they stay exact. The values change at rows only,
 * so a column holds every value between its begin and its end.
 *
 * Times do not decrease: a row that is late counts for the column of the latest row.
 */
#ifndef TARN_CLI_REPORT_COLUMNS_H
#define TARN_CLI_REPORT_COLUMNS_H

#include "series.h"

enum {
    COLUMNS_MAX = 2048,
    COLUMNS_LEAST = 256, /* more merges do not save memory */
    COLUMNS_FIRST_WIDTH_NS = 1000000
};

/* Values of series at one time. Several columns without a row share one. */
struct snapshot {
    uint32_t references, count;
    uint64_t *bytes;
    uint32_t *series;
};

struct column {
    uint64_t max, max_ns; /* the first instant of the maximum, since the column's begin */
    uint64_t min;
    uint64_t allocations, frees;
    uint64_t reserved, used; /* maxima; 0: unknown */
    struct snapshot *values; /* at `max_ns`; NULL while the column is open */
};

struct columns {
    struct series_set *set;
    struct column items[COLUMNS_MAX];
    size_t count; /* closed */
    struct column open;
    uint64_t start_ns, width_ns;
    uint64_t now_ns; /* the latest time */
    uint64_t total;  /* live bytes now */
    uint64_t reserved, used;
    size_t entries; /* of all snapshots */
    unsigned doublings;
    bool is_begun;
};

/* Begin the first column with the present values of the series. */
void columns_begin(struct columns *columns, struct series_set *set, uint64_t start_ns,
                   uint64_t total);
/* Advance to a time and close the columns before it. */
void columns_advance(struct columns *columns, uint64_t time_ns);
/* Enter the live bytes after a row, at the present time. */
void columns_set_total(struct columns *columns, uint64_t total);
/* Enter bytes that are reserved, and bytes of the device that are used. */
void columns_set_reserved(struct columns *columns, uint64_t reserved);
void columns_set_used(struct columns *columns, uint64_t used);
/* Close the last column. */
void columns_finish(struct columns *columns, uint64_t end_ns);
void columns_free(struct columns *columns);

#endif
