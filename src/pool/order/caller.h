/* caller.h -- the caller: one allocation or free under way, with its stream (resolve.c
 * fills it in). */
#ifndef TARN_POOL_CALLER_H
#define TARN_POOL_CALLER_H

#include "pool/blocks/take.h"
#include "pool/pool.h"

struct tarn__caller {
    struct tarn__pool *pool;
    tarn_stream stream; /* as passed */
    CUstream_ handle;   /* valid while the call runs */
    struct tarn__stream_state
        *stream_state;        /* the call is one of its users until it ends */
    struct tarn__scope scope; /* the table of driver calls; the context is current */
    bool capturing;           /* no wait, no event fence, no thread cache */
    /* recording an event on the stream, or having it wait, invalidates no capture */
    bool may_record;
    struct tarn__registration *registration; /* of a registered stream, else NULL */
    uint64_t capture_id;    /* while it captures; 0: the driver cannot tell */
    CUgraph_ capture_graph; /* the graph that it captures into, or NULL */
    unsigned capture_slot;  /* 0: none, or the capture is lost */
    /* the capture was invalidated, so that none of its work will run */
    bool is_lost;
    unsigned callbacks;              /* calls of callbacks for its request */
    struct tarn__followed *followed; /* what a plan proposes (follow/follow.h) */
};

/* Take a block out of the same-stream frees and the completed frees alone. Returns 0 if
 * nothing fits. `lock` held. */
static inline tarn__index tarn__caller_take(struct tarn__caller *caller,
                                            const struct tarn__request *request)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn__pool *pool = caller->pool;
    bool was_completed, no_memory = false;
    /* A callback, or another thread, may have suspended it. */
    tarn__index index = atomic_load(&pool->lifecycle)
                            ? 0
                            : tarn__take_block(&pool->heap, caller->stream_state, request,
                                               &was_completed, &no_memory);

    if (index)
        *(was_completed ? &pool->counters.completed : &pool->counters.same_stream) += 1;
    return index;
}

#endif
