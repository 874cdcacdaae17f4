/* shrink.h -- the calls that return free memory to the device. */
#ifndef TARN_POOL_SHRINK_H
#define TARN_POOL_SHRINK_H

#include "pool/pool.h"

/* The `trim` of tarn_resource_ops. */
tarn_status tarn__shrink_to(void *self, size_t keep_bytes, size_t *released_out);

/* Return the free memory of a pool to the device. The pool then maps new memory at the addresses
 * of a new plan, or in larger handles once it has ended learning. Between two steps nearly all
 * memory is free. Without this the pool would hold the old memory and the new. Where it cannot
 * wait for the device, the pages move one by one. */
void tarn__shrink_fully(struct tarn__pool *pool);

/* Do the part of tarn__shrink_to_threshold() that is seldom needed. */
void tarn__shrink_to_threshold_now(struct tarn__pool *pool);

/* Return what is free above the release threshold, or above a limit that was lowered. Each
 * free ends with this. */
static inline void tarn__shrink_to_threshold(struct tarn__pool *pool)
{
    if (tarn__pool_releases_memory(pool))
        tarn__shrink_to_threshold_now(pool);
}

#endif
