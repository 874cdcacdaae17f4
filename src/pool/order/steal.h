/* steal.h -- wait sets: the event fences that a stream waits for before it uses other
 * streams' frees. */
#ifndef TARN_POOL_STEAL_H
#define TARN_POOL_STEAL_H

#include "pool/pool.h"

/* An event fence that covers all the memory taken from one lane (the state of one
 * stream). */
struct tarn__fence_wait {
    struct tarn__stream_state *stream_state;
    uint64_t epoch; /* the youngest epoch of the taken memory */
    CUevent_ event; /* pinned */
};

struct tarn__wait_set {
    struct tarn__fence_wait all[TARN__RUN_MAX];
    unsigned count;
};

/* Add the pieces of a run that belong to other lanes. There is capacity, because a run
 * has at most TARN__RUN_MAX pieces. `lock` held, as for the next function. */
void tarn__wait_set_add(struct tarn__wait_set *wait_set,
                        const struct tarn__caller *caller, const struct tarn__run *run);
/* Choose the event fences once all pieces are added, and count the waits. */
void tarn__wait_set_pin(struct tarn__wait_set *wait_set, struct tarn__pool *pool);
/* Have the caller's stream wait. Returns false if the driver rejected a wait. */
bool tarn__wait_set_wait(const struct tarn__wait_set *wait_set,
                         const struct tarn__caller *caller);
/* Release the event fences. `lock` held. */
void tarn__wait_set_release(const struct tarn__wait_set *wait_set,
                            struct tarn__heap *heap);

/* Take a fenced block of another lane that fits, split to size (MOVING). `*donor` is set
 * to the lane of the source stream. `*fence` is set to the position, in that lane's list,
 * of the event fence that covers the block. A split-off part stays with the source
 * stream. Returns 0 if there is none. */
tarn__index tarn__steal_from_source(struct tarn__heap *heap,
                                    const struct tarn__stream_state *stream_state,
                                    const struct tarn__request *request,
                                    struct tarn__stream_state **source, size_t *fence);

#endif
