/* live.h -- the live block at an address. Another thread may free it at any time. */
#ifndef TARN_POOL_LIVE_H
#define TARN_POOL_LIVE_H

#include "pool/pool.h"

/* Record that no live block has this address. Returns TARN_INVALID_ARGUMENT. */
tarn_status tarn__live_fail(tarn_device_ptr block);

/* Return true if the index is that of a live block. */
static inline bool tarn__live_is(const struct tarn__pool *pool, tarn__index index)
{
    return index && atomic_load_explicit(&tarn__node(&pool->heap.nodes, index)->state,
                                         memory_order_acquire) == TARN__LIVE;
}

/* Return true if it is still this block. */
static inline bool tarn__live_is_still(const struct tarn__pool *pool, tarn__index index,
                                       tarn_device_ptr block)
{
    return tarn__live_is(pool, index) &&
           tarn__node_address(tarn__node(&pool->heap.nodes, index)) == block;
}

/* A lookup without the lock may miss a block while the table grows, or while other threads
 * change it. This looks again, in the end with the lock. */
tarn__index tarn__live_find_again(struct tarn__pool *pool, tarn_device_ptr block);

/* Return the live block at an address; 0: there is none. Takes `lock` if a look without it
 * finds none. */
static inline tarn__index tarn__live_find(struct tarn__pool *pool, tarn_device_ptr block)
{
    tarn__index index =
        tarn__addresses_look(&pool->heap.addresses, &pool->heap.nodes, block);

    return tarn__live_is(pool, index) ? index : tarn__live_find_again(pool, block);
}

#endif
