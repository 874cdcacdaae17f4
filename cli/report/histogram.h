/* histogram.h -- counts of values in slots whose widths grow with the values.
 *
 * A factor of two has 8 slots. A quantile is the upper edge of its slot, so it is at most
 * 12.5 % too high. Only used slots take memory. */
#ifndef TARN_CLI_REPORT_HISTOGRAM_H
#define TARN_CLI_REPORT_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

struct histogram {
    struct histogram_slot {
        uint64_t weight;
        uint16_t number;
    } *slots; /* by number */
    size_t count, capacity;
    uint64_t weight; /* of all */
};

/* Add a value; `weight` is 1 for a count. */
void histogram_add(struct histogram *histogram, uint64_t value, uint64_t weight);
/* Add the weight of a slot of another histogram; slots come in their order. */
void histogram_add_slot(struct histogram *histogram, struct histogram_slot slot);
/* Return the upper edge of the slot that contains the quantile `share`, from 0 to 1. */
uint64_t histogram_quantile(const struct histogram *histogram, double share);
/* Return the weight in slots that are entirely above a value. */
uint64_t histogram_above(const struct histogram *histogram, uint64_t value);
void histogram_free(struct histogram *histogram);

#endif
