/* magazine.c -- thread caches (magazines), and what happens to them when their thread
 * ends.
 *
 * A thread finds its caches in a small table of its own, by the pool's serial number and
 * the stream's value. The cache itself belongs to the pool: any thread can drain it. It
 * is freed when its thread ends or the pool does, whichever is first. A serial number is
 * never reused, so a stale entry in a thread's table matches no pool.
 */
#include "resource/pool/magazine_hit.h"
#include "base/wait.h"
#include <stdlib.h>
#include <string.h>

/* Frees without a last-freed block (the spare). After other threads took the last one: a
 * thread that frees another thread's allocations would send each of that thread's
 * searches the long way. At first: a stream that ends soon would leave the block behind.
 * And after the last one was of no use. */
enum { SPARE_REST = 64, SPARE_FIRST = 16, SPARE_UNUSED = 4 };

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

bool tarn__magazine_check_raw(struct tarn__pool *pool, struct tarn__magazine *magazine,
                              enum tarn__use use)
{
    const struct tarn__calls *calls = pool->calls;
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_NONE_;
    unsigned long long id;

    tarn__wait_ahead();
    if (magazine->is_per_thread && !is_in_context(pool))
        return false;
    if (calls->stream_is_capturing(magazine->handle, &status) != CUDA_SUCCESS_ ||
        (status != CU_STREAM_CAPTURE_STATUS_NONE_ &&
         !TARN_MUTATION(magazine_block_to_capture)))
        return false;
    if (use == TARN__TO_FREE || magazine->is_per_thread ||
        TARN_MUTATION(id_not_checked_before_record))
        return true;
    return calls->stream_get_id(magazine->handle, &id) == CUDA_SUCCESS_ &&
           id == magazine->key;
}

/* --- the last-freed block (the spare) --- */

bool tarn__magazine_let_go(struct tarn__pool *pool, struct tarn__magazine *magazine)
{
    if (atomic_load_explicit(&magazine->spare, memory_order_relaxed) == 0)
        return false;
    uint64_t spare = atomic_exchange_explicit(&magazine->spare, 0, memory_order_acq_rel);
    if (spare)
        tarn__heap_put(&pool->heap, (tarn__index)spare, magazine->lane);
    return spare != 0;
}

bool tarn__magazines_let_go(struct tarn__pool *pool)
{
    bool any = false;

    for (struct tarn__magazine *i = pool->magazines; i; i = i->next)
        any |= tarn__magazine_let_go(pool, i);
    return any;
}

void tarn__magazine_give_up(struct tarn__pool *pool, struct tarn__magazine *magazine)
{
    magazine->spare_rest =
        tarn__magazine_let_go(pool, magazine) ? SPARE_UNUSED : SPARE_REST;
    magazine->left_spare = false;
}

bool tarn__magazine_keep_now(struct tarn__pool *pool, struct tarn__magazine *magazine,
                             tarn__index index)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    if (atomic_load(&magazine->closed) || tarn__pool_gives_back(pool) ||
        !tarn__fence_can_wait(pool, magazine->lane, tarn__node_bytes(node)))
        return false;
    tarn__node_set(node, TARN__PARKED);
    tarn__magazine_put_spare(pool, magazine, index);
    magazine->spare_granules = node->granules;
    return true;
}

/* --- draining --- */

/* Return all blocks to the heap, into the lane of their stream. The cache is entered,
 * `lock` held. */
static void drain(struct tarn__pool *pool, struct tarn__magazine *magazine)
{
    for (unsigned i = 0; i < TARN__SMALL_CLASSES; i++) {
        while (magazine->small[i]) {
            tarn__index index = magazine->small[i];
            magazine->small[i] = tarn__node(&pool->heap.nodes, index)->next;
            tarn__heap_put(&pool->heap, index, magazine->lane);
        }
        TARN__HOLD(magazine->small_count[i], 0);
    }
    for (unsigned i = 0; i < TARN__LARGE_SLOTS; i++) {
        tarn__index index = TARN__HELD(magazine->large[i]);
        if (index)
            tarn__heap_put(&pool->heap, index, magazine->lane);
        TARN__HOLD(magazine->large[i], 0);
    }
    tarn__magazine_let_go(pool, magazine);
    TARN__HOLD(magazine->bytes, 0);
    pool->parked_granted -= TARN__HELD(magazine->granted);
    TARN__HOLD(magazine->granted, 0);
}

enum after { STAYS_OPEN, IS_CLOSED };

/* Drain the caches of a lane (NULL: of any) and of a stream (0: of any). `lock` held:
 * under it the list only loses members, and this waits for a cache in use. */
static void drain_some(struct tarn__pool *pool, const struct tarn__lane *lane,
                       tarn_stream stream, enum after after)
{
    for (struct tarn__magazine *i = pool->magazines; i; i = i->next) {
        if ((lane && i->lane != lane) || (stream && i->stream != stream))
            continue;
        if (after == IS_CLOSED)
            atomic_store(&i->closed, true);
        tarn__lock_take(&i->lock);
        drain(pool, i);
        tarn__lock_leave(&i->lock);
    }
}

void tarn__magazines_drain(struct tarn__pool *pool)
{
    tarn__magazines_drain_lane(pool, NULL);
}

void tarn__magazines_drain_lane(struct tarn__pool *pool, const struct tarn__lane *lane)
{
    tarn__pool_lock(pool);
    drain_some(pool, lane, NULL, STAYS_OPEN);
    tarn__pool_unlock(pool);
}

void tarn__magazines_close(struct tarn__pool *pool, tarn_stream stream)
{
    tarn__pool_lock(pool);
    drain_some(pool, NULL, stream, IS_CLOSED);
    tarn__pool_unlock(pool);
}

void tarn__magazines_close_lane(struct tarn__pool *pool, const struct tarn__lane *lane)
{
    drain_some(pool, lane, NULL, IS_CLOSED);
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

/* Delete a cache: its blocks return to the heap, and its counts are kept. `lock` held. */
static void end(struct tarn__pool *pool, struct tarn__magazine *magazine)
{
    struct tarn__magazine **link = &pool->magazines;

    tarn__lock_take(&magazine->lock);
    drain(pool, magazine);
    tarn__lock_leave(&magazine->lock);
    while (*link != magazine)
        link = &(*link)->next;
    *link = magazine->next;
    counts_add(&pool->counts, &magazine->counts);
    magazine->lane->users--;
    tarn__heap_forget_lane(&pool->heap, magazine->lane);
    free(magazine);
}

static struct tarn__pool *living(uint64_t serial)
{
    struct tarn__pool *pool = pools;

    while (pool && pool->serial != serial)
        pool = pool->next;
    return pool;
}

enum why { MAKES_ROOM, THREAD_ENDS };

/* Delete the cache of a slot, if its pool still exists. A per-thread stream ends with its
 * thread. */
static void clear(struct tarn__slot *slot, enum why why)
{
    if (slot->serial == 0)
        return;
    pthread_mutex_lock(&pools_lock);
    struct tarn__pool *pool = living(slot->serial);
    if (pool) {
        tarn__pool_lock(pool);
        if (why == THREAD_ENDS && slot->magazine->is_per_thread)
            tarn__stream_ended(pool, slot->magazine->lane);
        end(pool, slot->magazine);
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

static struct tarn__magazine *new_magazine(const struct tarn__caller *caller)
{
    struct tarn__magazine *magazine = calloc(1, sizeof *magazine);

    if (!magazine)
        return NULL;
    magazine->stream = caller->stream;
    magazine->handle = caller->handle;
    magazine->opened = caller->opened;
    magazine->key = caller->lane->key;
    magazine->is_raw = !caller->opened && magazine->key != TARN__KEY_LEGACY;
    magazine->is_per_thread = caller->stream == TARN_STREAM_PER_THREAD;
    magazine->lane = caller->lane;
    magazine->spare_rest = SPARE_FIRST;
    return magazine;
}

void tarn__magazine_make(const struct tarn__caller *caller)
{
    struct tarn__pool *pool = caller->pool;

    if (caller->capturing || !caller->lane->in_order)
        return;
    struct tarn__thread *thread = tarn__this_thread ? tarn__this_thread : make_thread();
    if (!thread)
        return;
    struct tarn__slot *slot = tarn__slot_of(thread, pool->serial, caller->stream);
    if (slot->serial == pool->serial && slot->stream == caller->stream &&
        slot->magazine->key == caller->lane->key &&
        slot->magazine->opened == caller->opened)
        return;
    clear(slot, MAKES_ROOM);
    struct tarn__magazine *magazine = new_magazine(caller);
    if (!magazine)
        return;
    *slot = (struct tarn__slot){pool->serial, caller->stream, magazine};
    tarn__pool_lock(pool);
    caller->lane->users++;
    magazine->next = pool->magazines;
    pool->magazines = magazine;
    tarn__pool_unlock(pool);
}

void tarn__magazines_free(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    while (pool->magazines)
        end(pool, pool->magazines);
    tarn__pool_unlock(pool);
}

void tarn__magazines_sum(struct tarn__pool *pool, struct tarn__counts *counts,
                         uint64_t *parked_bytes, uint64_t *parked_blocks,
                         size_t *metadata)
{
    bool gone = tarn__driver_gone();

    for (struct tarn__magazine *i = pool->magazines; i; i = i->next) {
        if (!gone)
            tarn__lock_take(&i->lock);
        counts_add(counts, &i->counts);
        uint64_t spare = atomic_load_explicit(&i->spare, memory_order_relaxed);
        *parked_bytes += TARN__HELD(i->bytes) + (spare >> 32 << TARN__GRANULE_SHIFT);
        *parked_blocks += spare != 0;
        for (unsigned j = 0; j < TARN__SMALL_CLASSES; j++)
            *parked_blocks += TARN__HELD(i->small_count[j]);
        for (unsigned j = 0; j < TARN__LARGE_SLOTS; j++)
            *parked_blocks += TARN__HELD(i->large[j]) != 0;
        if (!gone)
            tarn__lock_leave(&i->lock);
        *metadata += sizeof *i;
    }
}

void tarn__pools_add(struct tarn__pool *pool)
{
    static uint64_t last_serial;

    pthread_mutex_lock(&pools_lock);
    pool->serial = ++last_serial;
    pool->next = pools;
    pools = pool;
    pthread_mutex_unlock(&pools_lock);
}

void tarn__pools_remove(struct tarn__pool *pool)
{
    struct tarn__pool **link = &pools;

    pthread_mutex_lock(&pools_lock);
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    pthread_mutex_unlock(&pools_lock);
}
