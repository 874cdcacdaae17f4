/* ended.c -- streams that are destroyed while the pool holds memory that they freed.
 *
 * The driver reuses a destroyed stream's handle for the next stream, but never its id. So
 * a stream has ended once its handle names a stream with another id (caller.c). A
 * per-thread stream ends with its thread (magazine.c). Its work may still be queued. No
 * event can be recorded behind that work any more, because the handle names another
 * stream. Only a wait for the whole device proves that the work is done.
 *
 * Frees that event fences cover stay in the stream's lane (its state), because the events
 * remain valid. The other frees, and the stream's thread-cached blocks, move to the lane
 * TARN__KEY_ORPHANED. streamless.c counts that memory and waits for it.
 */
#include "pool/pool.h"

enum { MOVED_AT_ONCE = 512 };

/* Move up to `most` unfenced blocks of a lane whose stream has ended to TARN__KEY_ORPHANED.
 * Returns true if there are more. */
static bool orphan_unfenced(struct tarn__heap *heap,
                            struct tarn__stream_state *stream_state, size_t most)
{
    tarn__index index;

    while ((index = stream_state->youngest) != 0 &&
           tarn__node(&heap->nodes, index)->epoch > stream_state->fenced_epoch) {
        if (most-- == 0)
            return true;
        tarn__take_whole(heap, index);
        tarn__heap_put(heap, index,
                       TARN_MUTATION(orphaned_taken_as_completed) ? NULL : stream_state);
    }
    return false;
}

void tarn__stream_ended(struct tarn__pool *pool, struct tarn__stream_state *stream_state)
{
    if (!tarn__identity_orphaned(&pool->heap)) /* no host memory */
        return;
    stream_state->users++;
    stream_state->has_ended = true;
    tarn__thread_caches_close_stream(pool, stream_state);
    while (orphan_unfenced(&pool->heap, stream_state, MOVED_AT_ONCE)) {
        tarn__pool_unlock(pool); /* other threads may take it in between */
        tarn__pool_lock(pool);
    }
    stream_state->users--;
    tarn__identity_delete_if_unused(&pool->heap, stream_state);
}
