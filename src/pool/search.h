/* search.h -- the slow path of an allocation. */
#ifndef TARN_POOL_SEARCH_H
#define TARN_POOL_SEARCH_H

#include "pool/order/caller.h"

/* Allocate on the slow path: a block that is in transit, or a failure with a
 * message. */
tarn_status tarn__search(struct tarn__caller *caller, const struct tarn__request *request,
                         uint64_t requested, tarn__index *out);

#endif
