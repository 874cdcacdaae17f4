/* check.h -- the named invariants of a heap, for debug builds and tests. */
#ifndef TARN_POOL_CHECK_H
#define TARN_POOL_CHECK_H

#include "pool/blocks/heap.h"

/* Return NULL, or a message about the first invariant of the heap that does not hold. */
const char *tarn__check_heap(const struct tarn__heap *heap) TARN__REQUIRES(pool_lock);

/* Check the heap of the pool of `device`, and abort with a message if an invariant does
 * not hold. A large heap is checked at intervals. */
void tarn__check_or_abort(const struct tarn__heap *heap, int device)
    TARN__REQUIRES(pool_lock);

#endif
