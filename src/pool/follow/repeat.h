/* repeat.h -- planned allocations that are cache hits.
 *
 * A freed planned block goes into the heap, where the next slot at its addresses splits and
 * coalesces. Often that slot is the next one of the same sequence, and has the same
 * addresses. Then the block stays in the thread cache, as its last-freed block. The
 * allocation is a hit, and so are those that repeat it. The plan learns of them later:
 * with the thread's next call that takes the pool's lock, or at a mark.
 *
 * The first requests of a step tell its shape, so no repeat lasts beyond a mark. A pool that
 * records a step, or looks for steps, has none: it has to see each request. The same holds
 * for raw streams if the plan has several: another stream could not fence the block.
 */
#ifndef TARN_POOL_REPEAT_H
#define TARN_POOL_REPEAT_H

#include "pool/cache/thread_cache.h"

/* Keep a block, in transit, which the thread of the cache freed, if its allocation is the
 * next one of the plan. Returns false if it belongs into the heap. */
bool tarn__repeat_begin(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                        tarn__index index) TARN__REQUIRES(pool_lock);
/* Let the plan know the hits of the calling thread's cache, which is about to free a block. */
void tarn__repeat_note(struct tarn__pool *pool, struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock);
/* Do the same before the thread asks the plan: that ends the repeat. */
void tarn__repeat_end(struct tarn__pool *pool, struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock);
/* End the repeats of all caches: a step ends, or the plan. */
void tarn__repeat_end_all(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);

#endif
