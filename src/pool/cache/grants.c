/* grants.c -- raising the grant of one thread cache, and reclaiming those of others. */
#include "pool/cache/grants.h"
#include "base/size.h"

/* All caches together have grants of at most this part of tarn__pool_scale(). */
enum { PART = 2048 };
/* Where that is less: the grants of one cache; of all for each cache, and up to how
 * much. */
#define ONE_LEAST ((uint64_t)512 << 10)
#define FOR_EACH ((uint64_t)256 << 10)
#define ALL_LEAST ((uint64_t)16 << 20)
/* Bytes granted at once, so that the pool is not involved at every block. */
#define AT_ONCE ((uint64_t)128 << 10)
/* Caches that one call reclaims from, and small blocks that it takes from each: they bound
 * the time under the lock. */
enum { CACHES = 4, BLOCKS = 64 };
/* A cache is idle that was not used during so many frees that no cache took. Blocks of a
 * cache that is soon used again would lie unfenced in the heap. */
enum { IDLE_FREES = 1 << 14 };

/* Return the most that one cache of the pool may have. */
static uint64_t bound_of_one(const struct tarn__pool *pool) TARN__REQUIRES(pool_lock)
{
    uint64_t part = tarn__pool_scale(pool) / PART;

    return part > ONE_LEAST ? part : ONE_LEAST;
}

/* Return the most that `caches` caches may have together. */
static uint64_t bound_of_all(uint64_t of_one, uint64_t caches)
{
    uint64_t all = tarn__size_least(caches * FOR_EACH, ALL_LEAST);

    return all > of_one ? all : of_one;
}

/* Return true if the cache had no hit and no free for a while. `lock` held. */
static bool is_idle(struct tarn__pool *pool, struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    uint64_t uses = tarn__counts_read(&cache->counts.allocations) +
                    tarn__counts_read(&cache->counts.frees);

    if (uses != cache->noted_uses) {
        cache->noted_uses = uses;
        cache->noted_at = pool->counts.frees;
    }
    return pool->counts.frees - cache->noted_at >= IDLE_FREES;
}

/* Lower the grant of another thread's cache to `share`, or to nothing if the cache was
 * idle. `lock` held. */
static void lower(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                  uint64_t share) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    uint64_t keep = is_idle(pool, cache) ? 0 : share;

    if (TARN__CACHE_READ(cache->granted) <= keep)
        return;
    tarn__thread_cache_exclude_owner(pool, cache);
    tarn__thread_cache_shrink(pool, cache, keep, BLOCKS, TARN__DURING_OTHERS);
    uint64_t held = TARN__CACHE_READ(cache->bytes);
    tarn__thread_cache_grant(pool, cache, held > keep ? held : keep);
    tarn__thread_cache_admit_owner(pool, cache);
}

/* Lower the grants of the next few caches. `lock` held. */
static void reclaim(struct tarn__pool *pool, const struct tarn__thread_cache *from,
                    uint64_t share) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    for (int i = 0; i < CACHES; i++) {
        struct tarn__thread_cache *cache =
            pool->next_to_lower ? pool->next_to_lower : pool->caches_with_grant;
        if (!cache)
            return;
        pool->next_to_lower = cache->in[TARN__CACHES_WITH_GRANT].next;
        if (cache != from)
            lower(pool, cache, share);
    }
}

bool tarn__grants_raise_now(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                            uint64_t bytes)
{
    tarn__assert_held(&pool->lock);

    uint64_t one = bound_of_one(pool), granted = TARN__CACHE_READ(cache->granted);

    if (granted + bytes > one || atomic_load(&cache->closed))
        return false;
    uint64_t caches = pool->caches_granted + (granted == 0);
    uint64_t all = bound_of_all(one, caches), share = all / caches;
    uint64_t more = tarn__size_least(AT_ONCE, share);
    more = tarn__size_least(more > bytes ? more : bytes, one - granted);
    if (pool->granted_bytes + more > all && tarn__backoff_next(&cache->grant_backoff)) {
        /* A cache above its share gets what idle caches have. Otherwise caches in use
         * would drain each other in turn. */
        reclaim(pool, cache, granted + bytes <= share ? share : UINT64_MAX);
        tarn__backoff_note(&cache->grant_backoff, pool->granted_bytes + bytes <= all);
    }
    if (pool->granted_bytes + bytes > all)
        return false;
    if (granted == 0)
        cache->noted_at = pool->counts.frees; /* it begins to be idle now */
    tarn__thread_cache_grant(pool, cache,
                             granted + tarn__size_least(more, all - pool->granted_bytes));
    return true;
}
