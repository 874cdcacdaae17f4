/* epoch.h -- epochs: groups of frees of one stream, which event fences close. The caller
 * holds the pool's lock. */
#ifndef TARN_POOL_EPOCH_H
#define TARN_POOL_EPOCH_H

#include "driver/driver.h"
#include "pool/blocks/heap.h"

/* Close the stream state's open epoch and return it; no other record of an event may be
 * under way. */
uint64_t tarn__epoch_close(struct tarn__heap *heap,
                           struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock);
/* Publish `event`, which was recorded after `epoch` was closed. Returns false without
 * host memory; then the event stays the caller's and the epoch unfenced. */
bool tarn__epoch_publish_fence(struct tarn__heap *heap,
                               struct tarn__stream_state *stream_state, uint64_t epoch,
                               CUevent_ event) TARN__REQUIRES(pool_lock);

/* Note that the event fence of `epoch` is complete, and with it all before it. */
void tarn__epoch_fence_completed(struct tarn__heap *heap,
                                 struct tarn__stream_state *stream_state, uint64_t epoch)
    TARN__REQUIRES(pool_lock);
/* Complete everything that was freed up to `epoch`, which is closed, fenced or not. */
void tarn__epoch_complete(struct tarn__heap *heap,
                          struct tarn__stream_state *stream_state, uint64_t epoch)
    TARN__REQUIRES(pool_lock);

/* Make up to `most` blocks completed, of stream states whose epochs have finished but
 * whose blocks are not marked yet (heap.finished). Returns true if there may be more. */
bool tarn__epoch_sweep(struct tarn__heap *heap, size_t most) TARN__REQUIRES(pool_lock);

/* Close the open epochs before a device-wide wait: of every stream state but those of
 * captures, from index `*next` (at first 1) on, up to `most` indices at a time. Returns
 * true if there are more. Each stream state may be closed at another moment, as long as
 * the wait begins after the last. */
bool tarn__epoch_close_some(struct tarn__heap *heap, tarn__index *next, size_t most)
    TARN__REQUIRES(pool_lock);
/* Complete the closed epochs after that wait, in the same way. The blocks become completed
 * by tarn__epoch_sweep(). */
bool tarn__epoch_complete_some(struct tarn__heap *heap, tarn__index *next, size_t most)
    TARN__REQUIRES(pool_lock);

#endif
