/* histogram.c -- counts of values in slots whose widths grow with the values. */
#include "histogram.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

enum { PARTS_LOG = 3, PARTS = 1 << PARTS_LOG };

/* Values below 16 have a slot each. */
static uint16_t slot_of(uint64_t value)
{
    if (value < 2 * PARTS)
        return (uint16_t)value;
    int octave = 63 - __builtin_clzll(value);
    return (uint16_t)((octave - PARTS_LOG) * PARTS +
                      (int)(value >> (octave - PARTS_LOG)));
}

static uint64_t lower_edge(uint16_t slot)
{
    if (slot < 2 * PARTS)
        return slot;
    return (uint64_t)(PARTS + slot % PARTS) << (slot / PARTS - 1);
}

static uint64_t upper_edge(uint16_t slot)
{
    if (slot < 2 * PARTS)
        return slot;
    return lower_edge(slot) + (((uint64_t)1 << (slot / PARTS - 1)) - 1);
}

void histogram_add(struct histogram *histogram, uint64_t value, uint64_t weight)
{
    uint16_t number = slot_of(value);
    size_t low = 0, high = histogram->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (histogram->slots[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == histogram->count || histogram->slots[low].number != number) {
        histogram->slots = memory_grow(histogram->slots, &histogram->capacity,
                                       histogram->count + 1, sizeof *histogram->slots);
        memmove(&histogram->slots[low + 1], &histogram->slots[low],
                (histogram->count - low) * sizeof *histogram->slots);
        histogram->slots[low] = (struct histogram_slot){0, number};
        histogram->count++;
    }
    histogram->slots[low].weight += weight;
    histogram->weight += weight;
}

void histogram_add_slot(struct histogram *histogram, struct histogram_slot slot)
{
    histogram->slots = memory_grow(histogram->slots, &histogram->capacity,
                                   histogram->count + 1, sizeof *histogram->slots);
    histogram->slots[histogram->count++] = slot;
    histogram->weight += slot.weight;
}

uint64_t histogram_quantile(const struct histogram *histogram, double share)
{
    double wanted = share * (double)histogram->weight;
    uint64_t sum = 0;

    for (size_t i = 0; i < histogram->count; i++) {
        sum += histogram->slots[i].weight;
        if ((double)sum >= wanted)
            return upper_edge(histogram->slots[i].number);
    }
    return 0;
}

uint64_t histogram_above(const struct histogram *histogram, uint64_t value)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < histogram->count; i++)
        if (lower_edge(histogram->slots[i].number) > value)
            sum += histogram->slots[i].weight;
    return sum;
}

void histogram_free(struct histogram *histogram)
{
    free(histogram->slots);
    *histogram = (struct histogram){.count = 0};
}
