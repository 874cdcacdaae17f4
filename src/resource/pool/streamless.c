/* streamless.c -- memory that was freed by somebody who names no stream, or left by a
 * stream that has ended.
 *
 * It may still be in use by work on any stream, those included that no longer exist, so
 * no event on one stream covers it. It is the lane's of nobody, in whose order no caller
 * is: free, and not to be had. One barrier covers all that lies there, so it is taken
 * once for many frees: when so much is held back that a search would rather wait than
 * grow, and before memory is said to be out.
 *
 * The same barrier covers what ended streams and captures left (TARN__KEY_LEFT). Their
 * users named streams, so the pool waits for it only where `last_step` allows a wait.
 *
 * Who asks for memory without a stream gets what is ready, which no work is pending
 * behind; so both halves of the promise (serves_no_stream in tarn/resource.h) are here
 * and in tarn__heap_take().
 */
#include "resource/pool/pool.h"
#include "base/wait.h"

/* Held back at most, before a search waits instead of growing: this part of the pool; or
 * so many blocks of the size that is asked for, and FEW at least, as far as that is a small part
 * of what the pool may have at all; and LEAST in any case. A loop that allocates and frees
 * one size so takes a barrier once in MANY frees, or more. */
enum { POOL_PART = 8, CAPACITY_PART = 32, MANY = 16 };
#define LEAST ((uint64_t)16 << 20)
#define FEW ((uint64_t)64 << 20)

/* Held back at most of what ended streams and captures left: so much, or this part of
 * the most that was live at once. */
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

/* For blocks of this size. `lock` held. */
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

/* For a search of `request`, or any at all for one of NULL. */
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

/* Is there a capture that the event would end? Those on non-blocking streams that nobody announced
 * are not seen, unless they have memory of this pool. In a scope. False: announced ones are held,
 * too. */
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

/* The oldest event of the lane of nobody, pinned; NULL: there is none. `lock` held. */
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

/* Wait for the oldest event, in which nobody else waits. False: there is none, or the driver
 * refuses. */
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

/* --- by a wait for the device --- */

bool tarn__streamless_settle(struct tarn__pool *pool, const struct tarn__request *request)
{
    enum enough enough = is_enough(pool, request);

    if (enough == TOO_LITTLE)
        return false;
    if (request && enough == ENOUGH_OF_NOBODYS && wait_for_event(pool))
        return true;
    pthread_mutex_lock(&pool->barrier);
    /* Another thread may have waited for it meanwhile, for all. */
    bool settled = is_enough(pool, request) == TOO_LITTLE ||
                   tarn__fences_barrier_locked(pool) == TARN_OK;
    pthread_mutex_unlock(&pool->barrier);
    return settled;
}
