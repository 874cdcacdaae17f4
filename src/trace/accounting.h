/* accounting.h -- the parts of the accounting: numbered ids, sites, and the effect of a
 * row.
 */
#ifndef TARN_TRACE_ACCOUNTING_H
#define TARN_TRACE_ACCOUNTING_H

#include <tarn/trace.h>
#include "base/map.h"

/* Any 64-bit values, numbered 0, 1, 2 ... in order of appearance. */
struct tarn__ids {
    struct tarn__map numbers; /* value + 1 -> uint32_t; all bits set does not fit there */
    uint32_t all_ones;        /* number of UINT64_MAX, valid if has_all_ones */
    bool has_all_ones;
    uint32_t count;
};
void tarn__ids_init(struct tarn__ids *ids);
void tarn__ids_free(struct tarn__ids *ids);
/* The number of `value`, a new one if it has none. False: `limit` values exist already,
 * or no host memory. */
bool tarn__ids_number(struct tarn__ids *ids, uint64_t value, size_t limit, uint32_t *out);

/* A place of the program, with its live bytes. */
struct tarn__site_usage {
    char *location; /* owned */
    uint64_t allocations, total_bytes, live_bytes, live_blocks;
    uint64_t peak_bytes; /* live bytes at the peak of number `peak` */
    uint64_t peak;
};

struct tarn__site_usage_table {
    struct tarn__map by_hash; /* hash of the location -> uint32_t, its index */
    struct tarn__site_usage *items;
    uint32_t count, capacity;
    size_t text_bytes; /* of all locations */
};
void tarn__site_usage_init(struct tarn__site_usage_table *sites);
void tarn__site_usage_free(struct tarn__site_usage_table *sites);
/* The index of a location (NULL is ""). False: no host memory. */
bool tarn__site_usage_index(struct tarn__site_usage_table *sites, const char *location,
                            uint32_t *out);
/* A block begins or ends; `peak` is the number of the latest peak of all live bytes. */
void tarn__site_usage_allocated(struct tarn__site_usage *site, uint64_t bytes,
                                uint64_t peak);
void tarn__site_usage_freed(struct tarn__site_usage *site, uint64_t bytes, uint64_t peak);
/* Live bytes at the latest peak, which has that number. */
uint64_t tarn__site_usage_peak_bytes(const struct tarn__site_usage *site, uint64_t peak);

#define TARN__NO_BLOCK UINT32_MAX

/* The effect of a row on the blocks, which are numbered as they are allocated. */
struct tarn__match {
    uint32_t freed;     /* this block ended; TARN__NO_BLOCK: none */
    uint32_t allocated; /* this one began */
    uint32_t thread, stream;
};
/* tarn_trace_accounting_add() for the loader, which needs the match. */
tarn_status tarn__accounting_add(tarn_trace_accounting *accounting,
                                 const tarn_trace_event *event, uint64_t line,
                                 struct tarn__match *out);
/* The ids behind the numbers in tarn__match. */
const struct tarn__ids *tarn__accounting_streams(const tarn_trace_accounting *accounting);
const struct tarn__ids *tarn__accounting_threads(const tarn_trace_accounting *accounting);

#endif
