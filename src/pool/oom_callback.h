/* oom_callback.h -- out-of-memory callbacks: called before an allocation fails. */
#ifndef TARN_POOL_OOM_CALLBACK_H
#define TARN_POOL_OOM_CALLBACK_H

#include "pool/pool.h"

/* The progress of a request through the callbacks; zeros at first. */
struct tarn__oom_progress {
    uint64_t number;  /* number of the next callback */
    unsigned attempt; /* calls of this callback so far */
    unsigned calls;   /* calls of all callbacks for this request */
};

/* Call the callbacks in their order, from `progress` on, until one reports that it freed
 * memory for a request of `bytes`. Returns false if none did, or if the calls reached the
 * bound of one request. No lock is held. */
bool tarn__oom_callbacks_call(struct tarn__pool *pool, uint64_t bytes,
                              struct tarn__oom_progress *progress);

void tarn__oom_callbacks_free(struct tarn__oom_callbacks *all);

#endif
