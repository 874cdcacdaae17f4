/* steps.h -- steps of the allocation path, called one by one. */
#ifndef TARN_TEST_STEPS_H
#define TARN_TEST_STEPS_H

#include "pools.h"
#include "pool/order/fence.h"
#include "pool/order/steal.h"
#include "pool/pool.h"
#include "pool/resolve.h"

typedef tarn__index (*steal_step)(struct tarn__caller *caller,
                                  const struct tarn__request *request);

static inline struct tarn__caller caller_of(struct tarn__pool *pool, tarn_stream stream)
{
    struct tarn__caller caller;

    CHECK_OK(tarn__resolve_begin(pool, stream, &caller));
    return caller;
}

/* Have event fences cover the frees of registered streams, for a consumer. */
static inline void fence_sources(struct tarn__pool *pool, tarn_stream consumer)
{
    struct tarn__caller caller = caller_of(pool, consumer);

    tarn__fences_request(pool, &caller);
    tarn__resolve_end(&caller);
}

static inline tarn__index step(struct tarn__pool *pool, steal_step steal, size_t bytes,
                               tarn_stream stream)
{
    struct tarn__request request = {(uint32_t)(bytes / TARN__QUANTUM), TARN__QUANTUM};
    struct tarn__caller caller = caller_of(pool, stream);
    tarn__index index = steal(&caller, &request);

    tarn__resolve_end(&caller);
    return index;
}

/* Free the stolen memory, on a stream. */
static inline void return_it(struct tarn__pool *pool, tarn__index index,
                             tarn_stream stream)
{
    struct tarn__caller caller = caller_of(pool, stream);

    CHECK(index != 0);
    tarn__pool_lock(pool);
    tarn__heap_put(&pool->heap, index, caller.stream_state);
    tarn__pool_unlock(pool);
    tarn__resolve_end(&caller);
}

#endif
