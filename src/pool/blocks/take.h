/* take.h -- allocation from the heap: taking blocks, or parts of them, out of the
 * bins. */
#ifndef TARN_POOL_TAKE_H
#define TARN_POOL_TAKE_H

#include "pool/blocks/heap.h"

struct tarn__request {
    uint32_t quanta;
    uint64_t alignment; /* a power of two */
};

/* Take the best fit among the stream state's own blocks and the completed ones, split to
 * size. With `stream_state` NULL, or a stream state that is not in order, it takes
 * completed blocks alone. The block is in transit and in no bin. `*was_completed` tells
 * whether the block was a completed one. Returns 0 if nothing fits, or without host
 * memory; then `*no_memory` is set. */
tarn__index tarn__take_block(struct tarn__heap *heap,
                             struct tarn__stream_state *stream_state,
                             const struct tarn__request *request, bool *was_completed,
                             bool *no_memory) TARN__REQUIRES(pool_lock);

/* Return true if the request may have a free block of this node's address and size, and fits
 * into it. */
bool tarn__take_fits(const struct tarn__heap *heap, const struct tarn__request *request,
                     const struct tarn__node *node);
/* Split a free block, which the request fits into, and take the request's part out.
 * Returns 0 without host memory. */
tarn__index tarn__take_request(struct tarn__heap *heap, tarn__index index,
                               const struct tarn__request *request)
    TARN__REQUIRES(pool_lock);
/* Split [address, address + bytes) out of the free or unmapped node that contains it, as
 * a node that is in transit. Returns 0 without host memory; then nothing has changed. */
tarn__index tarn__take_range(struct tarn__heap *heap, tarn__index index, uint64_t address,
                             uint64_t bytes) TARN__REQUIRES(pool_lock);
/* Take a whole free block or unmapped range out; it is in transit then. */
void tarn__take_whole(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock);

/* Return the size in quanta of the largest block that `stream_state` could have at
 * once. */
uint32_t tarn__take_largest(const struct tarn__heap *heap,
                            const struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock);

#endif
