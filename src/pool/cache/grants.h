/* grants.h -- the bytes that the pool grants to its thread caches.
 *
 * A cache holds no more bytes than it was granted. All caches of a pool together have
 * grants of at most 1/2048 of tarn__pool_scale(). In a small pool they may have more: 256
 * KiB for each cache, up to 16 MiB. If these bytes are all granted, a cache gets those of
 * caches that were not used for a while. A cache that has less than its share also gets
 * what others have above theirs.
 */
#ifndef TARN_POOL_GRANTS_H
#define TARN_POOL_GRANTS_H

#include "pool/cache/thread_cache.h"

/* Do the part of tarn__grants_raise() that not every free needs. `lock` held. */
bool tarn__grants_raise_now(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                            uint64_t bytes) TARN__REQUIRES(pool_lock);

/* Raise the bytes granted to the cache of the calling thread, if a block of `bytes` did
 * not fit. Returns true if it fits now. Other threads change the held and the granted
 * bytes under this lock alone. `lock` held. */
static inline bool tarn__grants_raise(struct tarn__pool *pool,
                                      struct tarn__thread_cache *cache, uint64_t bytes)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    return bytes > tarn__thread_cache_capacity(cache) && !cache->is_bypassed &&
           bytes <= (uint64_t)TARN__LARGE_MAX << TARN__QUANTUM_SHIFT &&
           tarn__grants_raise_now(pool, cache, bytes);
}

#endif
