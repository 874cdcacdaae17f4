/* fence.h -- event fences: recording them, and waiting for the device. */
#ifndef TARN_POOL_FENCE_H
#define TARN_POOL_FENCE_H

#include "pool/order/caller.h"
#include "pool/order/fences_poll.h"

/* Fence the frees of the caller's stream, if that is due. Takes and releases `lock`. */
void tarn__fence_if_due(struct tarn__caller *caller);
/* Fence the frees of the caller's stream now, due or not, if there are any. Compaction
 * can move fenced memory, and unfenced memory not. Takes and releases `lock`. */
void tarn__fence_same_stream(struct tarn__caller *caller);
/* Fence the no-stream state (TARN__KEY_NO_STREAM), which has a user. The event is
 * recorded after all work of the context. */
void tarn__fence_no_stream(struct tarn__pool *pool, const struct tarn__scope *scope,
                           struct tarn__stream_state *stream_state);
/* Return true if an event fence is due. `lock` held. */
bool tarn__fence_is_due(const struct tarn__pool *pool,
                        const struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock);
/* Return true if a free of `bytes` in the stream state would make no event fence due.
 * `lock` held. */
bool tarn__fence_can_wait(const struct tarn__pool *pool,
                          const struct tarn__stream_state *stream_state, uint64_t bytes)
    TARN__REQUIRES(pool_lock);
/* Record the last event fence of a registered stream, which is being unregistered. The
 * caller holds the lock of its registration. */
void tarn__fence_last(struct tarn__pool *pool, tarn_stream stream,
                      struct tarn__registration *registration);
/* Make the unfenced memory of other streams available to a search that needs it. The
 * frees of registered streams are fenced at once, by this thread. The other streams fence
 * theirs at their next call. */
void tarn__fences_request(struct tarn__pool *pool, const struct tarn__caller *caller);
/* Wait for the device, and make all free memory completed. */
tarn_status tarn__fences_wait_for_device(struct tarn__pool *pool);
/* Do the same where the caller holds the mutex `device_wait` of the pool, and not
 * `lock`. */
tarn_status tarn__fences_wait_for_device_locked(struct tarn__pool *pool)
    TARN__REQUIRES(device_wait);
/* Create an event, or reuse one that no event fence uses any more. The caller is in
 * `scope`. NULL: the driver could create none. */
CUevent_ tarn__fence_event(struct tarn__pool *pool, const struct tarn__scope *scope);

#endif
