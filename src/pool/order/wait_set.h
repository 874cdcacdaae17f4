/* wait_set.h -- wait sets: the event fences that a stream waits for before it uses other
 * streams' frees. */
#ifndef TARN_POOL_WAIT_SET_H
#define TARN_POOL_WAIT_SET_H

#include "pool/blocks/runs.h"
#include "pool/order/caller.h"

/* An event fence that covers all the memory taken from one stream state. */
struct tarn__fence_wait {
    struct tarn__stream_state *stream_state;
    uint64_t epoch; /* the youngest epoch of the taken memory */
    CUevent_ event; /* pinned */
};

struct tarn__wait_set {
    struct tarn__fence_wait all[TARN__RUN_MAX];
    unsigned count;
};

/* Add the pieces of a run that belong to other stream states. There is capacity, because
 * a run has at most TARN__RUN_MAX pieces. `lock` held, as for the next function. */
void tarn__wait_set_add(struct tarn__wait_set *wait_set,
                        const struct tarn__caller *caller, const struct tarn__run *run)
    TARN__REQUIRES(pool_lock);
/* Choose the event fences once all pieces are added, and count the waits. */
void tarn__wait_set_pin(struct tarn__wait_set *wait_set, struct tarn__pool *pool)
    TARN__REQUIRES(pool_lock);
/* Have the caller's stream wait. Returns false if the driver rejected a wait. */
bool tarn__wait_set_wait(const struct tarn__wait_set *wait_set,
                         const struct tarn__caller *caller);
/* Release the event fences. `lock` held. */
void tarn__wait_set_release(const struct tarn__wait_set *wait_set,
                            struct tarn__pool *pool) TARN__REQUIRES(pool_lock);

#endif
