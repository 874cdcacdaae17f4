/* entry.h -- how an allocation and a free begin: the state of the pool, the stream, and
 * whether it captures. */
#ifndef TARN_POOL_ENTRY_H
#define TARN_POOL_ENTRY_H

#include "driver/driver.h"
#include "pool/cache/thread_cache.h"
#include "pool/order/caller.h"

/* Return TARN_OK if the pool can serve a call, else record why not. This resumes a suspended
 * pool if its policy is to resume. */
tarn_status tarn__entry_check_lifecycle(struct tarn__pool *pool);

/* Return true if a registered stream captures although the program has announced no
 * capture: an event of a capturing stream makes a stream join the capture. The check of a
 * thread cache knows announced captures alone. The caller takes the slow path then. */
bool tarn__entry_has_joined_capture(const struct tarn__pool *pool,
                                    const struct tarn__thread_cache *cache);

/* Begin an operation on the slow path. In a capture of a registered stream that was not
 * announced, drain the thread caches of the stream. No later call of the capture is a
 * cache hit then. */
tarn_status tarn__entry_begin_slow(struct tarn__pool *pool, tarn_stream stream,
                                   struct tarn__caller *caller);

/* Return true if the call names no stream and the pool's context is current. A call
 * without a stream makes no driver call that would detect another context, so this
 * queries it. Without a clear answer the call takes the slow path. */
bool tarn__entry_is_no_stream(const struct tarn__pool *pool, tarn_stream stream);

/* With TARN_POOL_NO_STREAM_SINGLE, a call without a stream means the legacy stream. */
static inline tarn_stream tarn__entry_effective_stream(const struct tarn__pool *pool,
                                                       tarn_stream stream)
{
    bool is_one = pool->options.no_stream_policy == TARN_POOL_NO_STREAM_SINGLE;

    return is_one && stream == TARN_STREAM_NONE ? TARN_STREAM_LEGACY : stream;
}

static inline bool tarn__entry_caches_are_on(const struct tarn__pool *pool)
{
    return tarn__pool_lifecycle(pool) == 0 && !tarn__driver_gone();
}

#endif
