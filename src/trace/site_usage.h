/* site_usage.h -- the live and peak bytes of each place of the program. */
#ifndef TARN_TRACE_SITE_USAGE_H
#define TARN_TRACE_SITE_USAGE_H

#include "base/intern.h"

/* A place of the program, with its live bytes. */
struct tarn__site_usage {
    uint64_t allocations, total_bytes, live_bytes, live_blocks;
    uint64_t peak_bytes; /* live bytes at the peak of number `peak` */
    uint64_t peak;
    uint64_t held_bytes, held_blocks; /* held until exit, as far as is known */
    uint64_t held_age_ns;             /* of the oldest of them, at the exit */
    uint64_t largest_bytes;           /* of an allocation, which has `stack` */
    uint32_t stack;
};

struct tarn__site_usage_table {
    struct tarn__intern locations; /* the number of a location is its index in `items` */
    struct tarn__site_usage *items;
    uint32_t capacity;
};
void tarn__site_usage_init(struct tarn__site_usage_table *sites);
void tarn__site_usage_free(struct tarn__site_usage_table *sites);
/* The index of a location (NULL is ""), and the other way. False: no host memory. */
bool tarn__site_usage_index(struct tarn__site_usage_table *sites, const char *location,
                            uint32_t *out);
const char *tarn__site_usage_location(const struct tarn__site_usage_table *sites,
                                      uint32_t index);
/* A block begins or ends; `peak` is the number of the latest peak of all live bytes. */
void tarn__site_usage_allocated(struct tarn__site_usage *site, uint64_t bytes,
                                uint64_t peak);
void tarn__site_usage_freed(struct tarn__site_usage *site, uint64_t bytes, uint64_t peak);
/* Live bytes at the latest peak, which has that number. */
uint64_t tarn__site_usage_peak_bytes(const struct tarn__site_usage *site, uint64_t peak);

#endif
