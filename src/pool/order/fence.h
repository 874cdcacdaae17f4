/* fence.h -- event fences: recording them, and querying which are complete. */
#ifndef TARN_POOL_FENCE_H
#define TARN_POOL_FENCE_H

#include "pool/order/caller.h"

/* Fence the frees of the caller's stream, if that is due. Takes and releases `lock`. */
void tarn__fence_if_due(struct tarn__caller *caller);
/* Fence them whether due or not, if there are any: completed memory can move. */
void tarn__fence_same_stream(struct tarn__caller *caller);
/* Fence the no-stream state (TARN__KEY_NO_STREAM), which has a user: with an event behind
 * all work of the context. */
void tarn__fence_no_stream(struct tarn__pool *pool, const struct tarn__scope *scope,
                           struct tarn__stream_state *stream_state);
/* Return true if an event fence is due. `lock` held. */
bool tarn__fence_is_due(const struct tarn__pool *pool,
                        const struct tarn__stream_state *stream_state);
/* Return true if a free of `bytes` in the stream state would make no event fence due.
 * `lock` held. */
bool tarn__fence_can_wait(const struct tarn__pool *pool,
                          const struct tarn__stream_state *stream_state, uint64_t bytes);
/* Fence the frees of a registered stream, and drop its handle: it is being
 * unregistered. */
void tarn__fence_last(struct tarn__pool *pool, tarn_stream stream,
                      struct tarn__registration *registration);
/* Query the driver which event fences are complete, up to `most` of them, and make the
 * frees they cover completed. Returns true if any became completed. Takes and releases
 * `lock`. */
bool tarn__fences_poll(struct tarn__pool *pool, unsigned most);
/* Do the same for each stream state, as far as its event fences are complete. */
bool tarn__fences_poll_all(struct tarn__pool *pool);
/* Fence the free memory of registered streams, which needs no call on them. Have the
 * other streams fence theirs at their next call. */
void tarn__fences_request(struct tarn__pool *pool, const struct tarn__caller *caller);
/* Wait for the device, and make all free memory completed. */
tarn_status tarn__fences_wait_for_device(struct tarn__pool *pool);
/* Do the same where the caller holds `device_wait`. */
tarn_status tarn__fences_wait_for_device_locked(struct tarn__pool *pool);
/* Create an event or reuse one, in a scope. NULL: the driver has none. */
CUevent_ tarn__fence_event(struct tarn__pool *pool, const struct tarn__scope *scope);

#endif
