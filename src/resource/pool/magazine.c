/* magazine.c -- blocks that one thread freed on one stream, and threads that end.
 *
 * A thread finds its magazines in a small table of its own, by the pool's serial number and
 * the stream's value. The magazine itself belongs to the pool: it can be drained by any
 * thread, and it goes when its thread ends or the pool does, whichever is first. A serial
 * number never comes back, so what is left of a pool in a thread's table matches nothing.
 */
#include "resource/pool/pool.h"
#include "base/wait.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 64 };

/* What a block may have to be kept: larger ones are few, and go the general way. */
#define LARGE_MAX ((uint32_t)((16u << 20) >> TARN__GRANULE_SHIFT))

/* All magazines of a pool together hold at most this part of it, and may hold this much. */
enum { PARKED_PART = 64 };
#define PARKED_MIN ((uint64_t)512 << 10)
/* Asked of the pool at once, so that it is not asked at every block. */
#define GRANT ((uint64_t)128 << 10)

/* Frees without a spare: where others had to take the last one, since a thread that frees
 * what another one allocates would send each of its searches the long way; at first, since
 * a stream that ends soon would leave it behind; and where the last one was of no use. */
enum { SPARE_REST = 64, SPARE_FIRST = 16, SPARE_UNUSED = 4 };

struct slot {
    uint64_t serial;
    tarn_stream stream;
    struct tarn__magazine *magazine;
};

struct thread {
    struct slot slots[SLOTS];
};

static _Thread_local struct thread *this_thread
    __attribute__((tls_model("initial-exec")));

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tarn__pool *pools;
static pthread_key_t thread_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool key_made;

/* --- the lock of a magazine: an atomic exchange, 6 ns --- */

static bool try_enter(struct tarn__magazine *magazine)
{
    return !atomic_exchange_explicit(&magazine->busy, true, memory_order_acquire);
}

static void enter(struct tarn__magazine *magazine)
{
    while (!try_enter(magazine))
        sched_yield();
}

static void leave(struct tarn__magazine *magazine)
{
    atomic_store_explicit(&magazine->busy, false, memory_order_release);
}

/* --- a thread's table --- */

static struct slot *slot_of(struct thread *thread, uint64_t serial, tarn_stream stream)
{
    uint64_t mixed = ((uint64_t)(uintptr_t)stream ^ serial << 7) * 0x9e3779b97f4a7c15u;

    return &thread->slots[mixed >> 58];
}

struct tarn__magazine *tarn__magazine_find(const struct tarn__pool *pool,
                                           tarn_stream stream)
{
    struct thread *thread = this_thread;

    if (!thread)
        return NULL;
    const struct slot *slot = slot_of(thread, pool->serial, stream);
    return slot->serial == pool->serial && slot->stream == stream ? slot->magazine : NULL;
}

/* --- blocks in and out --- */

/* Is the pool's context current? The per-thread stream is another one in each. */
static bool is_in_context(const struct tarn__pool *pool)
{
    CUcontext_ current = NULL;

    return pool->calls->ctx_get_current(&current) == CUDA_SUCCESS_ &&
           current == pool->context;
}

bool tarn__magazine_check(struct tarn__pool *pool, struct tarn__magazine *magazine,
                          enum tarn__use use)
{
    const struct tarn__calls *calls = pool->calls;
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_NONE_;
    unsigned long long id;

    if (atomic_load_explicit(&magazine->lane->wanted, memory_order_relaxed) ||
        atomic_load_explicit(&magazine->closed, memory_order_acquire))
        return false;
    if (magazine->opened)
        return !atomic_load_explicit(&magazine->opened->captures, memory_order_relaxed);
    if (!magazine->is_raw)
        return true;
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

static unsigned large_slot(uint32_t granules)
{
    return granules * 0x9e3779b1u >> 28;
}

/* A block of this size out of the magazine, entered. */
static tarn__index pop(struct tarn__pool *pool, struct tarn__magazine *magazine,
                       uint32_t granules)
{
    tarn__index index;

    if (granules <= TARN__SMALL_CLASSES) {
        index = magazine->small[granules - 1];
        if (!index)
            return 0;
        magazine->small[granules - 1] = tarn__node(&pool->heap.nodes, index)->next;
        magazine->small_count[granules - 1]--;
        return index;
    }
    unsigned slot = large_slot(granules);
    index = magazine->large[slot];
    if (!index || magazine->large_granules[slot] != granules)
        return 0;
    magazine->large[slot] = magazine->large_granules[slot] = 0;
    return index;
}

static tarn__index take_spare(struct tarn__magazine *magazine, uint32_t granules)
{
    uint64_t spare = atomic_load_explicit(&magazine->spare, memory_order_relaxed);

    if (spare >> 32 != granules ||
        !atomic_compare_exchange_strong_explicit(
            &magazine->spare, &spare, 0, memory_order_acq_rel, memory_order_relaxed))
        return 0;
    magazine->left_spare = false;
    return (tarn__index)spare;
}

static void put_spare(struct tarn__pool *pool, struct tarn__magazine *magazine,
                      tarn__index index)
{
    uint64_t granules = tarn__node(&pool->heap.nodes, index)->granules;

    atomic_store_explicit(&magazine->spare, granules << 32 | index, memory_order_release);
    magazine->left_spare = true;
}

static unsigned class_of(uint64_t bytes)
{
    unsigned log = 63 - (unsigned)__builtin_clzll(bytes | 1);

    return log < TARN_POOL_CLASSES ? log : TARN_POOL_CLASSES - 1;
}

void tarn__count_allocation(struct tarn__counts *counts, uint64_t asked)
{
    counts->allocations++;
    counts->allocated_bytes += asked;
    counts->classes[class_of(asked)]++;
}

void tarn__count_free(struct tarn__counts *counts, uint64_t asked)
{
    counts->frees++;
    counts->freed_bytes += asked;
}

/* May there be a block of this size? What has been drained since may still look so. */
static bool may_have(const struct tarn__magazine *magazine, uint32_t granules)
{
    return granules <= TARN__SMALL_CLASSES ||
           magazine->large_granules[large_slot(granules)] == granules ||
           atomic_load_explicit(&magazine->spare, memory_order_relaxed) >> 32 == granules;
}

tarn__index tarn__magazine_take(struct tarn__pool *pool, struct tarn__magazine *magazine,
                                uint32_t granules, uint64_t asked)
{
    if (!may_have(magazine, granules) || !try_enter(magazine))
        return 0;
    tarn__index index = pop(pool, magazine, granules);
    if (index)
        magazine->bytes -= (uint64_t)granules << TARN__GRANULE_SHIFT;
    else
        index = take_spare(magazine, granules);
    if (index) {
        magazine->counts.hits++;
        tarn__count_allocation(&magazine->counts, asked);
    }
    leave(magazine);
    return index;
}

static bool has_room(const struct tarn__magazine *magazine, uint32_t granules)
{
    uint64_t bytes = (uint64_t)granules << TARN__GRANULE_SHIFT;

    if (bytes > magazine->granted - magazine->bytes || granules > LARGE_MAX)
        return false;
    if (granules <= TARN__SMALL_CLASSES)
        return magazine->small_count[granules - 1] < TARN__SMALL_DEPTH;
    return magazine->large[large_slot(granules)] == 0;
}

/* There is room, and the block is PARKED. */
static void push(struct tarn__pool *pool, struct tarn__magazine *magazine,
                 tarn__index index)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    uint32_t granules = node->granules;

    if (granules <= TARN__SMALL_CLASSES) {
        node->next = magazine->small[granules - 1];
        magazine->small[granules - 1] = index;
        magazine->small_count[granules - 1]++;
    } else {
        magazine->large[large_slot(granules)] = index;
        magazine->large_granules[large_slot(granules)] = granules;
    }
    magazine->bytes += tarn__node_bytes(node);
}

/* Is this block to be the spare again? */
static bool was_spare(const struct tarn__magazine *magazine, uint32_t granules)
{
    return magazine->spare_granules == granules && !magazine->left_spare;
}

enum tarn__put tarn__magazine_put(struct tarn__pool *pool,
                                  struct tarn__magazine *magazine, tarn__index index,
                                  uint64_t block)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    enum tarn__put result = TARN__PUT_NO_ROOM;

    if (!try_enter(magazine))
        return TARN__PUT_NO_ROOM;
    bool has = has_room(magazine, node->granules);
    if (!atomic_load_explicit(&magazine->closed, memory_order_relaxed) &&
        (has || was_spare(magazine, node->granules))) {
        uint64_t asked = node->asked;
        result = TARN__PUT_NOT_OUT;
        if (tarn__node_claim(node, block, TARN__PARKED)) {
            if (has) {
                push(pool, magazine, index);
            } else {
                put_spare(pool, magazine, index);
            }
            tarn__count_free(&magazine->counts, asked);
            result = TARN__PUT_DONE;
        }
    }
    leave(magazine);
    return result;
}

/* --- the spare --- */

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

void tarn__magazine_search(struct tarn__pool *pool, struct tarn__magazine *magazine)
{
    if (magazine->left_spare)
        magazine->spare_rest =
            tarn__magazine_let_go(pool, magazine) ? SPARE_UNUSED : SPARE_REST;
    magazine->left_spare = false;
    magazine->spare_granules = 0;
}

bool tarn__magazine_keep(struct tarn__pool *pool, struct tarn__magazine *magazine,
                         tarn__index index)
{
    struct tarn__node *node = tarn__node(&pool->heap.nodes, index);

    if (magazine->spare_rest > 0) {
        magazine->spare_rest--;
        return false;
    }
    if (atomic_load(&magazine->closed) || tarn__pool_gives_back(pool) ||
        !tarn__fence_can_wait(pool, magazine->lane, tarn__node_bytes(node)))
        return false;
    tarn__node_set(node, TARN__PARKED);
    put_spare(pool, magazine, index);
    magazine->spare_granules = node->granules;
    return true;
}

/* --- drained --- */

/* All blocks go back to the heap, into the lane of their stream. Entered, `lock` held. */
static void drain(struct tarn__pool *pool, struct tarn__magazine *magazine)
{
    for (unsigned i = 0; i < TARN__SMALL_CLASSES; i++) {
        while (magazine->small[i]) {
            tarn__index index = magazine->small[i];
            magazine->small[i] = tarn__node(&pool->heap.nodes, index)->next;
            tarn__heap_put(&pool->heap, index, magazine->lane);
        }
        magazine->small_count[i] = 0;
    }
    for (unsigned i = 0; i < TARN__LARGE_SLOTS; i++) {
        if (magazine->large[i])
            tarn__heap_put(&pool->heap, magazine->large[i], magazine->lane);
        magazine->large[i] = 0;
    }
    tarn__magazine_let_go(pool, magazine);
    magazine->bytes = 0;
    pool->parked_granted -= magazine->granted;
    magazine->granted = 0;
}

/* The magazines of a lane (NULL: of all), or those of a stream that is closed. */
static void drain_some(struct tarn__pool *pool, const struct tarn__lane *lane,
                       tarn_stream closed)
{
    /* The list only ever loses members under this lock, and one at work is waited for. */
    tarn__pool_lock(pool);
    for (struct tarn__magazine *i = pool->magazines; i; i = i->next) {
        if ((lane && i->lane != lane) || (closed && i->stream != closed))
            continue;
        if (closed)
            atomic_store(&i->closed, true);
        enter(i);
        drain(pool, i);
        leave(i);
    }
    tarn__pool_unlock(pool);
}

void tarn__magazines_drain(struct tarn__pool *pool)
{
    drain_some(pool, NULL, NULL);
}

void tarn__magazines_drain_lane(struct tarn__pool *pool, const struct tarn__lane *lane)
{
    drain_some(pool, lane, NULL);
}

void tarn__magazines_close(struct tarn__pool *pool, tarn_stream stream)
{
    drain_some(pool, NULL, stream);
}

bool tarn__magazine_grant(struct tarn__pool *pool, struct tarn__magazine *magazine,
                          uint64_t bytes)
{
    uint64_t bound = tarn__pages_reserved(pool->pages) / PARKED_PART;
    uint64_t more = bytes > GRANT ? bytes : GRANT;

    if (bound < PARKED_MIN)
        bound = PARKED_MIN;
    if (more > bound || pool->parked_granted > bound - more)
        return false;
    enter(magazine);
    bool is_full = bytes > magazine->granted - magazine->bytes;
    if (is_full)
        magazine->granted += more;
    leave(magazine);
    if (is_full)
        pool->parked_granted += more;
    return is_full;
}

/* --- coming and going --- */

static void counts_add(struct tarn__counts *to, const struct tarn__counts *from)
{
    to->allocations += from->allocations;
    to->frees += from->frees;
    to->hits += from->hits;
    to->allocated_bytes += from->allocated_bytes;
    to->freed_bytes += from->freed_bytes;
    for (unsigned i = 0; i < TARN_POOL_CLASSES; i++)
        to->classes[i] += from->classes[i];
}

/* Its blocks go back, its counts are kept. `lock` held. */
static void end(struct tarn__pool *pool, struct tarn__magazine *magazine)
{
    struct tarn__magazine **link = &pool->magazines;

    enter(magazine);
    drain(pool, magazine);
    leave(magazine);
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

/* What a slot has goes, if its pool still is. */
static void clear(struct slot *slot)
{
    if (slot->serial == 0)
        return;
    pthread_mutex_lock(&pools_lock);
    struct tarn__pool *pool = living(slot->serial);
    if (pool) {
        tarn__pool_lock(pool);
        end(pool, slot->magazine);
        tarn__pool_unlock(pool);
    }
    pthread_mutex_unlock(&pools_lock);
    *slot = (struct slot){0};
}

/* The thread ends: at the process's end and in a forked child locks may be held. */
static void thread_ends(void *data)
{
    struct thread *thread = data;

    if (!tarn__driver_gone())
        for (int i = 0; i < SLOTS; i++)
            clear(&thread->slots[i]);
    this_thread = NULL;
    free(thread);
}

static void make_key(void)
{
    key_made = pthread_key_create(&thread_key, thread_ends) == 0;
}

static struct thread *make_thread(void)
{
    pthread_once(&once, make_key);
    struct thread *thread = key_made ? calloc(1, sizeof *thread) : NULL;
    if (thread && pthread_setspecific(thread_key, thread) != 0) {
        free(thread);
        thread = NULL;
    }
    return this_thread = thread;
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
    struct thread *thread = this_thread ? this_thread : make_thread();
    if (!thread)
        return;
    struct slot *slot = slot_of(thread, pool->serial, caller->stream);
    if (slot->serial == pool->serial && slot->stream == caller->stream &&
        slot->magazine->key == caller->lane->key &&
        slot->magazine->opened == caller->opened)
        return;
    clear(slot);
    struct tarn__magazine *magazine = new_magazine(caller);
    if (!magazine)
        return;
    *slot = (struct slot){pool->serial, caller->stream, magazine};
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
            enter(i);
        counts_add(counts, &i->counts);
        uint64_t spare = atomic_load_explicit(&i->spare, memory_order_relaxed);
        *parked_bytes += i->bytes + (spare >> 32 << TARN__GRANULE_SHIFT);
        *parked_blocks += spare != 0;
        for (unsigned j = 0; j < TARN__SMALL_CLASSES; j++)
            *parked_blocks += i->small_count[j];
        for (unsigned j = 0; j < TARN__LARGE_SLOTS; j++)
            *parked_blocks += i->large[j] != 0;
        if (!gone)
            leave(i);
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
