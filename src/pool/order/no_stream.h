/* no_stream.h -- no-stream frees, and the unfenced frees of streams that have ended. */
#ifndef TARN_POOL_NO_STREAM_H
#define TARN_POOL_NO_STREAM_H

#include "pool/blocks/take.h"
#include "pool/pool.h"

/* Return the free bytes that are deferred because they were freed without a stream.
 * `lock` held. */
uint64_t tarn__no_stream_bytes(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
/* Return the free bytes of a stream state that no call can fence any more: of streams and
 * captures that have ended, and of raw streams that are silent. `lock` held. */
uint64_t tarn__no_stream_orphaned_of(const struct tarn__pool *pool,
                                     const struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock);
/* Complete the deferred frees, if there are so many that a search for `request` should
 * not grow instead (NULL: if there are any). Returns true if any became completed. Takes
 * and releases `lock`. */
bool tarn__no_stream_complete(struct tarn__pool *pool,
                              const struct tarn__request *request);
/* Return true if an event is due after a no-stream free of `quanta`. `lock` held. */
bool tarn__no_stream_fence_is_due(const struct tarn__pool *pool, uint32_t quanta)
    TARN__REQUIRES(pool_lock);
/* Record an event after all work of the context, unless that would invalidate a known
 * capture. Takes and releases `lock`. */
void tarn__no_stream_fence(struct tarn__pool *pool);

#endif
