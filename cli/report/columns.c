/* columns.c -- the live bytes over time, in at most 2,048 columns of one width. */
#include "columns.h"
#include "memory.h"
#include <stdlib.h>

static const size_t ENTRIES_MAX = 8 << 20; /* of 12 bytes */

/* --- snapshots ---------------------------------------------------------------------- */

static uint32_t count_values(const struct series_set *set)
{
    uint32_t count = 0;

    for (size_t i = 0; i < set->sight_count; i++)
        count += series_at_column(set, &set->items[set->sight[i]]) != 0;
    return count;
}

/* Copy the values of all series at the maximum of the open column, and forget those
 * series that are 0 by now. */
static struct snapshot *take_snapshot(struct columns *columns)
{
    struct series_set *set = columns->set;
    struct snapshot *snapshot = memory_new(1, sizeof *snapshot);
    uint32_t count = count_values(set);
    size_t kept = 0;

    snapshot->references = 1;
    snapshot->bytes = memory_new(count, sizeof *snapshot->bytes);
    snapshot->series = memory_new(count, sizeof *snapshot->series);
    for (size_t i = 0; i < set->sight_count; i++) {
        struct series *series = &set->items[set->sight[i]];
        uint64_t bytes = series_at_column(set, series);
        if (bytes != 0) {
            snapshot->bytes[snapshot->count] = bytes;
            snapshot->series[snapshot->count++] = set->sight[i];
        }
        series->is_in_sight = series->now != 0;
        if (series->is_in_sight)
            set->sight[kept++] = set->sight[i];
    }
    set->sight_count = kept;
    columns->entries += count;
    return snapshot;
}

static void drop_snapshot(struct columns *columns, struct snapshot *snapshot)
{
    if (--snapshot->references > 0)
        return;
    columns->entries -= snapshot->count;
    free(snapshot->bytes);
    free(snapshot->series);
    free(snapshot);
}

/* --- columns ------------------------------------------------------------------------ */

/* Open the next column: its first maximum is the present value, at its begin. */
static void open_column(struct columns *columns)
{
    columns->open = (struct column){.max = columns->total,
                                    .min = columns->total,
                                    .reserved = columns->reserved,
                                    .used = columns->used};
    columns->set->column_clock++;
}

static void close_column(struct columns *columns)
{
    columns->open.values = take_snapshot(columns);
    columns->items[columns->count++] = columns->open;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Merge a column into the one before it. */
static void merge_into(struct columns *columns, struct column *first,
                       const struct column *second)
{
    if (second->max > first->max) {
        drop_snapshot(columns, first->values);
        first->values = second->values;
        first->max = second->max;
        first->max_ns = columns->width_ns + second->max_ns;
    } else {
        drop_snapshot(columns, second->values);
    }
    first->min = first->min < second->min ? first->min : second->min;
    first->allocations += second->allocations;
    first->frees += second->frees;
    first->reserved = larger(first->reserved, second->reserved);
    first->used = larger(first->used, second->used);
}

/* Merge all pairs; the number of columns is even, and none is open. */
static void double_width(struct columns *columns)
{
    for (size_t i = 0; i < columns->count; i += 2) {
        struct column first = columns->items[i];
        merge_into(columns, &first, &columns->items[i + 1]);
        columns->items[i / 2] = first;
    }
    columns->count /= 2;
    columns->width_ns *= 2;
    columns->doublings++;
}

static uint64_t index_of(const struct columns *columns, uint64_t time_ns)
{
    return (time_ns - columns->start_ns) / columns->width_ns;
}

/* Add a column without a row behind the last one; `values` are those of its begin. */
static void add_empty(struct columns *columns, struct snapshot *values)
{
    values->references++;
    open_column(columns);
    columns->open.values = values;
    columns->items[columns->count++] = columns->open;
}

/* Add columns without rows, so that the next one to open is that of `time_ns`. */
static void skip_to(struct columns *columns, uint64_t time_ns)
{
    bool is_far = index_of(columns, time_ns) > columns->count ||
                  index_of(columns, time_ns) >= COLUMNS_MAX;
    struct snapshot *values = NULL;

    if (!is_far)
        return;
    open_column(columns); /* the values at the maximum are the present ones */
    values = take_snapshot(columns);
    while (index_of(columns, time_ns) >= COLUMNS_MAX) {
        if (columns->count % 2 != 0)
            add_empty(columns, values);
        double_width(columns);
    }
    while (columns->count < index_of(columns, time_ns))
        add_empty(columns, values);
    drop_snapshot(columns, values);
}

void columns_begin(struct columns *columns, struct series_set *set, uint64_t start_ns,
                   uint64_t total)
{
    columns->set = set;
    columns->start_ns = columns->now_ns = start_ns;
    columns->width_ns = COLUMNS_FIRST_WIDTH_NS;
    columns->total = total;
    columns->is_begun = true;
    open_column(columns);
}

void columns_advance(struct columns *columns, uint64_t time_ns)
{
    if (time_ns <= columns->now_ns)
        return;
    columns->now_ns = time_ns;
    if (index_of(columns, time_ns) == columns->count)
        return;
    close_column(columns);
    while (columns->entries > ENTRIES_MAX && columns->count > COLUMNS_LEAST &&
           columns->count % 2 == 0)
        double_width(columns);
    skip_to(columns, time_ns);
    open_column(columns);
}

void columns_set_total(struct columns *columns, uint64_t total)
{
    columns->total = total;
    if (total < columns->open.min)
        columns->open.min = total;
    if (total <= columns->open.max)
        return;
    columns->open.max = total;
    columns->open.max_ns =
        columns->now_ns - columns->start_ns - columns->count * columns->width_ns;
    columns->set->column_clock++;
}

void columns_set_reserved(struct columns *columns, uint64_t reserved)
{
    columns->reserved = reserved;
    columns->open.reserved = larger(columns->open.reserved, reserved);
}

void columns_set_used(struct columns *columns, uint64_t used)
{
    columns->used = used;
    columns->open.used = larger(columns->open.used, used);
}

void columns_finish(struct columns *columns, uint64_t end_ns)
{
    if (!columns->is_begun)
        return;
    columns_advance(columns, end_ns);
    close_column(columns);
}

void columns_free(struct columns *columns)
{
    for (size_t i = 0; i < columns->count; i++)
        drop_snapshot(columns, columns->items[i].values);
    columns->count = 0;
}
