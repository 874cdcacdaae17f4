/* ids.h -- any 64-bit values, numbered in order of appearance. */
#ifndef TARN_TRACE_IDS_H
#define TARN_TRACE_IDS_H

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

#endif
