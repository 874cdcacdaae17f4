/* pool.h -- a pool from the inside: its state, its locks and their order, its lifecycle.
 *
 *     allocate ──► cache/ (thread cache) ────hit────► block
 *                      │ miss                  ▲ frees
 *                      ▼                       │
 *                  search.c: same-stream and completed frees ─► order/steal.c: another
 *                      │ nothing fits      └► compact/: more memory,    stream's, after
 *                      ▼                      free memory moved         a wait
 *        follow/: planned addresses, asked first
 *                  blocks/ (one lock) ◄── order/fence.c: epochs get events, events complete
 *                      ▼
 *                  backing/: VMM, or segments of an upstream
 *
 * Locks, in the order they may be taken: a registered stream, `growth`, `device_wait`,
 * `lock`. A thread enters its own thread caches without a lock. Another thread keeps it
 * out while it holds `lock` (cache/thread_cache.h). No driver call is made under `lock`
 * or in a thread cache, so a cache hit waits for none.
 *
 * Cache hits read the fields up to `growth`, which rarely change. The locks and what they
 * guard lie on other cache lines, so a miss of one thread does not slow the hits of
 * others.
 */
#ifndef TARN_POOL_POOL_H
#define TARN_POOL_POOL_H

#include "base/backoff.h"
#include "base/thread_safety.h"
#include "driver/registration.h"
#include "pool/backing/pages.h"
#include "pool/blocks/check.h"
#include "pool/blocks/heap.h"
#include "pool/counts.h"
#include "pool/lock.h"
#include "pool/mutations.h"

/* The kinds of locks; blocks/stream_state.h has that of `lock`. */
TARN__LOCK_KIND(growth);
TARN__LOCK_KIND(device_wait);

/* Reasons why cache hits are off: bits of the lifecycle state (`lifecycle`). */
enum {
    TARN__POOL_SUSPENDED = 1,
    TARN__POOL_ENDED = 2 /* the context was destroyed, or the device is lost */
};

/* Out-of-memory callbacks (oom_callback.c), under the lock of hooks (base/hook.h). */
struct tarn__oom_callbacks {
    struct tarn__oom_callback *first;
    uint64_t last_number;
};

/* A mutex that knows its owner. */
struct tarn__owned_mutex {
    pthread_mutex_t mutex;
    _Atomic(pthread_t) owner; /* 0: none */
    atomic_uint waiting;      /* number of threads that are taking it */
};

/* What the pool did, since it was created. */
struct tarn__pool_counters {
    /* allocations that the heap served: same-stream frees, completed frees, other
     * streams' memory, new memory */
    uint64_t same_stream, completed, steals, grown;
    /* Driver calls: of a stream for an event; of an event on a stream or after a context;
     * queries of events and streams. tarn__pages_driver_calls() has the number of all
     * others. */
    uint64_t waits, fences, queries;
    /* operations, each of several driver calls */
    uint64_t growths, shrinks, moves, device_waits;
    uint64_t failures;
};

struct tarn__pool {
    tarn_resource *resource; /* the resource of this pool; set once, not retained */
    int device;
    uint64_t serial;             /* unique in the process */
    uint64_t context_generation; /* generation of the context that the pool lives in */
    CUcontext_ context;          /* the device's primary one */
    const struct tarn__calls *calls;
    tarn_pool_options options;
    size_t least_bytes;    /* of a block: in a slab the whole block; in a pool 0 */
    size_t most_bytes;     /* of a request */
    uint64_t device_bytes; /* all memory of the device; UINT64_MAX: not known */
    struct tarn__pages *pages;
    struct tarn__follow *follow; /* the plan that it follows (follow/); NULL: none */
    _Atomic unsigned lifecycle;
    atomic_bool over_limit; /* the limit was lowered, and the pool still exceeds it */

    /* one change of the pages at a time; no cache hit needs it */
    _Alignas(TARN__CACHE_LINE) struct tarn__owned_mutex growth;
    /* One device-wide wait at a time: the first does not cover epochs that a second one
     * closes. Taken after `growth`, before `lock`. */
    pthread_mutex_t device_wait;

    struct tarn__oom_callbacks oom_callbacks;

    /* guards all fields from here on; alone on its cache line, which waiting threads
     * read */
    _Alignas(TARN__CACHE_LINE) struct tarn__lock lock;
    _Alignas(TARN__CACHE_LINE) struct tarn__heap heap TARN__GUARDED_BY(pool_lock);
    uint64_t limit TARN__GUARDED_BY(pool_lock); /* UINT64_MAX: none */
    /* lists of thread caches */
    struct tarn__thread_cache *caches TARN__GUARDED_BY(pool_lock);
    /* number of thread caches that were deleted */
    uint64_t caches_ended TARN__GUARDED_BY(pool_lock);
    /* their hits that the plan does not know (follow/repeat.h) */
    uint64_t repeats_ended TARN__GUARDED_BY(pool_lock);
    struct tarn__thread_cache *caches_with_last_freed TARN__GUARDED_BY(pool_lock);
    struct tarn__thread_cache *caches_with_grant TARN__GUARDED_BY(pool_lock);
    /* the next one in that list from which grants.c reclaims */
    struct tarn__thread_cache *next_to_lower TARN__GUARDED_BY(pool_lock);
    /* sum of the bytes granted to the thread caches; number of caches with a grant */
    uint64_t granted_bytes TARN__GUARDED_BY(pool_lock);
    uint64_t caches_granted TARN__GUARDED_BY(pool_lock);
    /* back-off of queries about event fences */
    struct tarn__backoff miss_backoff TARN__GUARDED_BY(pool_lock);
    /* A search found nothing immediately available while another stream had free memory.
     * It stays set: from then on the streams fence their frees for each other. */
    bool is_shared TARN__GUARDED_BY(pool_lock);
    /* tarn__state_next_use(), of a pool that follows plans; else NULL */
    uint64_t (*next_use)(const struct tarn__pool *pool, struct tarn__span handles);
    /* operations that no thread cache counted */
    struct tarn__counts counts TARN__GUARDED_BY(pool_lock);
    /* Number of the poll round. A round queries the oldest event fence of each stream
     * state once, over several calls (tarn__fences_poll()). */
    uint64_t poll_round TARN__GUARDED_BY(pool_lock);
    /* The budget of moves (budget.c): their time in ns that nothing has paid for yet, the
     * time up to which the program has paid, the number of operations that have paid, and
     * the bytes obtained instead of moves. */
    uint64_t moves_ns TARN__GUARDED_BY(pool_lock);
    uint64_t moves_paid_ns TARN__GUARDED_BY(pool_lock);
    uint64_t moves_operations TARN__GUARDED_BY(pool_lock);
    uint64_t grown_instead TARN__GUARDED_BY(pool_lock);
    /* With learn (learn.c), until learning ends: the budget does not count. What lives long
     * is mostly allocated before the first mark. */
    bool moves_freely TARN__GUARDED_BY(pool_lock);
    /* operations that thread caches counted, up to the last drain of each */
    uint64_t drained_operations TARN__GUARDED_BY(pool_lock);
    struct tarn__pool_counters counters TARN__GUARDED_BY(pool_lock);
    uint64_t peak_allocated TARN__GUARDED_BY(pool_lock);
    uint64_t peak_reserved TARN__GUARDED_BY(pool_lock);
    /* the same since tarn_pool_reset_peaks(); no decision of the pool depends on these */
    uint64_t recent_peak_allocated TARN__GUARDED_BY(pool_lock);
    uint64_t recent_peak_reserved TARN__GUARDED_BY(pool_lock);
    uint64_t generation TARN__GUARDED_BY(pool_lock);
    /* retired.c; these three under `growth` */
    struct tarn__retired *retired TARN__GUARDED_BY(growth);
    size_t retired_count TARN__GUARDED_BY(growth);
    size_t retired_capacity TARN__GUARDED_BY(growth);
    /* the background thread, under `growth`; NULL: the pool has none (background.c) */
    struct tarn__background *background TARN__GUARDED_BY(growth);
    /* NULL until the first; capture.c */
    struct tarn__captures *captures TARN__GUARDED_BY(pool_lock);
    struct tarn__pool *next; /* in the list of pools; under its lock */
};

/* The operations of a pool as a resource, but for the one that destroys it. */
extern const tarn_resource_ops tarn__pool_ops;

/* --- locks --- */

static inline void tarn__pool_lock(struct tarn__pool *pool)
    TARN__ACQUIRE(pool_lock) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    tarn__lock_take(&pool->lock);
}

/* Try to take the lock, for queries. Returns false if the lock will never be released. In
 * a forked child a thread may hold it that does not exist there. At exit a thread may
 * hold it that never runs again. */
bool tarn__pool_lock_if_possible(struct tarn__pool *pool)
    TARN__TRY_ACQUIRE(true, pool_lock);

static inline void tarn__pool_unlock(struct tarn__pool *pool)
    TARN__RELEASE(pool_lock) TARN__NO_THREAD_SAFETY_ANALYSIS
{
#ifdef TARN_DEBUG
    tarn__check_or_abort(&pool->heap, pool->device);
#endif
    tarn__lock_leave(&pool->lock);
}

/* Take and release `growth`. TARN_REENTRANT_CALL: this thread has it, so its upstream,
 * which is called under it, has called the pool. */
tarn_status tarn__pool_take_growth(struct tarn__pool *pool);
/* Take it if no other thread has it or waits for it. */
bool tarn__pool_try_growth(struct tarn__pool *pool) TARN__TRY_ACQUIRE(true, growth);
void tarn__pool_leave_growth(struct tarn__pool *pool) TARN__RELEASE(growth);
/* Assert that this thread has `growth`. A caller of tarn__pool_take_growth() does this
 * after it has checked the status, which Clang cannot follow. */
static inline void tarn__pool_assert_growth(const struct tarn__pool *pool)
    TARN__ASSERTS(growth)
{
    tarn__assert_held(&pool->growth);
}

/* Take and release `device_wait`. */
static inline void tarn__pool_take_device_wait(struct tarn__pool *pool)
    TARN__ACQUIRE(device_wait) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    pthread_mutex_lock(&pool->device_wait);
}

/* Take it if no other thread has it. */
static inline bool tarn__pool_try_device_wait(struct tarn__pool *pool)
    TARN__TRY_ACQUIRE(true, device_wait) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    return pthread_mutex_trylock(&pool->device_wait) == 0;
}

static inline void tarn__pool_leave_device_wait(struct tarn__pool *pool)
    TARN__RELEASE(device_wait) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    pthread_mutex_unlock(&pool->device_wait);
}

/* Release the lock for a moment in which other threads can take it. At exit it is kept:
 * another thread might never release it. */
static inline void tarn__pool_relock(struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    if (tarn__driver_gone())
        return;
    tarn__pool_unlock(pool);
    TARN_WINDOW(atomic_load(&pool->growth.owner) == pthread_self());
    tarn__pool_lock(pool);
}

/* --- lifecycle --- */

/* Return the lifecycle state. If it is not 0, cache hits are off. */
static inline unsigned tarn__pool_lifecycle(const struct tarn__pool *pool)
{
    return atomic_load_explicit(&((struct tarn__pool *)pool)->lifecycle,
                                memory_order_acquire);
}

/* Return true if the pool, its context or the process has ended. No driver call is
 * started then. */
static inline bool tarn__pool_has_ended(const struct tarn__pool *pool)
{
    return tarn__driver_gone() || (tarn__pool_lifecycle(pool) & TARN__POOL_ENDED);
}

/* End the pool if its context was reset since. Returns true if it has ended. The streams
 * and events of a reset context are gone, and must not be passed to the driver: it may
 * crash. */
bool tarn__pool_end_after_reset(struct tarn__pool *pool);
/* End the pool, and fail with a message. */
tarn_status tarn__pool_fail_ended(struct tarn__pool *pool);

/* --- queries --- */

/* Set `*out` to the pool of a resource. Fails for a resource that is no pool. */
tarn_status tarn__pool_of(tarn_resource *resource, const char *component,
                          struct tarn__pool **out);

/* Return the most that the pool may have: its limit, or the device's memory. `lock`
 * held. */
static inline uint64_t tarn__pool_maximum(const struct tarn__pool *pool)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    return pool->limit < pool->device_bytes ? pool->limit : pool->device_bytes;
}

/* Return true if the pool is to reserve little more than the live bytes. */
static inline bool tarn__pool_is_tight(const struct tarn__pool *pool)
{
    return pool->options.policy == TARN_POOL_POLICY_TIGHT;
}

/* Return true if no memory may leave its addresses, but in a call that asks for it. */
static inline bool tarn__pool_never_moves(const struct tarn__pool *pool)
{
    return pool->options.moves == TARN_POOL_MOVES_NEVER && !TARN_MUTATION(moves_anyway);
}

/* Return the bytes that bounds of unfenced and thread-cached memory are parts of: the
 * reserved bytes, but no more than twice the peak of live bytes. Otherwise memory that
 * ended streams left would raise the bounds, and more would be left. `lock` held. */
static inline uint64_t tarn__pool_scale(const struct tarn__pool *pool)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    uint64_t reserved = tarn__pages_reserved(pool->pages);

    return reserved < 2 * pool->peak_allocated ? reserved : 2 * pool->peak_allocated;
}

/* Return true if the pool releases free memory above a threshold or a lowered limit. */
static inline bool tarn__pool_releases_memory(const struct tarn__pool *pool)
{
    return pool->options.release_threshold_bytes > 0 ||
           atomic_load(&((struct tarn__pool *)pool)->over_limit);
}

#endif
