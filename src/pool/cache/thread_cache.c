/* thread_cache.c -- thread caches, and what happens to them when their thread
 * ends.
 *
 * A thread finds its caches in a small table of its own, by the pool's serial number and
 * the stream's value. The cache itself belongs to the pool: any thread can drain it. It
 * is freed when its thread ends or the pool does, whichever is first. A serial number is
 * never reused, so a stale entry in a thread's table matches no pool.
 */
#include "pool/cache/thread_cache.h"
#include "pool/blocks/take.h"
#include "pool/order/fence.h"
#include "pool/order/identity.h"
#include "base/blocking_hook.h"
#include <stdlib.h>
#include <string.h>

/* Frees without a last-freed block. After other threads took the last one: a
 * thread that frees another thread's allocations would send each of that thread's
 * searches the long way. At first: a stream that ends soon would leave the block behind.
 * And after the last one was of no use. */
enum { SKIPS_AFTER_TAKEN = 64, SKIPS_AT_FIRST = 16, SKIPS_AFTER_UNUSED = 4 };

_Thread_local struct tarn__thread *tarn__this_thread;

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tarn__pool *pools;
static pthread_key_t thread_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool key_made;

/* --- driver queries of a cache hit --- */

/* Return true if the pool's context is current. Each context has its own per-thread
 * stream. */
static bool is_in_context(const struct tarn__pool *pool)
{
    CUcontext_ current = NULL;

    return pool->calls->ctx_get_current(&current) == CUDA_SUCCESS_ &&
           current == pool->context;
}

bool tarn__thread_cache_check_raw(struct tarn__pool *pool,
                                  struct tarn__thread_cache *cache, enum tarn__use use)
{
    const struct tarn__calls *calls = pool->calls;
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_NONE_;
    unsigned long long id;

    tarn__blocking_hook_call();
    if (cache->is_per_thread && !is_in_context(pool))
        return false;
    if (calls->stream_is_capturing(cache->handle, &status) != CUDA_SUCCESS_ ||
        (status != CU_STREAM_CAPTURE_STATUS_NONE_ &&
         !TARN_MUTATION(thread_cache_block_to_capture)))
        return false;
    if (use == TARN__TO_FREE || cache->is_per_thread ||
        TARN_MUTATION(id_not_checked_before_record))
        return true;
    return calls->stream_get_id(cache->handle, &id) == CUDA_SUCCESS_ && id == cache->key;
}

/* --- a walk through all caches --- */

/* The blocks or caches for which a walk holds the lock, and how often a walk begins anew.
 * Then it holds the lock to its end. */
enum { WORK_AT_ONCE = 64, RESTARTS_MAX = 8 };
/* Reading the counts of one cache, or its classes, takes as long as returning a few
 * blocks. */
enum { READ_WORK = 4 };

/* The walk releases the lock in between. If a cache was deleted there, the walk begins
 * anew, because it may have been the next one. */
struct walk {
    struct tarn__thread_cache *cache; /* NULL: the end */
    unsigned class;                   /* drain(): the first one that is not drained yet */
    unsigned work;                    /* since the lock was released */
    unsigned restarts;
};

static struct walk begin_walk(const struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    return (struct walk){.cache = pool->caches};
}

/* Go on with `next`, which is the same cache again where it has more blocks. Returns false
 * if the walk begins anew. */
static bool go_on(struct tarn__pool *pool, struct walk *walk,
                  struct tarn__thread_cache *next)
{
    uint64_t ended = pool->caches_ended;

    walk->class = next == walk->cache ? walk->class : 0;
    walk->cache = next;
    if (++walk->work < WORK_AT_ONCE || !next)
        return true;
    walk->work = 0;
    if (walk->restarts == RESTARTS_MAX)
        return true;
    tarn__pool_relock(pool);
    if (ended == pool->caches_ended)
        return true;
    *walk = (struct walk){.cache = pool->caches, .restarts = walk->restarts + 1};
    return false;
}

/* --- the last-freed block --- */

bool tarn__thread_cache_return_last_freed(struct tarn__pool *pool,
                                          struct tarn__thread_cache *cache)
{
    tarn__assert_held(&pool->lock);

    if (atomic_load_explicit(&cache->last_freed, memory_order_relaxed) == 0)
        return false;
    uint64_t last_freed =
        atomic_exchange_explicit(&cache->last_freed, 0, memory_order_acq_rel);
    if (last_freed)
        tarn__heap_put(&pool->heap, (tarn__index)last_freed, cache->stream_state);
    return last_freed != 0;
}

bool tarn__thread_caches_return_last_freed(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    struct walk walk = begin_walk(pool);
    bool any = false;

    for (; walk.cache; go_on(pool, &walk, walk.cache->next))
        any |= tarn__thread_cache_return_last_freed(pool, walk.cache);
    return any;
}

void tarn__thread_cache_drop_last_freed(struct tarn__pool *pool,
                                        struct tarn__thread_cache *cache)
{
    tarn__assert_held(&pool->lock);

    cache->last_freed_skips = tarn__thread_cache_return_last_freed(pool, cache)
                                  ? SKIPS_AFTER_UNUSED
                                  : SKIPS_AFTER_TAKEN;
    cache->keeps_last_freed = false;
}

bool tarn__thread_cache_keep_last_freed_now(struct tarn__pool *pool,
                                            struct tarn__thread_cache *cache,
                                            tarn__index index)
{
    tarn__assert_held(&pool->lock);

    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    if (atomic_load(&cache->closed) || tarn__pool_releases_memory(pool) ||
        !tarn__fence_can_wait(pool, cache->stream_state, tarn__node_bytes(node)))
        return false;
    tarn__node_set(node, TARN__THREAD_CACHED);
    tarn__thread_cache_put_last_freed(pool, cache, index);
    cache->last_freed_quanta = node->quanta;
    return true;
}

/* --- draining --- */

/* Return the stack of a class to the heap, and the number of its blocks. */
static unsigned drain_class(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                            unsigned class)
{
    uint64_t bytes = (uint64_t)(class + 1) << TARN__QUANTUM_SHIFT;
    unsigned count = 0;

    for (; cache->small[class]; count++) {
        tarn__index index = cache->small[class];
        cache->small[class] = tarn__node(&pool->heap.nodes, index)->next;
        tarn__heap_put(&pool->heap, index, cache->stream_state);
    }
    TARN__HOLD(cache->small_count[class], 0);
    TARN__HOLD(cache->bytes, TARN__QUARANTINED(cache->bytes) - count * bytes);
    return count;
}

/* Return the larger blocks and the last-freed block, and what the cache was granted and
 * does not hold. */
static void drain_rest(struct tarn__pool *pool, struct tarn__thread_cache *cache)
{
    uint64_t bytes = TARN__QUARANTINED(cache->bytes);

    for (unsigned i = 0; i < TARN__LARGE_SLOTS; i++) {
        tarn__index index = TARN__QUARANTINED(cache->large[i]);
        if (!index)
            continue;
        bytes -= tarn__node_bytes(tarn__node(&pool->heap.nodes, index));
        tarn__heap_put(&pool->heap, index, cache->stream_state);
        TARN__HOLD(cache->large[i], 0);
    }
    tarn__thread_cache_return_last_freed(pool, cache);
    TARN__HOLD(cache->bytes, bytes);
    pool->granted_bytes -= TARN__QUARANTINED(cache->granted) - bytes;
    TARN__HOLD(cache->granted, bytes);
}

/* Return the blocks of the walk's cache to the heap, into the state of their stream, about
 * WORK_AT_ONCE. Returns false if there are more. `lock` held. */
static bool drain(struct tarn__pool *pool, struct walk *walk)
{
    tarn__assert_held(&pool->lock);

    tarn__lock_take(&walk->cache->lock);
    walk->work += READ_WORK;
    while (walk->class < TARN__SMALL_CLASSES && walk->work < WORK_AT_ONCE)
        walk->work += drain_class(pool, walk->cache, walk->class++);
    bool ends = walk->class == TARN__SMALL_CLASSES;
    if (ends)
        drain_rest(pool, walk->cache);
    tarn__lock_leave(&walk->cache->lock);
    return ends;
}

enum after_drain { STAYS_OPEN, IS_CLOSED };

/* Drain the caches of a stream state (NULL: of any) and of a stream (0: of any). `lock`
 * held, and released in between. */
static void drain_some(struct tarn__pool *pool,
                       const struct tarn__stream_state *stream_state, tarn_stream stream,
                       enum after_drain after_drain)
{
    tarn__assert_held(&pool->lock);

    struct walk walk = begin_walk(pool);

    while (walk.cache) {
        bool ends = true;
        if ((!stream_state || walk.cache->stream_state == stream_state) &&
            (!stream || walk.cache->stream == stream)) {
            if (after_drain == IS_CLOSED)
                atomic_store(&walk.cache->closed, true);
            ends = drain(pool, &walk);
        }
        go_on(pool, &walk, ends ? walk.cache->next : walk.cache);
    }
}

void tarn__thread_caches_drain(struct tarn__pool *pool)
{
    tarn__thread_caches_drain_stream(pool, NULL);
}

void tarn__thread_caches_drain_stream(struct tarn__pool *pool,
                                      const struct tarn__stream_state *stream_state)
{
    tarn__pool_lock(pool);
    drain_some(pool, stream_state, NULL, STAYS_OPEN);
    tarn__pool_unlock(pool);
}

void tarn__thread_caches_close(struct tarn__pool *pool, tarn_stream stream)
{
    tarn__pool_lock(pool);
    drain_some(pool, NULL, stream, IS_CLOSED);
    tarn__pool_unlock(pool);
}

/* --- streams that end ---
 *
 * The driver reuses a destroyed stream's handle for the next stream, but never its id. So
 * a stream has ended once its handle names a stream with another id (resolve.c). A
 * per-thread stream ends with its thread. Its work may still be queued. No event can be
 * recorded after that work any more, because the handle names another stream. Only a
 * wait for the whole device proves that the work is done.
 *
 * Frees that event fences cover stay in its stream state, because the events remain
 * valid. The other frees, and the stream's thread-cached blocks, move to the stream state
 * TARN__KEY_ORPHANED. no_stream.c counts that memory and waits for it.
 */

/* Move up to `most` unfenced blocks of a stream state whose stream has ended to
 * TARN__KEY_ORPHANED. Returns true if there are more. */
static bool orphan_unfenced(struct tarn__heap *heap,
                            struct tarn__stream_state *stream_state, size_t most)
{
    tarn__index index;

    while ((index = stream_state->youngest) != 0 &&
           tarn__node(&heap->nodes, index)->epoch > stream_state->fenced_epoch) {
        if (most-- == 0)
            return true;
        tarn__take_whole(heap, index);
        tarn__heap_put(heap, index,
                       TARN_MUTATION(orphaned_taken_as_completed) ? NULL : stream_state);
    }
    return false;
}

void tarn__thread_caches_end_stream(struct tarn__pool *pool,
                                    struct tarn__stream_state *stream_state)
{
    tarn__assert_held(&pool->lock);

    if (!tarn__identity_orphaned(&pool->heap)) /* no host memory */
        return;
    stream_state->users++;
    stream_state->has_ended = true;
    drain_some(pool, stream_state, NULL, IS_CLOSED);
    while (orphan_unfenced(&pool->heap, stream_state, WORK_AT_ONCE))
        tarn__pool_relock(pool);
    stream_state->users--;
    tarn__identity_delete_if_unused(&pool->heap, stream_state);
}

/* --- creation and deletion --- */

static void counts_add(struct tarn__counts *to, const struct tarn__counts *from)
{
    to->allocations += from->allocations;
    to->frees += from->frees;
    to->hits += from->hits;
    to->allocated_bytes += from->allocated_bytes;
    to->freed_bytes += from->freed_bytes;
    for (unsigned i = 0; i < TARN_POOL_SIZE_CLASSES; i++)
        to->classes[i] += from->classes[i];
}

/* Delete a cache: its blocks return to the heap, and its counts are kept. `lock` held, and
 * released in between. */
static void end(struct tarn__pool *pool, struct tarn__thread_cache *cache)
{
    tarn__assert_held(&pool->lock);

    struct tarn__thread_cache **link = &pool->caches;
    struct walk walk = {.cache = cache};

    while (!drain(pool, &walk)) {
        tarn__pool_relock(pool);
        walk.work = 0;
    }
    pool->caches_ended++;
    while (*link != cache)
        link = &(*link)->next;
    *link = cache->next;
    counts_add(&pool->counts, &cache->counts);
    cache->stream_state->users--;
    tarn__identity_delete_if_unused(&pool->heap, cache->stream_state);
    free(cache);
}

static struct tarn__pool *living(uint64_t serial)
{
    struct tarn__pool *pool = pools;

    while (pool && pool->serial != serial)
        pool = pool->next;
    return pool;
}

enum reason { SLOT_IS_NEEDED, THREAD_ENDS };

/* Delete the cache of a slot, if its pool still exists. A per-thread stream ends with its
 * thread. */
static void clear(struct tarn__slot *slot, enum reason reason)
{
    if (slot->serial == 0)
        return;
    pthread_mutex_lock(&pools_lock);
    struct tarn__pool *pool = living(slot->serial);
    if (pool) {
        tarn__pool_lock(pool);
        if (reason == THREAD_ENDS && slot->cache->is_per_thread)
            tarn__thread_caches_end_stream(pool, slot->cache->stream_state);
        end(pool, slot->cache);
        tarn__pool_unlock(pool);
    }
    pthread_mutex_unlock(&pools_lock);
    *slot = (struct tarn__slot){0};
}

/* The thread ends. At process exit and in a forked child, locks may be held forever. */
static void thread_ends(void *data)
{
    struct tarn__thread *thread = data;

    if (!tarn__driver_gone())
        for (int i = 0; i < TARN__SLOTS; i++)
            clear(&thread->slots[i], THREAD_ENDS);
    tarn__this_thread = NULL;
    free(thread);
}

static void make_key(void)
{
    key_made = pthread_key_create(&thread_key, thread_ends) == 0;
}

static struct tarn__thread *make_thread(void)
{
    pthread_once(&once, make_key);
    struct tarn__thread *thread = key_made ? calloc(1, sizeof *thread) : NULL;
    if (thread && pthread_setspecific(thread_key, thread) != 0) {
        free(thread);
        thread = NULL;
    }
    return tarn__this_thread = thread;
}

static struct tarn__thread_cache *new_cache(const struct tarn__caller *caller)
{
    struct tarn__thread_cache *cache = calloc(1, sizeof *cache);

    if (!cache)
        return NULL;
    cache->stream = caller->stream;
    cache->handle = caller->handle;
    cache->registration = caller->registration;
    cache->key = caller->stream_state->key;
    cache->is_raw = !caller->registration && cache->key != TARN__KEY_LEGACY;
    cache->is_per_thread = caller->stream == TARN_STREAM_PER_THREAD;
    cache->stream_state = caller->stream_state;
    cache->last_freed_skips = SKIPS_AT_FIRST;
    return cache;
}

void tarn__thread_cache_make(const struct tarn__caller *caller)
{
    struct tarn__pool *pool = caller->pool;

    if (caller->capturing || !caller->stream_state->in_order)
        return;
    struct tarn__thread *thread = tarn__this_thread ? tarn__this_thread : make_thread();
    if (!thread)
        return;
    struct tarn__slot *slot =
        tarn__thread_cache_slot_of(thread, pool->serial, caller->stream);
    if (slot->serial == pool->serial && slot->stream == caller->stream &&
        slot->cache->key == caller->stream_state->key &&
        slot->cache->registration == caller->registration)
        return;
    clear(slot, SLOT_IS_NEEDED);
    struct tarn__thread_cache *cache = new_cache(caller);
    if (!cache)
        return;
    *slot = (struct tarn__slot){pool->serial, caller->stream, cache};
    tarn__pool_lock(pool);
    caller->stream_state->users++;
    cache->next = pool->caches;
    pool->caches = cache;
    tarn__pool_unlock(pool);
}

void tarn__thread_caches_free(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    while (pool->caches) {
        end(pool, pool->caches);
        tarn__pool_relock(pool);
    }
    tarn__pool_unlock(pool);
}

void tarn__thread_caches_sum(struct tarn__pool *pool,
                             struct tarn__thread_cache_sums *sums)
{
    tarn__assert_held(&pool->lock);

    struct walk walk = begin_walk(pool);
    bool gone = tarn__driver_gone();

    memset(sums, 0, sizeof *sums);
    while (walk.cache) {
        struct tarn__thread_cache *cache = walk.cache;
        if (!gone)
            tarn__lock_take(&cache->lock);
        counts_add(&sums->counts, &cache->counts);
        uint64_t last_freed =
            atomic_load_explicit(&cache->last_freed, memory_order_relaxed);
        sums->bytes +=
            TARN__QUARANTINED(cache->bytes) + (last_freed >> 32 << TARN__QUANTUM_SHIFT);
        if (!gone)
            tarn__lock_leave(&cache->lock);
        sums->metadata += sizeof *cache;
        walk.work += READ_WORK;
        if (!go_on(pool, &walk, cache->next))
            memset(sums, 0, sizeof *sums);
    }
    counts_add(&sums->counts, &pool->counts);
}

void tarn__thread_caches_add_pool(struct tarn__pool *pool)
{
    static uint64_t last_serial;

    pthread_mutex_lock(&pools_lock);
    pool->serial = ++last_serial;
    pool->next = pools;
    pools = pool;
    pthread_mutex_unlock(&pools_lock);
}

void tarn__thread_caches_remove_pool(struct tarn__pool *pool)
{
    struct tarn__pool **link = &pools;

    pthread_mutex_lock(&pools_lock);
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    pthread_mutex_unlock(&pools_lock);
}
