/* events.h -- the events of a pool: the unused ones, and the event fences of each stream
 * state. The caller holds the pool's lock.
 *
 * The pool reuses its events: an event whose fence is complete is recorded again for
 * another epoch. A call that has the event in use without the lock pins it first. This
 * has nothing to do with pinned (page-locked) memory. */
#ifndef TARN_POOL_EVENTS_H
#define TARN_POOL_EVENTS_H

#include "driver/driver.h"
#include "pool/blocks/heap.h"

/* Take an event that the pool keeps for reuse, or return NULL. */
CUevent_ tarn__events_take(struct tarn__heap *heap) TARN__REQUIRES(pool_lock);
/* Keep an event for reuse. Returns false without host memory. */
bool tarn__events_keep(struct tarn__heap *heap, CUevent_ event) TARN__REQUIRES(pool_lock);
/* Collect the events of all event fences as unused ones. The pool ends, and its event
 * fences are not read any more. */
void tarn__events_collect(struct tarn__heap *heap) TARN__REQUIRES(pool_lock);

/* Pin the event of an event fence: until it is unpinned it is not recycled, and the
 * stream state stays. */
CUevent_ tarn__events_pin(struct tarn__stream_state *stream_state,
                          struct tarn__fence *fence) TARN__REQUIRES(pool_lock);
void tarn__events_unpin(struct tarn__stream_state *stream_state, CUevent_ event)
    TARN__REQUIRES(pool_lock);
/* Return the position in the stream state's list of the oldest event fence that covers
 * `epoch`, which is fenced and not done: there is one. */
size_t tarn__events_fence_for(const struct tarn__stream_state *stream_state,
                              uint64_t epoch) TARN__REQUIRES(pool_lock);

/* Append an event fence: `event` was recorded after `epoch` was closed. Returns false
 * without host memory; then the event stays the caller's. */
bool tarn__events_add_fence(struct tarn__heap *heap,
                            struct tarn__stream_state *stream_state, uint64_t epoch,
                            CUevent_ event) TARN__REQUIRES(pool_lock);
/* Remove the first `count` event fences; their events are reused. */
void tarn__events_drop(struct tarn__heap *heap, struct tarn__stream_state *stream_state,
                       size_t count) TARN__REQUIRES(pool_lock);
/* Return true if a call uses one of the event fences. */
bool tarn__events_are_pinned(const struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock);

#endif
