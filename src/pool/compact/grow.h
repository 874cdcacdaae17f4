/* grow.h -- growth of a pool for a request. */
#ifndef TARN_POOL_GROW_H
#define TARN_POOL_GROW_H

#include "pool/order/caller.h"

/* Grow for the request and take it. With VMM, reclaimable memory moves there first, and
 * only the missing part is new. TARN_OUT_OF_MEMORY: the limit is reached, or the upstream
 * has none. `growth` held. */
tarn_status tarn__grow(struct tarn__caller *caller, const struct tarn__request *request,
                       tarn__index *out) TARN__REQUIRES(growth);

#endif
