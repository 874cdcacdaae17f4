/* steal.h -- wait sets: the event fences that a stream waits for before it uses other
 * streams' frees. */
#ifndef TARN_POOL_STEAL_H
#define TARN_POOL_STEAL_H

#include "resource/pool/pool.h"

/* An event fence that covers all the memory taken from one lane (the state of one
 * stream). */
struct tarn__cover {
    struct tarn__lane *lane;
    uint64_t epoch; /* the youngest epoch of the taken memory */
    CUevent_ event; /* pinned */
};

struct tarn__covers {
    struct tarn__cover all[TARN__RUN_MAX];
    unsigned count;
};

/* Add the pieces of a run that belong to other lanes. There is capacity, because a run
 * has at most TARN__RUN_MAX pieces. `lock` held, as for the next function. */
void tarn__covers_add(struct tarn__covers *covers, const struct tarn__caller *caller,
                      const struct tarn__run *run);
/* Choose the event fences once all pieces are added, and count the waits. */
void tarn__covers_pin(struct tarn__covers *covers, struct tarn__pool *pool);
/* Have the caller's stream wait. Returns false if the driver rejected a wait. */
bool tarn__covers_wait(const struct tarn__covers *covers,
                       const struct tarn__caller *caller);
/* Release the event fences. `lock` held. */
void tarn__covers_let_go(const struct tarn__covers *covers, struct tarn__heap *heap);

#endif
