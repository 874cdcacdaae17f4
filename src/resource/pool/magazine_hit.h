/* magazine_hit.h -- the path of a cache hit: what pool.c does with a thread cache
 * (magazine) at each operation.
 *
 * The functions are inline, since most of a hit's cost is calls and the registers saved
 * around them. Only the cache's own thread calls them. A thread that drains the cache
 * changes some fields; those are read under the cache's lock.
 */
#ifndef TARN_POOL_MAGAZINE_HIT_H
#define TARN_POOL_MAGAZINE_HIT_H

#include "resource/pool/pool.h"

/* Largest block that a thread cache keeps: larger ones are few, and take the slow
 * path. */
#define TARN__LARGE_MAX ((uint32_t)((16u << 20) >> TARN__GRANULE_SHIFT))

/* --- a thread's table --- */

enum { TARN__SLOTS_LOG = 6, TARN__SLOTS = 1 << TARN__SLOTS_LOG };

struct tarn__slot {
    uint64_t serial;
    tarn_stream stream;
    struct tarn__magazine *magazine;
};

struct tarn__thread {
    struct tarn__slot slots[TARN__SLOTS];
};

/* The table of this thread, or NULL: it has no thread cache yet. */
extern _Thread_local struct tarn__thread *tarn__this_thread
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

static inline struct tarn__slot *tarn__slot_of(struct tarn__thread *thread,
                                               uint64_t serial, tarn_stream stream)
{
    uint64_t mixed = ((uint64_t)(uintptr_t)stream ^ serial << 7) * 0x9e3779b97f4a7c15u;

    return &thread->slots[mixed >> (64 - TARN__SLOTS_LOG)];
}

/* Return the calling thread's cache for a stream, or NULL. */
static inline struct tarn__magazine *tarn__magazine_find(const struct tarn__pool *pool,
                                                         tarn_stream stream)
{
    struct tarn__thread *thread = tarn__this_thread;

    if (!thread)
        return NULL;
    const struct tarn__slot *slot = tarn__slot_of(thread, pool->serial, stream);
    return slot->serial == pool->serial && slot->stream == stream ? slot->magazine : NULL;
}

/* Return true if the stream is still the one that the cache was made for, and does not
 * capture. A free need not know which stream it is. A block freed to the wrong lane is
 * unavailable until a device-wide wait, since that lane's stream has ended. The pool
 * learns that at the first call that is no cache hit (ended.c). Raw streams cost one
 * driver call at a free and two at an allocation. */
static inline bool tarn__magazine_check(struct tarn__pool *pool,
                                        struct tarn__magazine *magazine,
                                        enum tarn__use use)
{
    if (atomic_load_explicit(&magazine->lane->wanted, memory_order_relaxed) ||
        atomic_load_explicit(&magazine->closed, memory_order_acquire))
        return false;
    if (magazine->opened)
        return !atomic_load_explicit(&magazine->opened->captures, memory_order_relaxed);
    return !magazine->is_raw || tarn__magazine_check_raw(pool, magazine, use);
}

/* --- counts --- */

static inline unsigned tarn__count_class(uint64_t bytes)
{
    unsigned log = 63 - (unsigned)__builtin_clzll(bytes | 1);

    return log < TARN_POOL_SIZE_CLASSES ? log : TARN_POOL_SIZE_CLASSES - 1;
}

static inline void tarn__count_allocation(struct tarn__counts *counts, uint64_t asked)
{
    counts->allocations++;
    counts->allocated_bytes += asked;
    counts->classes[tarn__count_class(asked)]++;
}

static inline void tarn__count_free(struct tarn__counts *counts, uint64_t asked)
{
    counts->frees++;
    counts->freed_bytes += asked;
}

/* --- contents: changed under the cache's lock, read without --- */

#define TARN__HELD(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define TARN__HOLD(field, value) \
    atomic_store_explicit(&(field), (value), memory_order_relaxed)

static inline uint64_t tarn__magazine_room(const struct tarn__magazine *magazine)
{
    return TARN__HELD(magazine->granted) - TARN__HELD(magazine->bytes);
}

/* --- taking a block --- */

static inline unsigned tarn__large_slot(uint32_t granules)
{
    return granules * 0x9e3779b1u >> 28;
}

/* Take a block of this size out of the cache; the caller has entered the cache. */
static inline tarn__index tarn__magazine_pop(struct tarn__pool *pool,
                                             struct tarn__magazine *magazine,
                                             uint32_t granules)
{
    tarn__index index;

    if (granules <= TARN__SMALL_CLASSES) {
        index = magazine->small[granules - 1];
        if (!index)
            return 0;
        magazine->small[granules - 1] = tarn__node(&pool->heap.nodes, index)->next;
        TARN__HOLD(magazine->small_count[granules - 1],
                   (uint8_t)(TARN__HELD(magazine->small_count[granules - 1]) - 1));
        return index;
    }
    unsigned slot = tarn__large_slot(granules);
    index = TARN__HELD(magazine->large[slot]);
    if (!index || magazine->large_granules[slot] != granules)
        return 0;
    TARN__HOLD(magazine->large[slot], 0);
    magazine->large_granules[slot] = 0;
    return index;
}

static inline tarn__index tarn__magazine_take_spare(struct tarn__magazine *magazine,
                                                    uint32_t granules)
{
    uint64_t spare = atomic_load_explicit(&magazine->spare, memory_order_relaxed);

    if (spare >> 32 != granules ||
        !atomic_compare_exchange_strong_explicit(
            &magazine->spare, &spare, 0, memory_order_acq_rel, memory_order_relaxed))
        return 0;
    magazine->left_spare = false;
    return (tarn__index)spare;
}

/* Return true if the cache may have a block of this size. A drain since then may not show
 * yet. */
static inline bool tarn__magazine_may_have(const struct tarn__magazine *magazine,
                                           uint32_t granules)
{
    return (granules <= TARN__SMALL_CLASSES &&
            TARN__HELD(magazine->small_count[granules - 1]) > 0) ||
           magazine->large_granules[tarn__large_slot(granules)] == granules ||
           atomic_load_explicit(&magazine->spare, memory_order_relaxed) >> 32 == granules;
}

/* Take a block of `granules` for `asked` bytes, which is then the caller's; 0: a miss. */
static inline tarn__index tarn__magazine_take(struct tarn__pool *pool,
                                              struct tarn__magazine *magazine,
                                              uint32_t granules, uint64_t asked)
{
    if (!tarn__magazine_may_have(magazine, granules) || !tarn__lock_try(&magazine->lock))
        return 0;
    tarn__index index = tarn__magazine_pop(pool, magazine, granules);
    if (index)
        TARN__HOLD(magazine->bytes, TARN__HELD(magazine->bytes) -
                                        ((uint64_t)granules << TARN__GRANULE_SHIFT));
    else
        index = tarn__magazine_take_spare(magazine, granules);
    if (index) {
        magazine->counts.hits++;
        tarn__count_allocation(&magazine->counts, asked);
    }
    tarn__lock_leave(&magazine->lock);
    return index;
}

/* --- keeping a block --- */

static inline void tarn__magazine_put_spare(struct tarn__pool *pool,
                                            struct tarn__magazine *magazine,
                                            tarn__index index)
{
    uint64_t granules = tarn__node(&pool->heap.nodes, index)->granules;

    atomic_store_explicit(&magazine->spare, granules << 32 | index, memory_order_release);
    magazine->left_spare = true;
}

static inline bool tarn__magazine_has_room(const struct tarn__magazine *magazine,
                                           uint32_t granules)
{
    uint64_t bytes = (uint64_t)granules << TARN__GRANULE_SHIFT;

    if (bytes > tarn__magazine_room(magazine) || granules > TARN__LARGE_MAX)
        return false;
    if (granules <= TARN__SMALL_CLASSES)
        return TARN__HELD(magazine->small_count[granules - 1]) < TARN__SMALL_DEPTH;
    return TARN__HELD(magazine->large[tarn__large_slot(granules)]) == 0;
}

/* Enter a block that is PARKED (thread-cached). The cache has capacity. */
static inline void tarn__magazine_push(struct tarn__pool *pool,
                                       struct tarn__magazine *magazine, tarn__index index)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    uint32_t granules = node->granules;

    if (granules <= TARN__SMALL_CLASSES) {
        node->next = magazine->small[granules - 1];
        magazine->small[granules - 1] = index;
        TARN__HOLD(magazine->small_count[granules - 1],
                   (uint8_t)(TARN__HELD(magazine->small_count[granules - 1]) + 1));
    } else {
        TARN__HOLD(magazine->large[tarn__large_slot(granules)], index);
        magazine->large_granules[tarn__large_slot(granules)] = granules;
    }
    TARN__HOLD(magazine->bytes, TARN__HELD(magazine->bytes) + tarn__node_bytes(node));
}

/* Return true if this block is to be the last-freed block (the spare) again. */
static inline bool tarn__magazine_was_spare(const struct tarn__magazine *magazine,
                                            uint32_t granules)
{
    return magazine->spare_granules == granules && !magazine->left_spare;
}

/* Put a LIVE block in. Without capacity nothing changes. A block that is not live was
 * freed by another thread. */
static inline enum tarn__put tarn__magazine_put(struct tarn__pool *pool,
                                                struct tarn__magazine *magazine,
                                                tarn__index index, uint64_t block)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    uint32_t granules = tarn__node_granules(node);
    enum tarn__put result = TARN__PUT_NO_ROOM;

    /* Most blocks without capacity are rejected without the lock. */
    if (!tarn__magazine_has_room(magazine, granules) &&
        !tarn__magazine_was_spare(magazine, granules))
        return TARN__PUT_NO_ROOM;
    if (!tarn__lock_try(&magazine->lock))
        return TARN__PUT_NO_ROOM;
    bool has = tarn__magazine_has_room(magazine, granules);
    if (!atomic_load_explicit(&magazine->closed, memory_order_relaxed) &&
        (has || tarn__magazine_was_spare(magazine, granules))) {
        result = TARN__PUT_NOT_OUT;
        if (tarn__node_claim(node, block, TARN__PARKED)) {
            uint64_t asked = tarn__node_asked(node);
            if (has) {
                tarn__magazine_push(pool, magazine, index);
            } else {
                tarn__magazine_put_spare(pool, magazine, index);
            }
            tarn__count_free(&magazine->counts, asked);
            result = TARN__PUT_DONE;
        }
    }
    tarn__lock_leave(&magazine->lock);
    return result;
}

/* --- before the heap, under the pool's lock --- */

/* All thread caches of a pool together hold at most this part of it, and may hold this
 * much. */
enum { TARN__PARKED_PART = 64 };
#define TARN__PARKED_MIN ((uint64_t)512 << 10)
/* Bytes granted at once, so that the pool is not involved at every block. */
#define TARN__GRANT ((uint64_t)128 << 10)

/* Raise the bytes granted to the cache, if a block did not fit. Other threads change the
 * held and the granted bytes under this lock alone. */
static inline void tarn__magazine_ask(struct tarn__pool *pool,
                                      struct tarn__magazine *magazine, uint64_t bytes)
{
    uint64_t more = bytes > TARN__GRANT ? bytes : TARN__GRANT;

    if (bytes <= tarn__magazine_room(magazine))
        return;
    uint64_t bound = tarn__pages_reserved(pool->pages) / TARN__PARKED_PART;
    if (bound < TARN__PARKED_MIN)
        bound = TARN__PARKED_MIN;
    if (more > bound || pool->parked_granted > bound - more)
        return;
    TARN__HOLD(magazine->granted, TARN__HELD(magazine->granted) + more);
    pool->parked_granted += more;
}

/* Return the last-freed block (the spare) to the heap; the thread is about to search
 * there. */
static inline void tarn__magazine_search(struct tarn__pool *pool,
                                         struct tarn__magazine *magazine)
{
    if (magazine->left_spare)
        tarn__magazine_give_up(pool, magazine);
    magazine->spare_granules = 0;
}

/* Keep a block (MOVING) as the last-freed block (the spare), unless that would delay an
 * event fence that is due. Returns false if the block belongs into the heap. There is no
 * other spare. */
static inline bool tarn__magazine_keep(struct tarn__pool *pool,
                                       struct tarn__magazine *magazine, tarn__index index)
{
    if (magazine->spare_rest == 0)
        return tarn__magazine_keep_now(pool, magazine, index);
    magazine->spare_rest--;
    return false;
}

#endif
