/* no_stream.c -- no-stream frees: memory freed without a stream, or left by a stream that
 * has ended.
 *
 * Work on any stream may still use such memory, streams included that no longer exist. No
 * event on one stream covers it. It is in the no-stream state (TARN__KEY_NO_STREAM),
 * which orders no caller: free, but deferred. One device-wide wait covers everything
 * there, so the pool waits once for many frees. It waits when so much is deferred that a
 * search should wait rather than grow, and before an allocation fails.
 *
 * The same wait covers orphaned memory: frees that no call can fence any more. The pool
 * knows two kinds. The state TARN__KEY_ORPHANED has the unfenced frees of streams and
 * captures that have ended. A silent stream is a raw stream with unfenced frees that has
 * freed nothing for a while. Its handle is valid in its own calls alone, and the driver
 * does not report its end. Their users named streams, so the pool waits for
 * orphaned memory only where `oom_policy` allows a wait. Of several threads one waits. The
 * others grow.
 *
 * An allocation without a stream gets completed memory, which no pending work uses.
 * Both halves of the guarantee (supports_no_stream in tarn/resource.h) are thus kept here
 * and in tarn__take_block().
 */
#include "pool/order/no_stream.h"
#include "nvtx/ranges.h"
#include "pool/blocks/take.h"
#include "pool/order/capture.h"
#include "pool/order/epoch.h"
#include "pool/order/fence.h"
#include "pool/order/identity.h"
#include "pool/pool.h"
#include "base/blocking_hook.h"
#include "base/size.h"
#include "driver/stream.h"

/* The most deferred memory before a search waits instead of growing. It is the largest of
 * four: this part of the pool; so many blocks of the requested size, as far as that is
 * MANY_PART of what the pool may have; FEW, as far as that is FEW_PART of it; and LEAST. A
 * loop that allocates and frees one small size therefore waits for the device at most
 * once in MANY frees. Work that fills MANY_PART of a device takes longer than the device
 * is idle after a wait, so large blocks need no larger bound. */
enum { POOL_PART = 8, MANY = 16, MANY_PART = 512, FEW_PART = 32 };
#define LEAST ((uint64_t)16 << 20)
#define FEW ((uint64_t)64 << 20)

/* The most orphaned memory: so much, or this part of the peak of live bytes. */
enum { ORPHANED_PART = 2 };
#define ORPHANED_LEAST ((uint64_t)64 << 20)

/* A raw stream is silent that freed nothing during so many frees of the pool, not counting
 * those into thread caches. */
enum { SILENT_FREES = 128 };

static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* Return the bound for blocks of this size. `lock` held. */
static uint64_t bound(const struct tarn__pool *pool, uint32_t quanta)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    uint64_t requested = (uint64_t)quanta << TARN__QUANTUM_SHIFT;
    uint64_t maximum = tarn__pool_maximum(pool);
    uint64_t many = tarn__size_least(MANY * requested, maximum / MANY_PART);
    uint64_t few = tarn__size_least(FEW, maximum / FEW_PART);
    uint64_t part = tarn__pages_reserved(pool->pages) / POOL_PART;

    if (pool->options.no_stream_limit_bytes > 0)
        return pool->options.no_stream_limit_bytes;
    return larger(larger(LEAST, part), larger(many, few));
}

uint64_t tarn__no_stream_bytes(const struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    const struct tarn__stream_state *stream_state =
        tarn__identity_find(&pool->heap, TARN__KEY_NO_STREAM);

    return stream_state ? stream_state->free.bytes : 0;
}

/* --- orphaned memory --- */

/* Return true if no call on another stream can fence the frees of this one. The legacy
 * stream is one of these streams, although its handle is constant: an event on it
 * invalidates each capture of a blocking stream, and another thread may begin one at any
 * time. A device-wide wait invalidates none. */
static bool is_raw(const struct tarn__stream_state *stream_state)
{
    return stream_state->in_order && !stream_state->is_capture &&
           !stream_state->identity.registration;
}

static bool is_silent(const struct tarn__pool *pool,
                      const struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    return is_raw(stream_state) &&
           pool->counts.frees - stream_state->last_free >= SILENT_FREES;
}

uint64_t tarn__no_stream_orphaned_of(const struct tarn__pool *pool,
                                     const struct tarn__stream_state *stream_state)
{
    tarn__assert_held(&pool->lock);

    if (stream_state->identity.key == TARN__KEY_ORPHANED)
        return stream_state->free.bytes;
    return is_silent(pool, stream_state) ? tarn__stream_state_unfenced(stream_state) : 0;
}

static uint64_t orphaned_bytes(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    uint64_t bytes = 0;

    for (tarn__index i = pool->heap.with_memory.first; i;
         i = tarn__heap_state(&pool->heap, i)->with_memory.next)
        bytes += tarn__no_stream_orphaned_of(pool, tarn__heap_state(&pool->heap, i));
    return bytes;
}

/* Return true if so much memory is orphaned that a search for `request` should wait
 * instead of growing (NULL: if any is). `lock` held. */
static bool is_too_much_orphaned(struct tarn__pool *pool,
                                 const struct tarn__request *request)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    uint64_t most = larger(ORPHANED_LEAST, pool->peak_allocated / ORPHANED_PART);

    if (pool->options.oom_policy != TARN_POOL_OOM_SYNCHRONIZE ||
        pool->heap.unfenced_bytes < (request ? most : 1))
        return false;
    return orphaned_bytes(pool) >= (request ? most : 1);
}

/* Enough for a search of `request`; with NULL, any at all is enough. */
enum enough { TOO_LITTLE, ENOUGH_NO_STREAM, ENOUGH_ORPHANED };

static enum enough is_enough(struct tarn__pool *pool, const struct tarn__request *request)
{
    tarn__pool_lock(pool);
    uint64_t no_stream = tarn__no_stream_bytes(pool);
    bool is_orphaned_enough = is_too_much_orphaned(pool, request);
    bool is_no_stream_enough =
        no_stream > 0 && (!request || no_stream >= bound(pool, request->quanta));
    tarn__pool_unlock(pool);
    if (is_orphaned_enough)
        return ENOUGH_ORPHANED;
    return is_no_stream_enough ? ENOUGH_NO_STREAM : TOO_LITTLE;
}

/* --- by an event --- */

bool tarn__no_stream_fence_is_due(const struct tarn__pool *pool, uint32_t quanta)
{
    tarn__assert_held(&pool->lock);

    const struct tarn__stream_state *stream_state =
        tarn__identity_find(&pool->heap, TARN__KEY_NO_STREAM);

    return pool->options.no_stream_policy == TARN_POOL_NO_STREAM_EVENT &&
           !stream_state->recording &&
           tarn__stream_state_unfenced(stream_state) >= bound(pool, quanta) / 2;
}

/* Have no capture announced until tarn__registration_unblock_announcements(). Returns
 * false if the event would invalidate a known capture; then nothing is blocked. The pool
 * does not see captures on non-blocking streams that were not announced, unless they have
 * memory of this pool. In a scope. */
static bool block_captures(struct tarn__pool *pool, const struct tarn__scope *scope)
{
    tarn__pool_lock(pool);
    tarn__captures_collect(pool);
    bool known = tarn__captures_any(pool);
    tarn__pool_unlock(pool);
    return !known && !tarn__stream_may_capture(scope->calls, NULL) &&
           tarn__registration_block_announcements(pool->device);
}

void tarn__no_stream_fence(struct tarn__pool *pool)
{
    struct tarn__scope scope;

    tarn__blocking_hook_call();
    if (!pool->calls->ctx_record_event ||
        tarn__scope_enter(pool->device, &scope) != TARN_OK)
        return;
    if (scope.context_generation == pool->context_generation &&
        block_captures(pool, &scope)) {
        tarn__pool_lock(pool);
        struct tarn__stream_state *stream_state =
            tarn__identity_find(&pool->heap, TARN__KEY_NO_STREAM);
        tarn__pool_unlock(pool);
        tarn__fence_no_stream(pool, &scope, stream_state);
        tarn__registration_unblock_announcements();
    }
    tarn__scope_leave(&scope);
}

/* Pin the oldest event of the no-stream state; NULL: there is none. `lock` held. */
static CUevent_ pin_oldest(const struct tarn__pool *pool,
                           struct tarn__stream_state *stream_state, uint64_t *epoch)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    if (stream_state->fence_count == 0)
        return NULL;
    stream_state->fences[0].pins++;
    *epoch = stream_state->fences[0].epoch;
    return stream_state->fences[0].event;
}

static void unpin(struct tarn__stream_state *stream_state, CUevent_ event)
    TARN__REQUIRES(pool_lock)
{
    for (size_t i = 0; i < stream_state->fence_count; i++)
        if (stream_state->fences[i].event == event)
            stream_state->fences[i].pins--;
}

/* Wait for the oldest event, which no other thread waits for. Returns false if there is
 * none, or the driver fails. */
static bool wait_for_event(struct tarn__pool *pool)
{
    struct tarn__scope scope;
    uint64_t epoch = 0;

    tarn__pool_lock(pool);
    struct tarn__stream_state *stream_state =
        tarn__identity_find(&pool->heap, TARN__KEY_NO_STREAM);
    CUevent_ event =
        pool->calls->event_synchronize ? pin_oldest(pool, stream_state, &epoch) : NULL;
    tarn__pool_unlock(pool);
    if (!event)
        return false;
    bool done = tarn__scope_enter_relaxed(pool->device, &scope) == TARN_OK;
    if (done) {
        tarn__pages_note_call(pool->pages);
        bool has_range = tarn__ranges_begin("wait for an event", 0);
        done = scope.calls->event_synchronize(event) == CUDA_SUCCESS_;
        tarn__ranges_end(has_range);
        tarn__scope_leave(&scope);
    }
    tarn__pool_lock(pool);
    unpin(stream_state, event);
    if (done)
        tarn__epoch_fence_completed(&pool->heap, stream_state, epoch);
    tarn__fences_poll_sweep(pool);
    tarn__pool_unlock(pool);
    return done;
}

/* --- by a device-wide wait --- */

bool tarn__no_stream_complete(struct tarn__pool *pool,
                              const struct tarn__request *request)
{
    enum enough enough = is_enough(pool, request);

    if (enough == TOO_LITTLE)
        return false;
    if (request && enough == ENOUGH_NO_STREAM && wait_for_event(pool))
        return true;
    if (request && enough == ENOUGH_ORPHANED) {
        if (!tarn__pool_try_device_wait(pool))
            return false;
    } else {
        tarn__pool_take_device_wait(pool);
    }
    /* Another thread may have waited meanwhile, for all. */
    bool settled = is_enough(pool, request) == TOO_LITTLE ||
                   tarn__fences_wait_for_device_locked(pool) == TARN_OK;
    tarn__pool_leave_device_wait(pool);
    return settled;
}
