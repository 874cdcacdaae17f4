/* intern.h -- equal byte strings stored once, each with a small number.
 *
 * The numbers count from 0 without gaps, and a string stays at its address until the end.
 * The table has no lock: the owner locks.
 */
#ifndef TARN_BASE_INTERN_H
#define TARN_BASE_INTERN_H

#include "base/map.h"

struct tarn__interned {
    size_t count;          /* bytes */
    unsigned char bytes[]; /* with a zero behind them; aligned for uint64_t */
};

struct tarn__intern {
    struct tarn__map by_hash;      /* hash of a string -> uint32_t, its number */
    struct tarn__interned **items; /* the string of each number */
    uint32_t count, capacity;
    size_t bytes;         /* of all strings, with their zeros */
    uint64_t comparisons; /* with strings that have the same hash */
};

void tarn__intern_init(struct tarn__intern *table);
void tarn__intern_free(struct tarn__intern *table);

/* Find the number of a string. Returns false if it is not there. */
bool tarn__intern_find(struct tarn__intern *table, const void *bytes, size_t count,
                       uint32_t *out);
/* The same, but add a string that is not there. Returns false without host memory. */
bool tarn__intern_add(struct tarn__intern *table, const void *bytes, size_t count,
                      uint32_t *out);

#endif
