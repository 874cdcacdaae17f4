/* thread_cache.c -- the contents of thread caches, and their lists. */
#include "pool/cache/thread_cache.h"
#include "base/clock.h"
#include "pool/blocks/take.h"
#include "pool/order/fence.h"
#include "pool/order/identity.h"
#include "base/blocking_hook.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Frees without a last-freed block. After other threads took the last one: a
 * thread that frees another thread's allocations would send each of that thread's
 * searches the long way. At first: a stream that ends soon would leave the block behind.
 * And after the last one was of no use. */
enum { SKIPS_AFTER_TAKEN = 64, SKIPS_AT_FIRST = 16, SKIPS_AFTER_UNUSED = 4 };

/* A thread bypasses its cache after so many frees, if each took this long on average: a hit
 * saves about 60 ns. It uses it again after so many that took less. Those are more, since
 * the end of a training step frees all gradients at once. */
enum { FREES_TO_BYPASS = 64, FREES_TO_USE = 1024 };
#define RARE_FREE_NS ((uint64_t)10 * 1000)

/* --- lists --- */

static struct tarn__thread_cache **list_of(struct tarn__pool *pool,
                                           struct tarn__thread_cache *cache,
                                           enum tarn__cache_list list)
    TARN__REQUIRES(pool_lock)
{
    switch (list) {
    case TARN__CACHES_OF_STREAM:
        return &cache->stream_state->caches;
    case TARN__CACHES_WITH_LAST_FREED:
        return &pool->caches_with_last_freed;
    case TARN__CACHES_WITH_GRANT:
        return &pool->caches_with_grant;
    default:
        return &pool->caches;
    }
}

static void enter_list(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                       enum tarn__cache_list list) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    struct tarn__thread_cache **first = list_of(pool, cache, list);

    if (cache->in[list].from)
        return;
    cache->in[list].next = *first;
    if (*first)
        (*first)->in[list].from = &cache->in[list].next;
    cache->in[list].from = first;
    *first = cache;
}

static void leave_list(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                       enum tarn__cache_list list) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    struct tarn__thread_cache *next = cache->in[list].next, **from = cache->in[list].from;

    if (!from)
        return;
    *from = next;
    if (next)
        next->in[list].from = from;
    cache->in[list].from = NULL;
}

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

/* The small blocks that one hold of the pool's lock returns to the heap, beside the few large
 * ones of a cache, or the caches that it reads or empties. */
enum { BLOCKS_AT_ONCE = 64, CACHES_AT_ONCE = 32 };

/* --- the last-freed block --- */

/* Return a block to the heap: its stream still orders it. `lock` held. */
static void return_to_heap(struct tarn__pool *pool,
                           const struct tarn__thread_cache *cache, tarn__index index,
                           enum tarn__during during) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    if (TARN_MUTATION(returned_taken_as_completed))
        tarn__heap_put(&pool->heap, index, NULL);
    else if (cache->is_raw && during == TARN__DURING_OTHERS)
        tarn__heap_put_alone(&pool->heap, index, cache->stream_state);
    else
        tarn__heap_put(&pool->heap, index, cache->stream_state);
}

/* Return the last-freed block to the heap. Returns false if there is none. `lock` held. */
static bool return_last_freed(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                              enum tarn__during during) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    if (atomic_load_explicit(&cache->last_freed, memory_order_relaxed) == 0)
        return false;
    uint64_t last_freed =
        atomic_exchange_explicit(&cache->last_freed, 0, memory_order_acq_rel);
    if (last_freed)
        return_to_heap(pool, cache, (tarn__index)last_freed, during);
    return last_freed != 0;
}

/* Do the same for a cache of any thread. */
static bool return_last_freed_of_other(struct tarn__pool *pool,
                                       struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    if (!cache->repeat.index)
        return return_last_freed(pool, cache, TARN__DURING_OTHERS);
    if (atomic_load_explicit(&cache->last_freed, memory_order_relaxed) == 0)
        return false;
    tarn__thread_cache_exclude_owner(pool, cache);
    bool has = return_last_freed(pool, cache, TARN__DURING_OTHERS);
    tarn__thread_cache_admit_owner(pool, cache);
    return has;
}

/* Return the last-freed blocks of up to `most` caches. A cache whose block its thread has
 * taken stays in the list: the thread may put that block in again. */
static unsigned return_some_last_freed(struct tarn__pool *pool, unsigned most)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__thread_cache *next;
    unsigned count = 0;

    for (struct tarn__thread_cache *i = pool->caches_with_last_freed; i && count < most;
         i = next) {
        next = i->in[TARN__CACHES_WITH_LAST_FREED].next;
        if (return_last_freed_of_other(pool, i)) {
            leave_list(pool, i, TARN__CACHES_WITH_LAST_FREED);
            count++;
        }
    }
    return count;
}

bool tarn__thread_caches_return_last_freed(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    unsigned count = return_some_last_freed(pool, CACHES_AT_ONCE);
    bool any = count > 0;

    for (; count == CACHES_AT_ONCE; count = return_some_last_freed(pool, CACHES_AT_ONCE))
        tarn__pool_relock(pool);
    return any;
}

bool tarn__thread_caches_return_few_last_freed(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    return pool->caches_with_last_freed &&
           return_some_last_freed(pool, CACHES_AT_ONCE) > 0;
}

void tarn__thread_cache_end_last_freed(struct tarn__pool *pool,
                                       struct tarn__thread_cache *cache)
{
    tarn__assert_held(&pool->lock);

    return_last_freed(pool, cache, TARN__DURING_OTHERS);
    cache->last_freed_quanta = 0;
}

void tarn__thread_cache_drop_last_freed(struct tarn__pool *pool,
                                        struct tarn__thread_cache *cache)
{
    tarn__assert_held(&pool->lock);

    cache->last_freed_skips = return_last_freed(pool, cache, TARN__DURING_ITS_CALL)
                                  ? SKIPS_AFTER_UNUSED
                                  : SKIPS_AFTER_TAKEN;
    cache->keeps_last_freed = false;
    leave_list(pool, cache, TARN__CACHES_WITH_LAST_FREED);
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
    enter_list(pool, cache, TARN__CACHES_WITH_LAST_FREED);
    return true;
}

/* --- other threads in a cache --- */

/* Only the holder of the pool's lock excludes a cache's owner, so there is one at most. */
void tarn__thread_cache_exclude_owner(struct tarn__pool *pool,
                                      struct tarn__thread_cache *cache)
    TARN__NO_THREAD_SAFETY_ANALYSIS
{
    tarn__assert_held(&pool->lock);

    atomic_store_explicit(&cache->is_excluded, true, memory_order_seq_cst);
    tarn__process_barrier();
    for (unsigned turn = 0;
         atomic_load_explicit(&cache->is_entered, memory_order_seq_cst); turn++)
        tarn__lock_back_off(turn);
}

void tarn__thread_cache_admit_owner(struct tarn__pool *pool,
                                    struct tarn__thread_cache *cache)
    TARN__NO_THREAD_SAFETY_ANALYSIS
{
    tarn__assert_held(&pool->lock);

    atomic_store_explicit(&cache->is_excluded, false, memory_order_release);
}

/* --- draining --- */

/* Return one block of a size to the heap. The owner is excluded, `lock` held. */
static void return_small(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                         unsigned size, enum tarn__during during)
    TARN__REQUIRES(pool_lock) TARN__REQUIRES(cache_lock)
{
    tarn__assert_held(&pool->lock);

    tarn__index index = tarn__thread_cache_pop(pool, cache, size + 1);

    TARN__CACHE_WRITE(cache->bytes,
                      TARN__CACHE_READ(cache->bytes) -
                          tarn__node_bytes(tarn__node(&pool->heap.nodes, index)));
    return_to_heap(pool, cache, index, during);
}

/* Return the block of a large slot to the heap. The owner is excluded, `lock` held. */
static void return_large(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                         unsigned slot, enum tarn__during during)
    TARN__REQUIRES(pool_lock) TARN__REQUIRES(cache_lock)
{
    tarn__assert_held(&pool->lock);

    tarn__index index = TARN__CACHE_READ(cache->large[slot]);

    TARN__CACHE_WRITE(cache->large[slot], 0);
    TARN__CACHE_WRITE(cache->bytes,
                      TARN__CACHE_READ(cache->bytes) -
                          tarn__node_bytes(tarn__node(&pool->heap.nodes, index)));
    return_to_heap(pool, cache, index, during);
}

void tarn__thread_cache_shrink(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                               uint64_t keep, unsigned most, enum tarn__during during)
{
    tarn__assert_held(&pool->lock);

    for (unsigned i = TARN__LARGE_SLOTS; i-- > 0;)
        if (TARN__CACHE_READ(cache->bytes) > keep && TARN__CACHE_READ(cache->large[i]))
            return_large(pool, cache, i, during);
    for (unsigned i = TARN__SMALL_CLASSES; i-- > 0;)
        for (; most > 0 && TARN__CACHE_READ(cache->bytes) > keep && cache->small[i];
             most--)
            return_small(pool, cache, i, during);
}

bool tarn__thread_cache_keep(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                             tarn__index index)
{
    tarn__assert_held(&pool->lock);

    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    if (!tarn__thread_cache_enter(cache)) /* with the pool's lock this does not fail */
        return false;
    /* The first block that a cache could keep goes into the heap. A stream that ends soon
     * would leave it behind. */
    bool has = cache->counts.frees > 0 &&
               !atomic_load_explicit(&cache->closed, memory_order_relaxed) &&
               tarn__thread_cache_has_capacity(cache, node->quanta);
    if (has) {
        tarn__node_set(node, TARN__THREAD_CACHED);
        tarn__thread_cache_push(cache, node, index);
    }
    tarn__thread_cache_leave(cache);
    return has;
}

void tarn__thread_cache_grant(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                              uint64_t bytes)
{
    tarn__assert_held(&pool->lock);

    uint64_t before = TARN__CACHE_READ(cache->granted);

    pool->granted_bytes += bytes - before;
    pool->caches_granted += (bytes > 0) - (before > 0);
    TARN__CACHE_WRITE(cache->granted, bytes);
    if (bytes > 0) {
        enter_list(pool, cache, TARN__CACHES_WITH_GRANT);
        return;
    }
    if (pool->next_to_lower == cache)
        pool->next_to_lower = cache->in[TARN__CACHES_WITH_GRANT].next;
    leave_list(pool, cache, TARN__CACHES_WITH_GRANT);
}

/* --- bypassing the cache --- */

/* Return blocks of the calling thread's cache to the heap, up to BLOCKS_AT_ONCE small ones.
 * The cache keeps no further block. */
static void begin_bypass(struct tarn__pool *pool, struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    if (!tarn__thread_cache_enter(cache)) /* with the pool's lock this does not fail */
        return;
    tarn__thread_cache_shrink(pool, cache, 0, BLOCKS_AT_ONCE, TARN__DURING_ITS_CALL);
    tarn__thread_cache_leave(cache);
    tarn__thread_cache_grant(pool, cache, TARN__CACHE_READ(cache->bytes));
    cache->is_bypassed = true;
}

void tarn__thread_cache_decide_bypass(struct tarn__pool *pool,
                                      struct tarn__thread_cache *cache)
{
    tarn__assert_held(&pool->lock);

    uint64_t now = tarn__clock_now_ns(), kept = tarn__counts_read(&cache->counts.frees);
    uint64_t frees = cache->bypass.frees + kept - cache->bypass.kept;
    bool are_rare = now > cache->bypass.from_ns + frees * RARE_FREE_NS;

    cache->is_bypassed = false;
    if (are_rare && !pool->is_shared && pool->least_bytes == 0)
        begin_bypass(pool, cache);
    cache->bypass.frees = 0;
    cache->bypass.enough = cache->is_bypassed ? FREES_TO_USE : FREES_TO_BYPASS;
    cache->bypass.kept = kept;
    cache->bypass.from_ns = now;
}

/* Count the cache's uses since its last drain as operations of the pool. `lock` held. */
static void note_uses(struct tarn__pool *pool, struct tarn__thread_cache *cache)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    uint64_t uses = tarn__counts_read(&cache->counts.allocations) +
                    tarn__counts_read(&cache->counts.frees);

    pool->drained_operations += uses - cache->drained_uses;
    cache->drained_uses = uses;
}

/* Return the large blocks of a cache to the heap, and up to BLOCKS_AT_ONCE small ones; this
 * waits for a cache in use. Returns false if it has more. */
static bool drain_step(struct tarn__pool *pool, struct tarn__thread_cache *cache,
                       enum tarn__during during) TARN__REQUIRES(pool_lock)
{
    tarn__thread_cache_exclude_owner(pool, cache);
    tarn__thread_cache_shrink(pool, cache, 0, BLOCKS_AT_ONCE, during);
    return_last_freed(pool, cache, during);
    uint64_t left = TARN__CACHE_READ(cache->bytes);
    tarn__thread_cache_grant(pool, cache, left);
    note_uses(pool, cache);
    tarn__thread_cache_admit_owner(pool, cache);
    return left == 0;
}

static bool is_empty(const struct tarn__thread_cache *cache)
{
    return TARN__CACHE_READ(cache->granted) == 0 &&
           atomic_load_explicit(&cache->last_freed, memory_order_relaxed) == 0;
}

/* Return a cache of the stream state, and of the stream (0: of any), that is not empty;
 * NULL: none. */
static struct tarn__thread_cache *next_to_drain(
    const struct tarn__stream_state *stream_state, tarn_stream stream)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__thread_cache *cache = stream_state->caches;

    while (cache && ((stream && cache->stream != stream) || is_empty(cache)))
        cache = cache->in[TARN__CACHES_OF_STREAM].next;
    return cache;
}

/* Have the caches of a stream state, and of a stream (0: of any), take no more blocks. */
static void close_some(const struct tarn__stream_state *stream_state, tarn_stream stream)
    TARN__REQUIRES(pool_lock)
{
    for (struct tarn__thread_cache *i = stream_state->caches; i;
         i = i->in[TARN__CACHES_OF_STREAM].next)
        if (!stream || i->stream == stream)
            atomic_store(&i->closed, true);
}

/* The most holds of one drain. Its threads may fill the caches again meanwhile. */
enum { STEPS_MAX = 4096 };

/* Drain the caches of a stream state, and of a stream (0: of any). The stream state has a
 * user. `lock` held, and released in between. */
static void drain_some(struct tarn__pool *pool,
                       const struct tarn__stream_state *stream_state, tarn_stream stream,
                       enum tarn__during during) TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&pool->lock);

    struct tarn__thread_cache *cache;

    for (int i = 0;
         i < STEPS_MAX && (cache = next_to_drain(stream_state, stream)) != NULL; i++)
        if (!drain_step(pool, cache, during))
            tarn__pool_relock(pool);
}

void tarn__thread_caches_drain(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    tarn__thread_caches_return_last_freed(pool);
    for (int i = 0; i < STEPS_MAX && pool->caches_with_grant; i++) {
        drain_step(pool, pool->caches_with_grant, TARN__DURING_OTHERS);
        tarn__pool_relock(pool);
    }
    tarn__pool_unlock(pool);
}

void tarn__thread_caches_drain_stream(struct tarn__pool *pool,
                                      const struct tarn__stream_state *stream_state)
{
    tarn__pool_lock(pool);
    drain_some(pool, stream_state, NULL, TARN__DURING_ITS_CALL);
    tarn__pool_unlock(pool);
}

/* Drain the caches of a registered stream, and of one of its values (0: of any). Have
 * those of that value take no more blocks. */
static void drain_registered(struct tarn__pool *pool,
                             const struct tarn__registration *registration,
                             tarn_stream closed, enum tarn__during during)
{
    tarn__pool_lock(pool);
    struct tarn__stream_state *stream_state =
        tarn__identity_find_registered(&pool->heap, registration);
    if (stream_state) {
        stream_state->users++; /* it stays while the lock is released */
        if (closed)
            close_some(stream_state, closed);
        drain_some(pool, stream_state, closed, during);
        stream_state->users--;
        tarn__identity_delete_if_unused(&pool->heap, stream_state);
    }
    tarn__pool_unlock(pool);
}

void tarn__thread_caches_drain_registered(struct tarn__pool *pool,
                                          const struct tarn__registration *registration)
{
    drain_registered(pool, registration, NULL, TARN__DURING_ITS_CALL);
}

void tarn__thread_caches_close(struct tarn__pool *pool, tarn_stream stream,
                               const struct tarn__registration *registration)
{
    drain_registered(pool, registration, stream, TARN__DURING_OTHERS);
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
    TARN__REQUIRES(pool_lock)
{
    tarn__index index;

    while ((index = stream_state->free.youngest) != 0 &&
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
    close_some(stream_state, NULL);
    drain_some(pool, stream_state, NULL, TARN__DURING_OTHERS);
    while (orphan_unfenced(&pool->heap, stream_state, BLOCKS_AT_ONCE))
        tarn__pool_relock(pool);
    stream_state->users--;
    tarn__identity_delete_if_unused(&pool->heap, stream_state);
}

/* --- creation and deletion --- */

void tarn__thread_cache_delete(struct tarn__pool *pool, struct tarn__thread_cache *cache)
{
    tarn__assert_held(&pool->lock);

    atomic_store(&cache->closed, true);
    while (!drain_step(pool, cache, TARN__DURING_OTHERS))
        tarn__pool_relock(pool);
    pool->caches_ended++;
    for (int i = 0; i < TARN__CACHE_LISTS; i++)
        leave_list(pool, cache, (enum tarn__cache_list)i);
    tarn__counts_add(&pool->counts, &cache->counts);
    pool->counts.hits += tarn__counts_read(&cache->counts.allocations);
    pool->repeats_ended += tarn__thread_cache_repeats(cache);
    pool->drained_operations -= cache->drained_uses; /* they are in `counts` now */
    cache->stream_state->users--;
    tarn__identity_delete_if_unused(&pool->heap, cache->stream_state);
    free(cache);
}

struct tarn__thread_cache *tarn__thread_cache_new(const struct tarn__caller *caller)
{
    struct tarn__thread_cache *cache = tarn__cache_line_allocate(sizeof *cache);

    if (!cache)
        return NULL;
    cache->stream = caller->stream;
    cache->handle = caller->handle;
    cache->registration = caller->registration;
    cache->key = caller->stream_state->identity.key;
    cache->is_raw = !caller->registration && cache->key != TARN__KEY_LEGACY;
    cache->is_per_thread = caller->stream == TARN_STREAM_PER_THREAD;
    cache->stream_state = caller->stream_state;
    cache->last_freed_skips = SKIPS_AT_FIRST;
    cache->bypass.enough = FREES_TO_BYPASS;
    cache->bypass.from_ns = tarn__clock_now_ns();
    return cache;
}

bool tarn__thread_cache_is_for(const struct tarn__thread_cache *cache,
                               const struct tarn__caller *caller)
{
    return cache->key == caller->stream_state->identity.key &&
           cache->registration == caller->registration;
}

void tarn__thread_cache_add(struct tarn__pool *pool, struct tarn__thread_cache *cache)
{
    tarn__assert_held(&pool->lock);

    cache->stream_state->users++;
    enter_list(pool, cache, TARN__CACHES_OF_POOL);
    enter_list(pool, cache, TARN__CACHES_OF_STREAM);
}

void tarn__thread_caches_free(struct tarn__pool *pool)
{
    unsigned count = 0;

    tarn__pool_lock(pool);
    while (pool->caches) {
        tarn__thread_cache_delete(pool, pool->caches);
        if (++count % CACHES_AT_ONCE == 0)
            tarn__pool_relock(pool);
    }
    tarn__pool_unlock(pool);
}

/* The most times that a sum begins anew. Then it holds the lock to its end. */
enum { RESTARTS_MAX = 8 };

/* Add what the caches counted and hold. Returns false if the lock was released in between
 * and a cache was deleted there, unless this is the last try. */
static bool sum_caches(struct tarn__pool *pool, bool is_last,
                       struct tarn__thread_cache_sums *sums)
    TARN__NO_THREAD_SAFETY_ANALYSIS
{
    bool gone = tarn__driver_gone();
    uint64_t ended = pool->caches_ended;
    unsigned count = 0;

    for (struct tarn__thread_cache *i = pool->caches; i;
         i = i->in[TARN__CACHES_OF_POOL].next) {
        tarn__counts_add(&sums->counts, &i->counts);
        sums->counts.hits += tarn__counts_read(&i->counts.allocations);
        sums->repeats += tarn__thread_cache_repeats(i);
        uint64_t last_freed = atomic_load_explicit(&i->last_freed, memory_order_relaxed);
        sums->bytes +=
            TARN__CACHE_READ(i->bytes) + (last_freed >> 32 << TARN__QUANTUM_SHIFT);
        sums->metadata += sizeof *i;
        if (++count % CACHES_AT_ONCE != 0 || is_last || gone)
            continue;
        tarn__pool_relock(pool);
        if (ended != pool->caches_ended)
            return false;
    }
    return true;
}

void tarn__thread_caches_sum(struct tarn__pool *pool,
                             struct tarn__thread_cache_sums *sums)
{
    tarn__assert_held(&pool->lock);

    int tries = 0;

    do
        memset(sums, 0, sizeof *sums);
    while (!sum_caches(pool, ++tries > RESTARTS_MAX, sums));
    tarn__counts_add(&sums->counts, &pool->counts);
    sums->repeats += pool->repeats_ended;
}
