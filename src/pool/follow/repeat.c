/* repeat.c -- planned allocations that are cache hits. */
#include "pool/follow/repeat.h"
#include "pool/follow/area.h"
#include "pool/follow/find.h"
#include "pool/follow/guard.h"
#include "pool/follow/learn.h"
#include "pool/follow/match.h"

/* Return true if the pool need not see the requests of the cache's stream. */
static bool may_repeat(const struct tarn__pool *pool,
                       const struct tarn__thread_cache *cache)
{
    const struct tarn__follow *follow = pool->follow;

    if (!follow->is_on || follow->is_borrowed ||
        (!follow->sequences->has_one_stream && !cache->registration))
        return false;
    return !follow->learn || !tarn__learn_sees_requests(pool);
}

/* The most hits of a repeat: of the first one; of any. */
enum { HITS_AT_FIRST = 16, HITS_MOST = 4096 };

/* Return the most hits of the next repeat. Its slots are counted as it begins, so it may have
 * a few times the hits of the last one. */
static uint32_t most_hits(const struct tarn__thread_cache *cache)
{
    uint32_t most = HITS_AT_FIRST + 2 * cache->repeat.hits;

    return most < HITS_MOST ? most : HITS_MOST;
}

bool tarn__repeat_begin(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                        tarn__index index)
{
    struct tarn__follow *follow = pool->follow;
    const struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    uint64_t offset =
        (node->address - tarn__area_begin(&pool->heap)) >> TARN__QUANTUM_SHIFT;

    tarn__assert_held(&pool->lock);
    if (cache->keeps_last_freed || !may_repeat(pool, cache))
        return false;
    const struct tarn__sequence *sequence = tarn__find_sequence_of_cache(follow, cache);
    uint32_t run =
        sequence ? tarn__match_run(sequence, offset, node->quanta, most_hits(cache)) : 0;
    if (run == 0 || !tarn__thread_cache_keep_last_freed_now(pool, cache, index))
        return false;
    cache->last_freed_refills = run - 1;
    if (run == 1)
        cache->last_freed_quanta = 0;
    cache->repeat.index = index;
    cache->repeat.place = sequence->cursor;
    cache->repeat.quanta = node->quanta;
    cache->repeat.hits = 0;
    cache->repeat.counted = tarn__counts_read(&cache->counts.allocations);
    return true;
}

/* Count the hits of a repeat, which may go on. Returns their number. */
static uint64_t count(struct tarn__pool *pool, struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock)
{
    uint64_t hits = tarn__thread_cache_repeats(cache);

    cache->repeat.counted += hits;
    cache->repeat.hits += (uint32_t)hits;
    if (hits == 0)
        return 0;
    tarn__guard_note_repeats(pool, cache->repeat.quanta, hits);
    if (pool->follow->learn)
        tarn__learn_note_repeats(pool, cache->repeat.index, cache->key, hits);
    return hits;
}

void tarn__repeat_note(struct tarn__pool *pool, struct tarn__thread_cache *cache)
{
    tarn__assert_held(&pool->lock);
    if (cache->repeat.index == 0)
        return;
    uint32_t hits = (uint32_t)count(pool, cache);
    struct tarn__sequence *sequence =
        cache->sequence_version == pool->follow->version ? cache->sequence : NULL;
    if (hits > 0 && sequence && sequence->cursor == cache->repeat.place) {
        tarn__match_pass(sequence, cache->repeat.quanta, hits);
        cache->repeat.place = sequence->cursor;
    }
}

void tarn__repeat_end(struct tarn__pool *pool, struct tarn__thread_cache *cache)
{
    tarn__repeat_note(pool, cache);
    tarn__thread_cache_before_search(pool, cache);
    cache->repeat.index = 0;
}

void tarn__repeat_end_all(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);
    for (struct tarn__thread_cache *i = pool->caches; i;
         i = i->in[TARN__CACHES_OF_POOL].next) {
        if (i->repeat.index == 0)
            continue;
        tarn__thread_cache_exclude_owner(pool, i);
        tarn__thread_cache_end_last_freed(pool, i);
        count(pool, i);
        i->repeat.index = 0;
        tarn__thread_cache_admit_owner(pool, i);
    }
}
