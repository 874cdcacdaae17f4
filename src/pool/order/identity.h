/* identity.h -- which stream state belongs to a stream: by its key and by its handle. The
 * key is the stream's id (cuStreamGetId), or one of the values TARN__KEY_* of
 * stream_state.h. The caller holds the pool's lock. */
#ifndef TARN_POOL_IDENTITY_H
#define TARN_POOL_IDENTITY_H

#include "driver/driver.h"
#include "driver/registration.h"
#include "pool/blocks/heap.h"

/* Return the stream state of `key`, and create it if it does not exist; NULL: no host
 * memory. */
struct tarn__stream_state *tarn__identity_get(struct tarn__heap *heap, uint64_t key)
    TARN__REQUIRES(pool_lock);
/* Return the stream state of `key`, or NULL. */
struct tarn__stream_state *tarn__identity_find(const struct tarn__heap *heap,
                                               uint64_t key) TARN__REQUIRES(pool_lock);
/* Return the stream state of a registered stream, or NULL. */
struct tarn__stream_state *tarn__identity_find_registered(
    const struct tarn__heap *heap, const struct tarn__registration *registration)
    TARN__REQUIRES(pool_lock);
/* Delete a stream state that has no memory, no event fence in use and no users; leave any
 * other stream state. */
void tarn__identity_delete_if_unused(struct tarn__heap *heap,
                                     struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock);
/* Return the state TARN__KEY_ORPHANED, which stays from then on; NULL: no host memory. */
struct tarn__stream_state *tarn__identity_orphaned(struct tarn__heap *heap)
    TARN__REQUIRES(pool_lock);
/* Note that `handle`, which is not the stream state's yet, names its stream. Returns the
 * stream state of the stream that the handle named before; NULL: none. Without host
 * memory the call notes nothing and returns NULL. */
struct tarn__stream_state *tarn__identity_bind_handle(
    struct tarn__heap *heap, struct tarn__stream_state *stream_state, CUstream_ handle)
    TARN__REQUIRES(pool_lock);
/* Unpin the event of an event fence. Its stream may have ended, and have lost its last
 * block: then its state is deleted. */
void tarn__identity_unpin(struct tarn__heap *heap,
                          struct tarn__stream_state *stream_state, CUevent_ event)
    TARN__REQUIRES(pool_lock);

#endif
