/* steal.h -- cross-stream reuse: another stream's memory, after a wait. */
#ifndef TARN_POOL_STEAL_H
#define TARN_POOL_STEAL_H

#include "pool/order/caller.h"

/* Take a fenced block of another stream, after a wait. Returns 0 if there is none. */
tarn__index tarn__steal(struct tarn__caller *caller, const struct tarn__request *request);
/* Take adjacent blocks of several streams, after a wait for each stream. */
tarn__index tarn__steal_run(struct tarn__caller *caller,
                            const struct tarn__request *request);

/* Take a fenced block of another stream state that fits, split to size (in transit).
 * `*source` is set to the state of the source stream, `*epoch` to the block's epoch there.
 * A block for which the stream has waited already is preferred to another one of its size.
 * A split-off part stays with the source stream. Returns 0 if there is none. */
tarn__index tarn__steal_from_source(struct tarn__heap *heap,
                                    const struct tarn__stream_state *stream_state,
                                    const struct tarn__request *request,
                                    struct tarn__stream_state **source, uint64_t *epoch)
    TARN__REQUIRES(pool_lock);

#endif
