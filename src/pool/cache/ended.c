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

void tarn__stream_ended(struct tarn__pool *pool, struct tarn__stream_state *stream_state)
{
    if (!tarn__heap_orphaned(&pool->heap)) /* no host memory */
        return;
    stream_state->users++;
    stream_state->has_ended = true;
    tarn__thread_caches_close_stream(pool, stream_state);
    while (tarn__heap_orphan_unfenced(&pool->heap, stream_state, MOVED_AT_ONCE)) {
        tarn__pool_unlock(pool); /* other threads may take it in between */
        tarn__pool_lock(pool);
    }
    stream_state->users--;
    tarn__heap_delete_if_unused(&pool->heap, stream_state);
}
