/* streamless.c -- no-stream frees: memory freed without a stream, or left by a stream
 * that has ended.
 *
 * Work on any stream may still use such memory, streams included that no longer exist. No
 * event on one stream covers it. It is in the no-stream lane (TARN__KEY_NOBODY), which
 * orders no caller: free, but deferred. One device-wide wait covers everything there, so
 * the pool waits once for many frees. It waits when so much is deferred that a search
 * should wait rather than grow, and before an allocation fails.
 *
 * The same wait covers the unfenced frees of ended streams and captures (TARN__KEY_LEFT).
 * Their users named streams, so the pool waits for it only where `oom_policy` allows a
 * wait.
 *
 * An allocation without a stream gets completed memory, behind which no work is pending.
 * Both halves of the guarantee (supports_no_stream in tarn/resource.h) are thus kept here
 * and in tarn__heap_take().
 */
#include "resource/pool/pool.h"
#include "base/wait.h"

/* The most deferred memory before a search waits instead of growing. It is the largest of
 * three: this part of the pool; so many blocks of the requested size, FEW at least, as
 * far as that is a small part of what the pool may have; and LEAST. A loop that allocates
 * and frees one size therefore waits for the device at most once in MANY frees. */
enum { POOL_PART = 8, CAPACITY_PART = 32, MANY = 16 };
#define LEAST ((uint64_t)16 << 20)
#define FEW ((uint64_t)64 << 20)

/* The most deferred memory of ended streams and captures: so much, or this part of the
 * peak of live bytes. */
enum { LEFT_PART = 2 };
#define LEFT_LEAST ((uint64_t)64 << 20)

static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

/* Return the bound for blocks of this size. `lock` held. */
static uint64_t bound(const struct tarn__pool *pool, uint32_t granules)
{
    uint64_t asked = (uint64_t)granules << TARN__GRANULE_SHIFT;
    uint64_t many =
        smaller(larger(MANY * asked, FEW), tarn__capacity(pool) / CAPACITY_PART);
    uint64_t part = tarn__pages_reserved(pool->pages) / POOL_PART;

    if (pool->options.no_stream_limit_bytes > 0)
        return pool->options.no_stream_limit_bytes;
    return larger(LEAST, larger(part, many));
}

static uint64_t bytes_of(const struct tarn__pool *pool, uint64_t key)
{
    const struct tarn__lane *lane = tarn__heap_known_lane(&pool->heap, key);

    return lane ? lane->free_bytes : 0;
}

uint64_t tarn__streamless_bytes(const struct tarn__pool *pool)
{
    return bytes_of(pool, TARN__KEY_NOBODY);
}

/* Enough for a search of `request`; with NULL, any at all is enough. */
enum enough { TOO_LITTLE, ENOUGH_OF_NOBODYS, ENOUGH_IS_LEFT };

static enum enough is_enough(struct tarn__pool *pool, const struct tarn__request *request)
{
    bool waits = pool->options.oom_policy == TARN_POOL_OOM_SYNCHRONIZE;

    tarn__pool_lock(pool);
    uint64_t nobodys = tarn__streamless_bytes(pool);
    uint64_t left = waits ? bytes_of(pool, TARN__KEY_LEFT) : 0;
    uint64_t left_bound = larger(LEFT_LEAST, pool->peak_allocated / LEFT_PART);
    bool is_left = left > 0 && (!request || left >= left_bound);
    bool is_nobodys =
        nobodys > 0 && (!request || nobodys >= bound(pool, request->granules));
    tarn__pool_unlock(pool);
    if (is_left)
        return ENOUGH_IS_LEFT;
    return is_nobodys ? ENOUGH_OF_NOBODYS : TOO_LITTLE;
}

/* --- by an event --- */

bool tarn__streamless_is_due(const struct tarn__pool *pool, uint32_t granules)
{
    const struct tarn__lane *lane = tarn__heap_known_lane(&pool->heap, TARN__KEY_NOBODY);

    return pool->options.no_stream_policy == TARN_POOL_NO_STREAM_EVENT &&
           !lane->recording && tarn__lane_unfenced(lane) >= bound(pool, granules) / 2;
}

/* Return true if the event would end a known capture. The pool does not see captures on
 * non-blocking streams that were not announced, unless they have memory of this pool. If
 * it returns false, no capture can be announced until tarn__opened_let_captures_go(). In
 * a scope. */
static bool captures_are_known(struct tarn__pool *pool, const struct tarn__scope *scope)
{
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_NONE_;

    tarn__pool_lock(pool);
    tarn__captures_collect(pool);
    bool known = tarn__captures_any(pool);
    tarn__pool_unlock(pool);
    return known || scope->calls->stream_is_capturing(NULL, &status) != CUDA_SUCCESS_ ||
           status != CU_STREAM_CAPTURE_STATUS_NONE_ ||
           !tarn__opened_hold_captures(pool->device);
}

void tarn__streamless_fence(struct tarn__pool *pool)
{
    struct tarn__scope scope;

    tarn__wait_ahead();
    if (!pool->calls->ctx_record_event ||
        tarn__scope_enter(pool->device, &scope) != TARN_OK)
        return;
    if (scope.life == pool->life && !captures_are_known(pool, &scope)) {
        tarn__pool_lock(pool);
        struct tarn__lane *lane = tarn__heap_known_lane(&pool->heap, TARN__KEY_NOBODY);
        tarn__pool_unlock(pool);
        tarn__fence_nobodys(pool, &scope, lane);
        tarn__opened_let_captures_go();
    }
    tarn__scope_leave(&scope);
}

/* Pin the oldest event of the no-stream lane; NULL: there is none. `lock` held. */
static CUevent_ pin_oldest(struct tarn__lane *lane, uint64_t *epoch)
{
    if (lane->fence_count == 0)
        return NULL;
    lane->fences[0].pins++;
    *epoch = lane->fences[0].epoch;
    return lane->fences[0].event;
}

static void unpin(struct tarn__lane *lane, CUevent_ event)
{
    for (size_t i = 0; i < lane->fence_count; i++)
        if (lane->fences[i].event == event)
            lane->fences[i].pins--;
}

/* Wait for the oldest event, which no other thread waits for. Returns false if there is
 * none, or the driver fails. */
static bool wait_for_event(struct tarn__pool *pool)
{
    struct tarn__scope scope;
    uint64_t epoch = 0;

    tarn__pool_lock(pool);
    struct tarn__lane *lane = tarn__heap_known_lane(&pool->heap, TARN__KEY_NOBODY);
    CUevent_ event = pool->calls->event_synchronize ? pin_oldest(lane, &epoch) : NULL;
    tarn__pool_unlock(pool);
    if (!event)
        return false;
    bool done = tarn__scope_enter_relaxed(pool->device, &scope) == TARN_OK;
    if (done) {
        done = scope.calls->event_synchronize(event) == CUDA_SUCCESS_;
        tarn__scope_leave(&scope);
    }
    tarn__pool_lock(pool);
    unpin(lane, event);
    if (done)
        tarn__lane_fence_done(&pool->heap, lane, epoch);
    while (tarn__heap_sweep(&pool->heap, SIZE_MAX))
        continue;
    tarn__pool_unlock(pool);
    return done;
}

/* --- by a device-wide wait --- */

bool tarn__streamless_settle(struct tarn__pool *pool, const struct tarn__request *request)
{
    enum enough enough = is_enough(pool, request);

    if (enough == TOO_LITTLE)
        return false;
    if (request && enough == ENOUGH_OF_NOBODYS && wait_for_event(pool))
        return true;
    pthread_mutex_lock(&pool->barrier);
    /* Another thread may have waited meanwhile, for all. */
    bool settled = is_enough(pool, request) == TOO_LITTLE ||
                   tarn__fences_barrier_locked(pool) == TARN_OK;
    pthread_mutex_unlock(&pool->barrier);
    return settled;
}
