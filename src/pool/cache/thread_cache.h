/* thread_cache.h -- the thread cache, with blocks that one thread freed on one
 * stream and can reuse at once.
 *
 * A cache hit takes no contended lock. Only its own thread takes the cache's lock, except
 * for the moment in which another thread drains the cache. On a raw stream a hit queries
 * the driver for a capture. At an allocation it also queries whether it is still the same
 * stream. On a registered stream a hit makes no driver call.
 *
 * Small blocks have a stack for each size up to 64 KiB. Larger blocks have one slot each,
 * by the exact size. The pool grants each cache the bytes that it may hold. All caches of
 * a pool together hold no more than a part of the pool.
 *
 * The last-freed slot has the one block, of any size, that was freed last and
 * exceeded the capacity. A loop that frees and takes it again touches neither the heap
 * nor its lock. The pool lends this block and does not grant it. The thread's next search
 * of the heap returns it first. A search that finds nothing immediately available returns
 * those of all thread caches.
 */
#ifndef TARN_POOL_THREAD_CACHE_H
#define TARN_POOL_THREAD_CACHE_H

#include "pool/pool.h"
#include <tarn/pool.h>

enum {
    TARN__SMALL_CLASSES = 128, /* 512 bytes to 64 KiB */
    TARN__LARGE_SLOTS = 16,
    TARN__SMALL_DEPTH = 32 /* blocks a stack */
};

struct tarn__thread_cache {
    struct tarn__lock lock;
    /* the stream was unregistered, or has ended: no more cache hits */
    atomic_bool closed;
    bool is_raw; /* the stream is checked at every cache hit */
    /* the per-thread stream (2), which is another one in each context */
    bool is_per_thread;
    struct tarn__stream_state *stream_state; /* in the pool; the cache is a user of it */
    uint64_t key;                            /* the stream's id */
    tarn_stream stream;
    CUstream_ handle;
    struct tarn__registration *registration;

    /* A thread that frees a block reads these before it takes the lock. */
    _Atomic uint64_t bytes, granted; /* held; granted */
    _Atomic uint8_t small_count[TARN__SMALL_CLASSES];
    _Atomic tarn__index large[TARN__LARGE_SLOTS];
    tarn__index small[TARN__SMALL_CLASSES];
    uint32_t large_quanta[TARN__LARGE_SLOTS]; /* the size, for the thread's own use */

    /* Granules << 32 | index; 0: none. Only the thread writes a block here; any thread
     * may take it. */
    _Atomic uint64_t last_freed;
    /* The thread's own fields: */
    bool keeps_last_freed; /* the thread put a block in, and has not taken it since */
    uint32_t
        last_freed_quanta; /* a block that had this size may be put in again; 0: none */
    unsigned last_freed_skips; /* number of frees that will put no block in */
    struct tarn__counts counts;
    struct tarn__thread_cache *next; /* in the pool's list; under the pool's lock */
};

enum tarn__use { TARN__TO_ALLOCATE, TARN__TO_FREE };
enum tarn__put { TARN__PUT_DONE, TARN__PUT_FULL, TARN__PUT_NOT_LIVE };

/* Do the driver's part of tarn__thread_cache_check(). */
bool tarn__thread_cache_check_raw(struct tarn__pool *pool,
                                  struct tarn__thread_cache *cache, enum tarn__use use);

/* Make a thread cache for the calling thread and a stream, or bring the thread's up to
 * date. Does nothing without host memory, or for streams that have no thread cache. Takes
 * and releases the pool's lock. */
struct tarn__caller;
void tarn__thread_cache_make(const struct tarn__caller *caller);

/* Do the parts of tarn__thread_cache_keep_last_freed() and of
 * tarn__thread_cache_before_search() that not every operation needs. The cache's own
 * thread calls them, under the pool's lock. */
bool tarn__thread_cache_keep_last_freed_now(struct tarn__pool *pool,
                                            struct tarn__thread_cache *cache,
                                            tarn__index index);
void tarn__thread_cache_drop_last_freed(struct tarn__pool *pool,
                                        struct tarn__thread_cache *cache);
/* Return the last-freed block to the heap. Returns false if there is none.
 * Under the pool's lock. */
bool tarn__thread_cache_return_last_freed(struct tarn__pool *pool,
                                          struct tarn__thread_cache *cache);
/* Return those of all thread caches. `lock` held, and released in between. */
bool tarn__thread_caches_return_last_freed(struct tarn__pool *pool);

/* Return all blocks of all thread caches to the heap. Takes and releases `lock`, several
 * times. */
void tarn__thread_caches_drain(struct tarn__pool *pool);
/* Do the same for the thread caches of one stream, of all threads. */
void tarn__thread_caches_drain_stream(struct tarn__pool *pool,
                                      const struct tarn__stream_state *stream_state);
/* Do the same for the thread caches of one registered stream, which take no more
 * blocks. */
void tarn__thread_caches_close(struct tarn__pool *pool, tarn_stream stream);
/* End a stream that the driver has destroyed: its caches take no more blocks, and its
 * unfenced frees and cached blocks become orphaned memory. `lock` held, and released in
 * between. */
void tarn__thread_caches_end_stream(struct tarn__pool *pool,
                                    struct tarn__stream_state *stream_state);
/* Free all thread caches; no thread uses the pool any more. */
void tarn__thread_caches_free(struct tarn__pool *pool);

/* What a pool counted, its thread caches included, and what those hold. */
struct tarn__thread_cache_sums {
    struct tarn__counts counts;
    uint64_t bytes;
    size_t metadata;
};

/* Sum that up. `lock` held, and released in between. */
void tarn__thread_caches_sum(struct tarn__pool *pool,
                             struct tarn__thread_cache_sums *sums);

/* Have threads that end find the pool, and give it its serial number; or have them find
 * it no longer. */
void tarn__thread_caches_add_pool(struct tarn__pool *pool);
void tarn__thread_caches_remove_pool(struct tarn__pool *pool);

/* --- the path of a cache hit ---
 *
 * The functions are inline, since most of a hit's cost is calls and the registers saved
 * around them. Only the cache's own thread calls them. A thread that drains the cache
 * changes some fields; those are read under the cache's lock. */

/* Largest block that a thread cache keeps: larger ones are few, and take the slow
 * path. */
#define TARN__LARGE_MAX ((uint32_t)((16u << 20) >> TARN__QUANTUM_SHIFT))

/* --- a thread's table --- */

enum { TARN__SLOTS_LOG = 6, TARN__SLOTS = 1 << TARN__SLOTS_LOG };

struct tarn__slot {
    uint64_t serial;
    tarn_stream stream;
    struct tarn__thread_cache *cache;
};

struct tarn__thread {
    struct tarn__slot slots[TARN__SLOTS];
};

/* The table of this thread, or NULL: it has no thread cache yet. */
extern _Thread_local struct tarn__thread *tarn__this_thread
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

static inline struct tarn__slot *tarn__thread_cache_slot_of(struct tarn__thread *thread,
                                                            uint64_t serial,
                                                            tarn_stream stream)
{
    uint64_t mixed = ((uint64_t)(uintptr_t)stream ^ serial << 7) * 0x9e3779b97f4a7c15u;

    return &thread->slots[mixed >> (64 - TARN__SLOTS_LOG)];
}

/* Return the calling thread's cache for a stream, or NULL. */
static inline struct tarn__thread_cache *tarn__thread_cache_find(
    const struct tarn__pool *pool, tarn_stream stream)
{
    struct tarn__thread *thread = tarn__this_thread;

    if (!thread)
        return NULL;
    const struct tarn__slot *slot =
        tarn__thread_cache_slot_of(thread, pool->serial, stream);
    return slot->serial == pool->serial && slot->stream == stream ? slot->cache : NULL;
}

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

/* --- contents: changed under the cache's lock, read without --- */

#define TARN__QUARANTINED(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define TARN__HOLD(field, value) \
    atomic_store_explicit(&(field), (value), memory_order_relaxed)

static inline uint64_t tarn__thread_cache_capacity(const struct tarn__thread_cache *cache)
{
    return TARN__QUARANTINED(cache->granted) - TARN__QUARANTINED(cache->bytes);
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
{
    tarn__index index;

    if (quanta <= TARN__SMALL_CLASSES) {
        index = cache->small[quanta - 1];
        if (!index)
            return 0;
        cache->small[quanta - 1] = tarn__node(&pool->heap.nodes, index)->next;
        TARN__HOLD(cache->small_count[quanta - 1],
                   (uint8_t)(TARN__QUARANTINED(cache->small_count[quanta - 1]) - 1));
        return index;
    }
    unsigned slot = tarn__thread_cache_large_slot(quanta);
    index = TARN__QUARANTINED(cache->large[slot]);
    if (!index || cache->large_quanta[slot] != quanta)
        return 0;
    TARN__HOLD(cache->large[slot], 0);
    cache->large_quanta[slot] = 0;
    return index;
}

static inline tarn__index tarn__thread_cache_take_last_freed(
    struct tarn__thread_cache *cache, uint32_t quanta)
{
    uint64_t last_freed = atomic_load_explicit(&cache->last_freed, memory_order_relaxed);

    if (last_freed >> 32 != quanta || !atomic_compare_exchange_strong_explicit(
                                          &cache->last_freed, &last_freed, 0,
                                          memory_order_acq_rel, memory_order_relaxed))
        return 0;
    cache->keeps_last_freed = false;
    return (tarn__index)last_freed;
}

/* Return true if the cache may have a block of this size. A drain since then may not show
 * yet. */
static inline bool tarn__thread_cache_may_have(const struct tarn__thread_cache *cache,
                                               uint32_t quanta)
{
    return (quanta <= TARN__SMALL_CLASSES &&
            TARN__QUARANTINED(cache->small_count[quanta - 1]) > 0) ||
           cache->large_quanta[tarn__thread_cache_large_slot(quanta)] == quanta ||
           atomic_load_explicit(&cache->last_freed, memory_order_relaxed) >> 32 == quanta;
}

/* Take a block of `quanta` for `requested` bytes, which is then the caller's; 0: a
 * miss. */
static inline tarn__index tarn__thread_cache_take(struct tarn__pool *pool,
                                                  struct tarn__thread_cache *cache,
                                                  uint32_t quanta, uint64_t requested)
{
    if (!tarn__thread_cache_may_have(cache, quanta) || !tarn__lock_try(&cache->lock))
        return 0;
    tarn__index index = tarn__thread_cache_pop(pool, cache, quanta);
    if (index)
        TARN__HOLD(cache->bytes, TARN__QUARANTINED(cache->bytes) -
                                     ((uint64_t)quanta << TARN__QUANTUM_SHIFT));
    else
        index = tarn__thread_cache_take_last_freed(cache, quanta);
    if (index) {
        cache->counts.hits++;
        tarn__counts_note_allocation(&cache->counts, requested);
    }
    tarn__lock_leave(&cache->lock);
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
    if (quanta <= TARN__SMALL_CLASSES)
        return TARN__QUARANTINED(cache->small_count[quanta - 1]) < TARN__SMALL_DEPTH;
    return TARN__QUARANTINED(cache->large[tarn__thread_cache_large_slot(quanta)]) == 0;
}

/* Enter a block that is thread-cached. The cache has capacity. */
static inline void tarn__thread_cache_push(struct tarn__pool *pool,
                                           struct tarn__thread_cache *cache,
                                           tarn__index index)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    uint32_t quanta = node->quanta;

    if (quanta <= TARN__SMALL_CLASSES) {
        node->next = cache->small[quanta - 1];
        cache->small[quanta - 1] = index;
        TARN__HOLD(cache->small_count[quanta - 1],
                   (uint8_t)(TARN__QUARANTINED(cache->small_count[quanta - 1]) + 1));
    } else {
        TARN__HOLD(cache->large[tarn__thread_cache_large_slot(quanta)], index);
        cache->large_quanta[tarn__thread_cache_large_slot(quanta)] = quanta;
    }
    TARN__HOLD(cache->bytes, TARN__QUARANTINED(cache->bytes) + tarn__node_bytes(node));
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

    /* Most blocks without capacity are rejected without the lock. */
    if (!tarn__thread_cache_has_capacity(cache, quanta) &&
        !tarn__thread_cache_was_last_freed(cache, quanta))
        return TARN__PUT_FULL;
    if (!tarn__lock_try(&cache->lock))
        return TARN__PUT_FULL;
    bool has = tarn__thread_cache_has_capacity(cache, quanta);
    if (!atomic_load_explicit(&cache->closed, memory_order_relaxed) &&
        (has || tarn__thread_cache_was_last_freed(cache, quanta))) {
        result = TARN__PUT_NOT_LIVE;
        if (tarn__node_claim(node, block, TARN__THREAD_CACHED)) {
            uint64_t requested = tarn__node_requested(node);
            if (has) {
                tarn__thread_cache_push(pool, cache, index);
            } else {
                tarn__thread_cache_put_last_freed(pool, cache, index);
            }
            tarn__counts_note_free(&cache->counts, requested);
            result = TARN__PUT_DONE;
        }
    }
    tarn__lock_leave(&cache->lock);
    return result;
}

/* --- before the heap, under the pool's lock --- */

/* All thread caches of a pool together hold at most this part of it, and may hold this
 * much. */
enum { TARN__CACHES_PART = 64 };
#define TARN__CACHES_MIN ((uint64_t)512 << 10)
/* Bytes granted at once, so that the pool is not involved at every block. */
#define TARN__GRANT ((uint64_t)128 << 10)

/* Raise the bytes granted to the cache, if a block did not fit. Other threads change the
 * held and the granted bytes under this lock alone. */
static inline void tarn__thread_cache_raise_grant(struct tarn__pool *pool,
                                                  struct tarn__thread_cache *cache,
                                                  uint64_t bytes)
{
    tarn__assert_held(&pool->lock);

    uint64_t more = bytes > TARN__GRANT ? bytes : TARN__GRANT;

    if (bytes <= tarn__thread_cache_capacity(cache))
        return;
    uint64_t bound = tarn__pages_reserved(pool->pages) / TARN__CACHES_PART;
    if (bound < TARN__CACHES_MIN)
        bound = TARN__CACHES_MIN;
    if (more > bound || pool->granted_bytes > bound - more)
        return;
    TARN__HOLD(cache->granted, TARN__QUARANTINED(cache->granted) + more);
    pool->granted_bytes += more;
}

/* Return the last-freed block to the heap; the thread is about to search
 * there. */
static inline void tarn__thread_cache_before_search(struct tarn__pool *pool,
                                                    struct tarn__thread_cache *cache)
{
    tarn__assert_held(&pool->lock);

    if (cache->keeps_last_freed)
        tarn__thread_cache_drop_last_freed(pool, cache);
    cache->last_freed_quanta = 0;
}

/* Keep a block (in transit) as the last-freed block, unless that would delay an
 * event fence that is due. Returns false if the block belongs into the heap. There is no
 * other such block. */
static inline bool tarn__thread_cache_keep_last_freed(struct tarn__pool *pool,
                                                      struct tarn__thread_cache *cache,
                                                      tarn__index index)
{
    if (cache->last_freed_skips == 0)
        return tarn__thread_cache_keep_last_freed_now(pool, cache, index);
    cache->last_freed_skips--;
    return false;
}

#endif
