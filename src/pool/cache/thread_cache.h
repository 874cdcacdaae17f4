/* thread_cache.h -- the thread cache, with blocks that one thread freed on one
 * stream and can reuse at once.
 *
 * A cache hit takes no lock. An allocation from a stack or a slot makes no atomic
 * exchange, where the kernel has membarrier(2) (process_barrier.h). Only its own thread
 * enters the cache. Another thread that drains the cache holds the pool's lock and
 * keeps the cache's own thread out meanwhile. On a raw stream a hit queries
 * the driver for a capture. At an allocation it also queries whether it is still the same
 * stream. On a registered stream a hit makes no driver call.
 *
 * Small blocks have a stack for each size up to 64 KiB. Larger blocks, up to 16 MiB,
 * share 16 slots: a hash of the size selects the slot, and a hit needs the exact size. The
 * pool grants each cache the bytes that it may hold (grants.h).
 *
 * The last-freed slot has the one block, of any size, that was freed last and
 * exceeded the capacity. A loop that frees and takes it again touches neither the heap
 * nor its lock. This block does not count against the granted bytes. The thread's next search
 * of the heap returns it first. A search that finds nothing immediately available returns
 * those of all thread caches.
 *
 * A thread that frees blocks on a stream rarely bypasses that cache: a hit would save it
 * little time. In the heap its blocks coalesce, and best fit places the next ones, so that
 * the pool reserves less. Where several streams share the memory, a cache also saves event
 * fences, and is used.
 */
#ifndef TARN_POOL_THREAD_CACHE_H
#define TARN_POOL_THREAD_CACHE_H

#include "base/process_barrier.h"
#include "pool/pool.h"
#include <tarn/pool.h>

enum {
    TARN__SMALL_CLASSES = 128, /* 512 bytes to 64 KiB */
    TARN__LARGE_SLOTS = 16
};

TARN__LOCK_KIND(cache_lock); /* the right to change the contents of a thread cache */

/* The lists of caches that a cache is in, all under the pool's lock. */
enum tarn__cache_list {
    TARN__CACHES_OF_POOL,
    TARN__CACHES_OF_STREAM,
    TARN__CACHES_WITH_LAST_FREED, /* those that may have a last-freed block */
    TARN__CACHES_WITH_GRANT,
    TARN__CACHE_LISTS
};

struct tarn__thread_cache {
    /* its own thread is inside; another thread, under the pool's lock, keeps it out */
    _Alignas(TARN__CACHE_LINE) atomic_bool is_entered;
    atomic_bool is_excluded;
    /* the stream was unregistered, or has ended: no more cache hits */
    atomic_bool closed;
    bool is_raw; /* the stream is checked at every cache hit */
    /* the per-thread stream (2), which is another one in each context */
    bool is_per_thread;
    /* The thread's own: it put a last-freed block in, and has not taken it since. */
    bool keeps_last_freed;
    struct tarn__stream_state *stream_state; /* in the pool; the cache is a user of it */
    struct tarn__registration *registration;
    uint64_t key; /* the stream's id */
    CUstream_ handle;

    _Atomic uint64_t bytes, granted; /* held; granted */
    /* Quanta << 32 | index; 0: none. Only the thread writes a block here. Any thread may
     * take it; during a repeat it first excludes the owner. */
    _Atomic uint64_t last_freed;
    /* The thread's own: */
    uint32_t last_freed_quanta; /* a free of this size may fill the slot again; 0: none */
    uint32_t last_freed_refills; /* so often; it counts down, and only a plan sets it */
    unsigned last_freed_skips;   /* number of coming frees that do not fill it */
    bool is_bypassed;            /* it keeps no more blocks */
    /* Number of slow frees since the time `from_ns`, and of those after which the thread decides
     * again. Number of frees that the cache had kept until then. */
    struct {
        unsigned frees, enough;
        uint64_t kept, from_ns;
    } bypass;
    struct tarn__counts counts; /* `hits` unused: each allocation is one */

    tarn__index small[TARN__SMALL_CLASSES] TARN__GUARDED_BY(cache_lock);
    _Atomic tarn__index large[TARN__LARGE_SLOTS];
    uint32_t large_quanta[TARN__LARGE_SLOTS]; /* the size, for the thread's own use */

    tarn_stream stream; /* as passed */
    /* Under the pool's lock (grants.c): */
    uint64_t noted_uses; /* number of uses when the pool last looked and found new ones */
    uint64_t noted_at;   /* the pool's number of frees into no cache at that time */
    uint64_t drained_uses; /* number of uses at the last drain (budget.c) */
    struct tarn__backoff grant_backoff;
    /* its sequence in a plan, for this version of the plan (follow/follow.c) */
    struct tarn__sequence *sequence;
    uint64_t sequence_version;
    /* The last-freed block while a plan has its addresses next (follow/repeat.h): its node,
     * 0: there is none; place in the sequence; size; hits of this repeat, and of the cache
     * in all, that the plan knows. The owner also reads `index` inside the cache. */
    struct {
        tarn__index index;
        uint32_t place, quanta, hits;
        uint64_t counted;
    } repeat;
    struct {
        struct tarn__thread_cache *next, **from; /* from: NULL if it is not in the list */
    } in[TARN__CACHE_LISTS];
};

enum tarn__use { TARN__TO_ALLOCATE, TARN__TO_FREE };
enum tarn__put { TARN__PUT_DONE, TARN__PUT_FULL, TARN__PUT_NOT_LIVE };

/* Do the driver's part of tarn__thread_cache_check(). */
bool tarn__thread_cache_check_raw(struct tarn__pool *pool,
                                  struct tarn__thread_cache *cache, enum tarn__use use);

struct tarn__caller;

/* Make a thread cache for the calling thread and the caller's stream; NULL: no host
 * memory. */
struct tarn__thread_cache *tarn__thread_cache_new(const struct tarn__caller *caller);
/* Return true if the cache, which has the caller's stream value, is for the stream that
 * the value names now. */
bool tarn__thread_cache_is_for(const struct tarn__thread_cache *cache,
                               const struct tarn__caller *caller);
/* Add a new cache to the pool. `lock` held. */
void tarn__thread_cache_add(struct tarn__pool *pool, struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock);
/* Delete a cache: its blocks return to the heap, and its counts are kept. `lock` held. */
void tarn__thread_cache_delete(struct tarn__pool *pool, struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock);

/* Keep a block that is in transit, if there is capacity for it. Returns false if it
 * belongs into the heap. The cache's own thread calls this. `lock` held. */
bool tarn__thread_cache_keep(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                             tarn__index index) TARN__REQUIRES(pool_lock);
/* Do the part of tarn__thread_cache_note_slow_free() that not every free needs. */
void tarn__thread_cache_decide_bypass(struct tarn__pool *pool,
                                      struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock);
/* Set the bytes that the cache may hold, at least those that it holds. `lock` held. */
void tarn__thread_cache_grant(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                              uint64_t bytes) TARN__REQUIRES(pool_lock);
/* Is a cache drained in a call on its stream? Outside of such a call nothing can fence
 * the frees of a raw stream, which may even have ended. */
enum tarn__during { TARN__DURING_ITS_CALL, TARN__DURING_OTHERS };

/* Keep the cache's own thread out, and let it in again. The call waits until that thread
 * has left the cache. `lock` held throughout. */
void tarn__thread_cache_exclude_owner(struct tarn__pool *pool,
                                      struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock) TARN__ACQUIRE(cache_lock);
void tarn__thread_cache_admit_owner(struct tarn__pool *pool,
                                    struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock) TARN__RELEASE(cache_lock);
/* Return blocks to the heap, the largest first, until the cache holds no more than `keep`
 * bytes: at most `most` small blocks. The cache's owner is excluded. `lock` held. */
void tarn__thread_cache_shrink(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                               uint64_t keep, unsigned most, enum tarn__during during)
    TARN__REQUIRES(pool_lock) TARN__REQUIRES(cache_lock);

/* Do the parts of tarn__thread_cache_keep_last_freed() and of
 * tarn__thread_cache_before_search() that not every operation needs. The cache's own
 * thread calls them, under the pool's lock. */
bool tarn__thread_cache_keep_last_freed_now(struct tarn__pool *pool,
                                            struct tarn__thread_cache *cache,
                                            tarn__index index) TARN__REQUIRES(pool_lock);
void tarn__thread_cache_drop_last_freed(struct tarn__pool *pool,
                                        struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock);
/* Return the last-freed blocks of all thread caches to the heap. Returns false if there
 * is none. `lock` held, and released in between if they are many. */
bool tarn__thread_caches_return_last_freed(struct tarn__pool *pool)
    TARN__REQUIRES(pool_lock);
/* Return those of a few caches. Returns false if there is none. `lock` held. */
bool tarn__thread_caches_return_few_last_freed(struct tarn__pool *pool)
    TARN__REQUIRES(pool_lock);
/* Return the last-freed block to the heap, and have the cache's thread put none in until it
 * searches the heap again. The cache's owner is excluded. `lock` held. */
void tarn__thread_cache_end_last_freed(struct tarn__pool *pool,
                                       struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock) TARN__REQUIRES(cache_lock);

/* Return all blocks of all thread caches to the heap. Takes and releases `lock`, several
 * times. */
void tarn__thread_caches_drain(struct tarn__pool *pool);
/* Do the same for the thread caches of the caller's stream, of all threads. */
void tarn__thread_caches_drain_stream(struct tarn__pool *pool,
                                      const struct tarn__stream_state *stream_state);
/* Do the same for the thread caches of a registered stream, under all of its values. */
void tarn__thread_caches_drain_registered(struct tarn__pool *pool,
                                          const struct tarn__registration *registration);
/* Do the same for the thread caches of one registered stream, which take no more
 * blocks. */
void tarn__thread_caches_close(struct tarn__pool *pool, tarn_stream stream,
                               const struct tarn__registration *registration);
/* End a stream that the driver has destroyed: its caches take no more blocks, and its
 * unfenced frees and cached blocks become orphaned memory. `lock` held, and released in
 * between. */
void tarn__thread_caches_end_stream(struct tarn__pool *pool,
                                    struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock);
/* Free all thread caches; no thread uses the pool any more. */
void tarn__thread_caches_free(struct tarn__pool *pool);

/* What a pool counted, its thread caches included, and what those hold. */
struct tarn__thread_cache_sums {
    struct tarn__counts counts;
    uint64_t repeats; /* hits that a plan does not know yet */
    uint64_t bytes;
    size_t metadata;
};

/* Sum that up. `lock` held, and released in between. */
void tarn__thread_caches_sum(struct tarn__pool *pool,
                             struct tarn__thread_cache_sums *sums)
    TARN__REQUIRES(pool_lock);

/* --- the path of a cache hit ---
 *
 * The functions are inline, since most of a hit's cost is calls and the registers saved
 * around them. Only the cache's own thread calls them. A thread that drains the cache
 * changes some fields. Their owner reads those inside the cache alone. */

/* Largest block that a thread cache keeps: larger ones are few, and take the slow
 * path. */
#define TARN__LARGE_MAX ((uint32_t)((16u << 20) >> TARN__QUANTUM_SHIFT))

/* Return true if the stream is still the one that the cache was made for, and does not
 * capture. A free need not know which stream it is. A block freed to the wrong stream
 * state is unavailable until a device-wide wait, since that stream state's stream has
 * ended. The pool learns that at the first call that is no cache hit (resolve.c). Raw
 * streams cost one driver call at a free and two at an allocation. */
static inline bool tarn__thread_cache_check(struct tarn__pool *pool,
                                            struct tarn__thread_cache *cache,
                                            enum tarn__use use)
{
    if (atomic_load_explicit(&cache->stream_state->wanted, memory_order_relaxed) ||
        atomic_load_explicit(&cache->closed, memory_order_acquire))
        return false;
    if (cache->registration)
        return !atomic_load_explicit(&cache->registration->captures,
                                     memory_order_relaxed);
    return !cache->is_raw || tarn__thread_cache_check_raw(pool, cache, use);
}

/* --- contents: changed inside the cache, read from outside --- */

#define TARN__CACHE_READ(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define TARN__CACHE_WRITE(field, value) \
    atomic_store_explicit(&(field), (value), memory_order_relaxed)

/* Enter the calling thread's own cache. Returns false while another thread keeps it
 * out. */
static inline bool tarn__thread_cache_enter(struct tarn__thread_cache *cache)
    TARN__TRY_ACQUIRE(true, cache_lock) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    tarn__process_barrier_set_flag(&cache->is_entered);
    if (!atomic_load_explicit(&cache->is_excluded, memory_order_seq_cst))
        return true;
    atomic_store_explicit(&cache->is_entered, false, memory_order_release);
    return false;
}

static inline void tarn__thread_cache_leave(struct tarn__thread_cache *cache)
    TARN__RELEASE(cache_lock) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    atomic_store_explicit(&cache->is_entered, false, memory_order_release);
}

/* Return the hits of a repeat that the plan does not know yet. */
static inline uint64_t tarn__thread_cache_repeats(const struct tarn__thread_cache *cache)
{
    return cache->repeat.index
               ? tarn__counts_read(&cache->counts.allocations) - cache->repeat.counted
               : 0;
}

static inline uint64_t tarn__thread_cache_capacity(const struct tarn__thread_cache *cache)
{
    return TARN__CACHE_READ(cache->granted) - TARN__CACHE_READ(cache->bytes);
}

/* --- taking a block --- */

static inline unsigned tarn__thread_cache_large_slot(uint32_t quanta)
{
    return quanta * 0x9e3779b1u >> 28;
}

/* Take a block of this size out of the cache; the caller has entered the cache. */
static inline tarn__index tarn__thread_cache_pop(struct tarn__pool *pool,
                                                 struct tarn__thread_cache *cache,
                                                 uint32_t quanta)
    TARN__REQUIRES(cache_lock)
{
    tarn__index index;

    if (quanta <= TARN__SMALL_CLASSES) {
        index = cache->small[quanta - 1];
        if (!index)
            return 0;
        cache->small[quanta - 1] = tarn__node(&pool->heap.nodes, index)->next;
        return index;
    }
    unsigned slot = tarn__thread_cache_large_slot(quanta);
    index = TARN__CACHE_READ(cache->large[slot]);
    if (!index || cache->large_quanta[slot] != quanta)
        return 0;
    TARN__CACHE_WRITE(cache->large[slot], 0);
    cache->large_quanta[slot] = 0;
    return index;
}

static inline tarn__index tarn__thread_cache_take_last_freed(
    struct tarn__thread_cache *cache, uint32_t quanta)
{
    uint64_t last_freed = atomic_load_explicit(&cache->last_freed, memory_order_relaxed);

    if (last_freed >> 32 != quanta)
        return 0;
    if (cache->repeat.index)
        TARN__CACHE_WRITE(cache->last_freed, 0);
    else if (!atomic_compare_exchange_strong_explicit(&cache->last_freed, &last_freed, 0,
                                                      memory_order_acq_rel,
                                                      memory_order_relaxed))
        return 0;
    cache->keeps_last_freed = false;
    return (tarn__index)last_freed;
}

/* Take a block of `quanta` for `requested` bytes, which is then the caller's; 0: a
 * miss. */
static inline tarn__index tarn__thread_cache_take(struct tarn__pool *pool,
                                                  struct tarn__thread_cache *cache,
                                                  uint32_t quanta, uint64_t requested)
{
    if (!tarn__thread_cache_enter(cache))
        return 0;
    tarn__index index = tarn__thread_cache_pop(pool, cache, quanta);
    if (index)
        TARN__CACHE_WRITE(cache->bytes, TARN__CACHE_READ(cache->bytes) -
                                            ((uint64_t)quanta << TARN__QUANTUM_SHIFT));
    else
        index = tarn__thread_cache_take_last_freed(cache, quanta);
    if (index)
        tarn__counts_note_allocation(&cache->counts, requested);
    tarn__thread_cache_leave(cache);
    return index;
}

/* --- keeping a block --- */

static inline void tarn__thread_cache_put_last_freed(struct tarn__pool *pool,
                                                     struct tarn__thread_cache *cache,
                                                     tarn__index index)
{
    uint64_t quanta = tarn__node(&pool->heap.nodes, index)->quanta;

    atomic_store_explicit(&cache->last_freed, quanta << 32 | index, memory_order_release);
    cache->keeps_last_freed = true;
}

static inline bool tarn__thread_cache_has_capacity(const struct tarn__thread_cache *cache,
                                                   uint32_t quanta)
{
    uint64_t bytes = (uint64_t)quanta << TARN__QUANTUM_SHIFT;

    if (bytes > tarn__thread_cache_capacity(cache) || quanta > TARN__LARGE_MAX)
        return false;
    return quanta <= TARN__SMALL_CLASSES ||
           TARN__CACHE_READ(cache->large[tarn__thread_cache_large_slot(quanta)]) == 0;
}

/* Enter a block that is thread-cached. The cache has capacity. */
static inline void tarn__thread_cache_push(struct tarn__thread_cache *cache,
                                           struct tarn__node *node, tarn__index index)
    TARN__REQUIRES(cache_lock)
{
    uint32_t quanta = node->quanta;

    if (quanta <= TARN__SMALL_CLASSES) {
        node->next = cache->small[quanta - 1];
        cache->small[quanta - 1] = index;
    } else {
        TARN__CACHE_WRITE(cache->large[tarn__thread_cache_large_slot(quanta)], index);
        cache->large_quanta[tarn__thread_cache_large_slot(quanta)] = quanta;
    }
    TARN__CACHE_WRITE(cache->bytes,
                      TARN__CACHE_READ(cache->bytes) + tarn__node_bytes(node));
}

/* Return true if this block is to be the last-freed block again. */
static inline bool tarn__thread_cache_was_last_freed(
    const struct tarn__thread_cache *cache, uint32_t quanta)
{
    return cache->last_freed_quanta == quanta && !cache->keeps_last_freed;
}

/* Put a LIVE block in. Without capacity nothing changes. A block that is not live was
 * freed by another thread. */
static inline enum tarn__put tarn__thread_cache_put(struct tarn__pool *pool,
                                                    struct tarn__thread_cache *cache,
                                                    tarn__index index, uint64_t block)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    uint32_t quanta = tarn__node_quanta(node);
    enum tarn__put result = TARN__PUT_FULL;

    if (!tarn__thread_cache_enter(cache))
        return TARN__PUT_FULL;
    bool has = tarn__thread_cache_has_capacity(cache, quanta);
    if (!atomic_load_explicit(&cache->closed, memory_order_relaxed) &&
        (has || tarn__thread_cache_was_last_freed(cache, quanta))) {
        result = TARN__PUT_NOT_LIVE;
        if (tarn__node_claim(node, block, TARN__THREAD_CACHED)) {
            uint64_t requested = tarn__node_requested(node);
            if (has) {
                tarn__thread_cache_push(cache, node, index);
            } else {
                tarn__thread_cache_put_last_freed(pool, cache, index);
                if (--cache->last_freed_refills == 0)
                    cache->last_freed_quanta = 0;
            }
            tarn__counts_note_free(&cache->counts, requested);
            result = TARN__PUT_DONE;
        }
    }
    tarn__thread_cache_leave(cache);
    return result;
}

/* --- before the heap, under the pool's lock --- */

/* Return the last-freed block to the heap; the thread is about to search
 * there. */
static inline void tarn__thread_cache_before_search(struct tarn__pool *pool,
                                                    struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    if (cache->keeps_last_freed)
        tarn__thread_cache_drop_last_freed(pool, cache);
    cache->last_freed_quanta = 0;
}

/* Count a slow free: one under the pool's lock. After some of them, decide whether the thread
 * bypasses the cache from now on. The cache's own thread calls this. `lock` held. */
static inline void tarn__thread_cache_note_slow_free(struct tarn__pool *pool,
                                                     struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    if (++cache->bypass.frees >= cache->bypass.enough)
        tarn__thread_cache_decide_bypass(pool, cache);
}

/* Keep a block (in transit) as the last-freed block, unless that would delay an
 * event fence that is due. Returns false if the block belongs into the heap. There is no
 * other such block. */
static inline bool tarn__thread_cache_keep_last_freed(struct tarn__pool *pool,
                                                      struct tarn__thread_cache *cache,
                                                      tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    if (cache->is_bypassed)
        return false;
    if (cache->last_freed_skips == 0)
        return tarn__thread_cache_keep_last_freed_now(pool, cache, index);
    cache->last_freed_skips--;
    return false;
}

#endif
