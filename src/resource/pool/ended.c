/* ended.c -- streams that are destroyed while the pool has memory that they freed.
 *
 * The driver gives a destroyed stream's handle to the next stream, and never its id. So a
 * stream has ended once its handle names a stream with another id (caller.c); a
 * per-thread stream ends with its thread (magazine.c). Its work may still be queued, and
 * no event can be recorded behind that work any more: the handle names another stream.
 * Only a wait for the whole device proves that the work is done.
 *
 * What fences cover stays in the stream's lane, because the events remain valid. The
 * rest, and what threads have cached of the stream, moves to the lane TARN__KEY_LEFT, in
 * which streamless.c counts it and waits for it.
 */
#include "resource/pool/pool.h"

enum { MOVED_AT_ONCE = 512 };

void tarn__stream_ended(struct tarn__pool *pool, struct tarn__lane *lane)
{
    if (!tarn__heap_left(&pool->heap)) /* no host memory */
        return;
    lane->users++;
    lane->has_ended = true;
    tarn__magazines_close_lane(pool, lane);
    while (tarn__heap_leave_unfenced(&pool->heap, lane, MOVED_AT_ONCE)) {
        tarn__pool_unlock(pool); /* others may have it between */
        tarn__pool_lock(pool);
    }
    lane->users--;
    tarn__heap_forget_lane(&pool->heap, lane);
}
