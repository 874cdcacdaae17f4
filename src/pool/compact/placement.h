/* placement.h -- where to place moved handles. */
#ifndef TARN_POOL_PLACEMENT_H
#define TARN_POOL_PLACEMENT_H

#include "pool/compact/reclaimable.h"

/* An unmapped range, or its beginning or end, that the pool is going to fill. */
struct tarn__placement {
    tarn__index range;         /* the unmapped range */
    uint64_t at, bytes;        /* where the moved memory goes */
    uint64_t new_bytes, least; /* new memory behind it: bytes wanted, bytes needed */
};

/* Find the place where the fewest reclaimable handles make a block for the request,
 * together with the memory beside it that the caller's stream may use. Those handles are
 * in `reclaimable_out`. Where all reclaimable memory is not enough anywhere, find a place
 * that needs little new memory. Returns false if no place is better than the end of the
 * range. Nothing is taken, and other threads may use the memory beside the place and the
 * handles meanwhile. `growth` held. */
bool tarn__placement_find(const struct tarn__caller *caller,
                          const struct tarn__request *request,
                          struct tarn__reclaimable *reclaimable_out,
                          struct tarn__placement *out) TARN__REQUIRES(growth);

#endif
