/* growth_site.h -- where the pool grows if nothing moves, or what moves is not enough. */
#ifndef TARN_POOL_GROWTH_SITE_H
#define TARN_POOL_GROWTH_SITE_H

#include "pool/order/caller.h"

/* A place where the pool could grow so that a request fits. */
struct tarn__growth_site {
    tarn__index range; /* 0: no unmapped range is large enough */
    uint64_t address;  /* of the unmapped range */
    /* Bytes needed from the start of the unmapped range. It is less than the request
     * where memory that the stream may use lies before the unmapped range. */
    uint64_t bytes;
    uint64_t from; /* where that memory begins; `address`: there is none */
};

/* Find the place where the fewest bytes are needed, with `extra_bytes` more addresses
 * behind them. `growth` held, so that the unmapped ranges stay as they are. */
struct tarn__growth_site tarn__growth_site_find(const struct tarn__caller *caller,
                                                const struct tarn__request *request,
                                                uint64_t extra_bytes)
    TARN__REQUIRES(growth);

#endif
