/* steal.h -- fences that a stream is made to wait for, before it has what others freed. */
#ifndef TARN_POOL_STEAL_H
#define TARN_POOL_STEAL_H

#include "resource/pool/pool.h"

/* A fence that covers all that is taken of one lane. */
struct tarn__cover {
    struct tarn__lane *lane;
    uint64_t epoch; /* the youngest of what is taken */
    CUevent_ event; /* pinned */
};

struct tarn__covers {
    struct tarn__cover all[TARN__RUN_MAX];
    unsigned count;
};

/* The pieces of a run that are other lanes'. There is room: none has more than one cover.
 * `lock` held, as around the next one. */
void tarn__covers_add(struct tarn__covers *covers, const struct tarn__caller *caller,
                      const struct tarn__run *run);
/* All are added: choose the fences, and count the waits. */
void tarn__covers_pin(struct tarn__covers *covers, struct tarn__pool *pool);
/* Have the caller's stream wait. False: the driver refused one. */
bool tarn__covers_wait(const struct tarn__covers *covers,
                       const struct tarn__caller *caller);
/* `lock` held. */
void tarn__covers_let_go(const struct tarn__covers *covers, struct tarn__heap *heap);

#endif
