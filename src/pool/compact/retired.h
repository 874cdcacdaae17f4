/* retired.h -- retired mappings, whose memory moved while queued work still used them. */
#ifndef TARN_POOL_RETIRED_H
#define TARN_POOL_RETIRED_H

#include "pool/pool.h"

/* Reserve capacity for `count` more. Returns false without host memory, or if there are
 * too many. */
bool tarn__retired_reserve(struct tarn__pool *pool, unsigned count)
    TARN__REQUIRES(growth);
/* Add a node that is in transit; `event` covers its last use and is pinned. `lock`
 * held. */
void tarn__retired_add(struct tarn__pool *pool, tarn__index node,
                       struct tarn__stream_state *stream_state, uint64_t epoch,
                       CUevent_ event) TARN__REQUIRES(pool_lock) TARN__REQUIRES(growth);

/* Unmap the retired mappings that no queued work uses any more. `growth` held. */
void tarn__retired_unmap_completed(struct tarn__pool *pool) TARN__REQUIRES(growth);
/* Unmap all retired mappings; the device is idle. `growth` held. */
void tarn__retired_unmap_all(struct tarn__pool *pool) TARN__REQUIRES(growth);

#endif
