/* follow.h -- a pool that follows a plan.
 *
 * The plan proposes an address for an allocation. The pool hands the address out only
 * where its own rules allow that (area.h). Else the ordinary search serves the request,
 * outside of the area. So a wrong plan costs time and memory, and never order.
 *
 * While a pool follows a plan, its thread caches keep no blocks: a cached block would hold
 * its addresses against the next slot. A block which that slot is stays there (repeat.h).
 *
 * The pool's lock guards all of it.
 */
#ifndef TARN_POOL_FOLLOW_H
#define TARN_POOL_FOLLOW_H

#include "pool/cache/thread_cache.h"
#include "pool/order/caller.h"

/* What the plan proposes for one allocation. */
struct tarn__followed {
    bool is_made;    /* the plan was asked */
    bool is_blocked; /* and the addresses of the slots that fit are in use */
    bool has_slot;   /* or it proposes a slot, of this version of the plan: */
    uint64_t version;
    uint32_t offset, rank;
};

/* Return true if the pool follows a plan now. */
bool tarn__follow_is_on(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock);

/* Return the bytes of host memory of plans and records. */
size_t tarn__follow_metadata(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock);

/* Have the addresses of an allocation ready, before the plan is asked: what could not be unmapped
 * at the mark is tried again with the first one of the step. Many programs wait for the device
 * behind the mark. Returns true if it was. No lock held. */
bool tarn__follow_begin(struct tarn__pool *pool);

/* Ask the plan for an allocation of the thread cache's stream, and take the block if the
 * stream may have it at once. Returns it in transit; 0: the plan proposes none
 * (`out->has_slot` false), or tarn__follow_search() has to make it available. */
tarn__index tarn__follow_take(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                              const struct tarn__request *request,
                              struct tarn__followed *out) TARN__REQUIRES(pool_lock);
/* Do the same for a caller, with what that takes: waits for other streams, memory for
 * addresses that have none. No lock held. */
tarn__index tarn__follow_search(struct tarn__caller *caller,
                                const struct tarn__request *request,
                                struct tarn__followed *followed);
/* Share the free memory at planned addresses with other requests, until the step ends.
 * Returns false if that is so already. No lock held. */
bool tarn__follow_share(struct tarn__pool *pool);
/* Do so with requests of 1 MiB and more, if this is one whose slots are in use, and growth for
 * it would have a pool that learns reserve more than a plan may. A request without a slot would be
 * in the way of others: for that one planned memory moves. Returns false if it does not share. No
 * lock held. */
bool tarn__follow_share_before_growth(struct tarn__pool *pool,
                                      const struct tarn__request *request,
                                      const struct tarn__followed *followed);
/* Note that a block, in transit, is about to be freed in the order of a stream. Returns true
 * if the pool follows no plan any more. */
bool tarn__follow_forget(struct tarn__pool *pool, tarn__index index,
                         struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock);
/* Put a block, in transit, that the thread of the cache frees. It stays in the cache if the
 * plan has its address next, else it goes into the heap. Returns false if the pool follows no
 * plan any more, and the block is still to be put. */
bool tarn__follow_put(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                      tarn__index index) TARN__REQUIRES(pool_lock);

/* Note that the allocation got this block, which is in transit, on the stream of that
 * key. A pool that learns records it. */
void tarn__follow_note(struct tarn__pool *pool, tarn__index index, uint64_t key,
                       const struct tarn__followed *followed) TARN__REQUIRES(pool_lock);
/* Return true if a step, which the program does not mark, begins with a request that is not
 * served yet: the caller marks it. No lock held. */
bool tarn__follow_detect(struct tarn__pool *pool, uint32_t quanta);
/* The program marks its steps itself. No lock held. */
void tarn__follow_end_detection(struct tarn__pool *pool);
/* Note the begin of a step of the program: all sequences begin anew. A pool that learns
 * records the step, or follows the plan of an earlier one. Returns true if memory is
 * to be returned: new plans have other addresses, a plan made the pool reserve too much, or
 * learning has ended. No lock held. */
bool tarn__follow_mark(struct tarn__pool *pool);

#endif
