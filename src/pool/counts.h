/* counts.h -- counts of the operations of a pool, by pool and by thread cache. */
#ifndef TARN_POOL_COUNTS_H
#define TARN_POOL_COUNTS_H

#include <tarn/pool.h>

/* What the operations did, whichever thread did them. */
struct tarn__counts {
    uint64_t allocations, frees, hits;
    uint64_t allocated_bytes, freed_bytes; /* as requested */
    uint64_t classes[TARN_POOL_SIZE_CLASSES];
};

/* Return the size class of a request in the statistics. */
static inline unsigned tarn__counts_class(uint64_t bytes)
{
    unsigned log = 63 - (unsigned)__builtin_clzll(bytes | 1);

    return log < TARN_POOL_SIZE_CLASSES ? log : TARN_POOL_SIZE_CLASSES - 1;
}

/* Raise a count. One thread at a time writes it; others read it with
 * tarn__counts_read(). */
static inline void tarn__counts_raise(uint64_t *count, uint64_t more)
{
    __atomic_store_n(count, *count + more, __ATOMIC_RELAXED);
}

static inline uint64_t tarn__counts_read(const uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static inline void tarn__counts_note_allocation(struct tarn__counts *counts,
                                                uint64_t requested)
{
    tarn__counts_raise(&counts->allocations, 1);
    tarn__counts_raise(&counts->allocated_bytes, requested);
    tarn__counts_raise(&counts->classes[tarn__counts_class(requested)], 1);
}

static inline void tarn__counts_note_free(struct tarn__counts *counts, uint64_t requested)
{
    tarn__counts_raise(&counts->frees, 1);
    tarn__counts_raise(&counts->freed_bytes, requested);
}

/* Add counts, which another thread may be raising. */
static inline void tarn__counts_add(struct tarn__counts *to,
                                    const struct tarn__counts *from)
{
    tarn__counts_raise(&to->allocations, tarn__counts_read(&from->allocations));
    tarn__counts_raise(&to->frees, tarn__counts_read(&from->frees));
    tarn__counts_raise(&to->hits, tarn__counts_read(&from->hits));
    tarn__counts_raise(&to->allocated_bytes, tarn__counts_read(&from->allocated_bytes));
    tarn__counts_raise(&to->freed_bytes, tarn__counts_read(&from->freed_bytes));
    for (unsigned i = 0; i < TARN_POOL_SIZE_CLASSES; i++)
        tarn__counts_raise(&to->classes[i], tarn__counts_read(&from->classes[i]));
}

#endif
