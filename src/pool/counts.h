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

static inline void tarn__counts_note_allocation(struct tarn__counts *counts,
                                                uint64_t requested)
{
    counts->allocations++;
    counts->allocated_bytes += requested;
    counts->classes[tarn__counts_class(requested)]++;
}

static inline void tarn__counts_note_free(struct tarn__counts *counts, uint64_t requested)
{
    counts->frees++;
    counts->freed_bytes += requested;
}

#endif
