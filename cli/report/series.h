/* series.h -- live bytes by stack, stream and size class, and their values at a
 * maximum.
 *
 * Two counters ("clocks") count the maxima of the live bytes of the whole log: one its
 * peaks, one the maxima of the current column of time. A new maximum increments its
 * counter. A series saves its value before its first change after that. So the value at
 * the maximum is known without a copy of all series.
 */
#ifndef TARN_CLI_REPORT_SERIES_H
#define TARN_CLI_REPORT_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum series_kind { SERIES_NODE, SERIES_STREAM, SERIES_SIZE };

struct series {
    uint64_t now, blocks;             /* bytes and blocks that are live */
    uint64_t column_value;            /* if column_clock is that of the set */
    uint64_t peak_value, peak_blocks; /* if peak_clock is that of the set */
    uint64_t column_clock, peak_clock;
    uint64_t total, allocations; /* all of the window */
    uint64_t held, held_blocks;  /* until exit */
    uint64_t oldest_held_ns;     /* time of its oldest held block, if held_blocks */
    enum series_kind kind;
    uint32_t of;      /* node, number of the stream, or size class */
    bool is_in_sight; /* listed in `sight` */
};

struct series_set {
    struct series *items;
    size_t count, capacity;
    uint64_t column_clock, peak_clock;
    uint32_t *sight; /* all series whose value in the current column is not 0 */
    size_t sight_count, sight_capacity;
};

/* Add a series and return its number. */
uint32_t series_add(struct series_set *set, enum series_kind kind, uint32_t of);
/* Add or remove a live block of a series. */
void series_begin(struct series_set *set, uint32_t number, uint64_t bytes);
void series_end(struct series_set *set, uint32_t number, uint64_t bytes);
/* Return the bytes or the blocks of a series at the last maximum. */
uint64_t series_at_column(const struct series_set *set, const struct series *series);
uint64_t series_at_peak(const struct series_set *set, const struct series *series);
uint64_t series_blocks_at_peak(const struct series_set *set, const struct series *series);
void series_free(struct series_set *set);

#endif
