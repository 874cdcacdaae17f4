/* series.c -- live bytes by stack, stream and size class, and their values at maxima. */
#include "series.h"
#include "memory.h"
#include <stdlib.h>

uint32_t series_add(struct series_set *set, enum series_kind kind, uint32_t of)
{
    set->items =
        memory_grow(set->items, &set->capacity, set->count + 1, sizeof *set->items);
    set->items[set->count].kind = kind;
    set->items[set->count].of = of;
    return (uint32_t)set->count++;
}

/* Note the values of the last maxima before the series changes. */
static struct series *change(struct series_set *set, uint32_t number)
{
    struct series *series = &set->items[number];

    if (series->column_clock != set->column_clock) {
        series->column_clock = set->column_clock;
        series->column_value = series->now;
    }
    if (series->peak_clock != set->peak_clock) {
        series->peak_clock = set->peak_clock;
        series->peak_value = series->now;
        series->peak_blocks = series->blocks;
    }
    return series;
}

void series_begin(struct series_set *set, uint32_t number, uint64_t bytes)
{
    struct series *series = change(set, number);

    series->now += bytes;
    series->blocks++;
    if (series->is_in_sight)
        return;
    series->is_in_sight = true;
    set->sight = memory_grow(set->sight, &set->sight_capacity, set->sight_count + 1,
                             sizeof *set->sight);
    set->sight[set->sight_count++] = number;
}

void series_end(struct series_set *set, uint32_t number, uint64_t bytes)
{
    struct series *series = change(set, number);

    series->now -= bytes;
    series->blocks--;
}

uint64_t series_at_column(const struct series_set *set, const struct series *series)
{
    return series->column_clock == set->column_clock ? series->column_value : series->now;
}

uint64_t series_at_peak(const struct series_set *set, const struct series *series)
{
    return series->peak_clock == set->peak_clock ? series->peak_value : series->now;
}

uint64_t series_blocks_at_peak(const struct series_set *set, const struct series *series)
{
    return series->peak_clock == set->peak_clock ? series->peak_blocks : series->blocks;
}

void series_free(struct series_set *set)
{
    free(set->items);
    free(set->sight);
    *set = (struct series_set){.count = 0};
}
