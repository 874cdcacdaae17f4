/* thread_table.c -- making thread caches, and what happens to them when their thread
 * ends.
 *
 * A cache belongs to its pool: any thread can drain it. It is deleted when its thread
 * ends or the pool does, whichever is first. A thread also deletes the caches of streams
 * that were unregistered or have ended, when its table is full.
 */
#include "pool/cache/thread_table.h"
#include "pool/cache/thread_cache.h"
#include "pool/order/caller.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Slots of a new table, and of the largest one; at most half of them are used. A thread
 * with more streams than that begins again with an empty table. */
enum { SLOTS_MIN = 64, SLOTS_MAX = 4096 };
/* Slots that an entry may lie in, from the one at which the search for it begins. The
 * table has as many more slots at its end, so that no search wraps around. */
enum { PROBES = 32 };

static struct tarn__thread empty = {.slots = {{0}}};
_Thread_local struct tarn__thread *tarn__thread_table = &empty;

TARN__LOCK_KIND(pools_lock);

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tarn__pool *pools TARN__GUARDED_BY(pools_lock);
static pthread_key_t thread_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool key_made;

static void take_pools(void) TARN__ACQUIRE(pools_lock) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    pthread_mutex_lock(&pools_lock);
}

static void leave_pools(void) TARN__RELEASE(pools_lock) TARN__NO_THREAD_SAFETY_ANALYSIS
{
    pthread_mutex_unlock(&pools_lock);
}

static size_t slots_of(const struct tarn__thread *thread)
{
    return thread->mask / sizeof(struct tarn__slot) + 1;
}

/* Slots that a search can reach, without the empty last one. */
static size_t reach_of(const struct tarn__thread *thread)
{
    return thread == &empty ? 0 : slots_of(thread) + PROBES - 1;
}

/* --- the end of caches --- */

static struct tarn__pool *living(uint64_t serial) TARN__REQUIRES(pools_lock)
{
    struct tarn__pool *pool = pools;

    while (pool && pool->serial != serial)
        pool = pool->next;
    return pool;
}

enum which { CLOSED_ONES, ALL, ALL_AT_THREAD_END };

/* Delete the cache of a slot if it is one of `which` and its pool still exists. A
 * per-thread stream ends with its thread. The list of pools is locked. */
static void clear(struct tarn__slot *slot, enum which which) TARN__REQUIRES(pools_lock)
{
    struct tarn__pool *pool = living(slot->serial);

    if (pool && which == CLOSED_ONES && !atomic_load(&slot->cache->closed))
        return;
    if (pool) {
        tarn__pool_lock(pool);
        if (which == ALL_AT_THREAD_END && slot->cache->is_per_thread)
            tarn__thread_caches_end_stream(pool, slot->cache->stream_state);
        tarn__thread_cache_delete(pool, slot->cache);
        tarn__pool_unlock(pool);
    }
    *slot = (struct tarn__slot){0};
}

/* Clear slots of a table. If some remain, nothing can be searched there any more. */
static void clear_all(struct tarn__thread *thread, enum which which)
{
    take_pools();
    for (size_t i = 0; i < reach_of(thread); i++)
        if (thread->slots[i].serial != 0) {
            clear(&thread->slots[i], which);
            thread->count -= thread->slots[i].serial == 0;
        }
    leave_pools();
}

/* The thread ends. At process exit and in a forked child, locks may be held forever. */
static void thread_ends(void *data)
{
    struct tarn__thread *thread = data;

    if (!tarn__driver_gone())
        clear_all(thread, ALL_AT_THREAD_END);
    tarn__thread_table = &empty;
    free(thread);
}

/* --- the table --- */

static void make_key(void)
{
    key_made = pthread_key_create(&thread_key, thread_ends) == 0;
}

/* Return the slot of a stream, or the empty one that it may have; NULL: the slots that a
 * search visits have other streams. */
static struct tarn__slot *look(struct tarn__thread *thread, uint64_t serial,
                               tarn_stream stream)
{
    struct tarn__slot *slot = tarn__thread_table_slot(thread, serial, stream);

    for (int i = 0; i < PROBES; i++, slot++)
        if (slot->serial == 0 || (slot->serial == serial && slot->stream == stream))
            return slot;
    return NULL;
}

static struct tarn__thread *new_table(size_t slots)
{
    struct tarn__thread *thread = tarn__cache_line_allocate(
        sizeof *thread + (slots + PROBES) * sizeof(struct tarn__slot));

    if (thread)
        thread->mask = (slots - 1) * sizeof(struct tarn__slot);
    return thread;
}

/* Set how many slots are used until the next look for caches that can go. */
static void set_most(struct tarn__thread *thread)
{
    size_t most = 2 * thread->count + SLOTS_MIN / 2, half = slots_of(thread) / 2;

    thread->most = most < half ? most : half;
}

/* Return a table of `slots` slots with the entries of `from`. NULL: there is no host
 * memory, or a search would visit too many slots. */
static struct tarn__thread *copy(const struct tarn__thread *from, size_t slots)
{
    struct tarn__thread *to = new_table(slots);

    for (size_t i = 0; to && i < reach_of(from); i++) {
        const struct tarn__slot *entry = &from->slots[i];
        if (entry->serial == 0)
            continue;
        struct tarn__slot *slot = look(to, entry->serial, entry->stream);
        if (!slot) {
            free(to);
            return NULL;
        }
        *slot = *entry;
        to->count++;
    }
    return to;
}

/* Return a table with the entries of `from` and a slot for one more, which `*out` gets.
 * NULL: there is no host memory, or the table would be too large. */
static struct tarn__thread *larger(const struct tarn__thread *from, uint64_t serial,
                                   tarn_stream stream, struct tarn__slot **out)
{
    size_t slots = SLOTS_MIN;

    while (slots < 3 * from->count && slots < SLOTS_MAX)
        slots *= 2;
    for (; 2 * from->count < slots && slots <= SLOTS_MAX; slots *= 2) {
        struct tarn__thread *to = copy(from, slots);
        if (to && (*out = look(to, serial, stream)) != NULL)
            return to;
        free(to);
    }
    return NULL;
}

/* Make room for one more entry, and return its slot; NULL: the thread can have no table.
 * Without host memory, or with too many streams, all entries go. */
static struct tarn__slot *make_room(uint64_t serial, tarn_stream stream)
{
    struct tarn__thread *old = tarn__thread_table;
    struct tarn__slot *slot = NULL;

    pthread_once(&once, make_key);
    clear_all(old, CLOSED_ONES);
    struct tarn__thread *to = key_made ? larger(old, serial, stream, &slot) : NULL;
    /* It can fail for the first table of a thread alone, which has no entries. */
    if (to && pthread_setspecific(thread_key, to) == 0) {
        set_most(to);
        tarn__thread_table = to;
        if (old != &empty)
            free(old);
        return slot;
    }
    free(to);
    clear_all(old, ALL);
    if (old == &empty)
        return NULL;
    set_most(old);
    return look(old, serial, stream);
}

/* Return the slot of the caller's pool and stream, or an empty one; NULL: there is
 * none. */
static struct tarn__slot *slot_for(const struct tarn__caller *caller)
{
    uint64_t serial = caller->pool->serial;
    struct tarn__thread *thread = tarn__thread_table;
    struct tarn__slot *slot =
        thread == &empty ? NULL : look(thread, serial, caller->stream);

    if (slot && (slot->serial != 0 || thread->count < thread->most))
        return slot;
    return make_room(serial, caller->stream);
}

void tarn__thread_table_make(const struct tarn__caller *caller)
{
    struct tarn__pool *pool = caller->pool;

    if (caller->capturing || !caller->stream_state->in_order)
        return;
    struct tarn__slot *slot = slot_for(caller);
    if (!slot)
        return;
    if (slot->serial != 0 && tarn__thread_cache_is_for(slot->cache, caller))
        return;
    struct tarn__thread_cache *cache = tarn__thread_cache_new(caller);
    if (!cache)
        return;
    tarn__pool_lock(pool);
    if (slot->serial != 0)
        tarn__thread_cache_delete(pool, slot->cache);
    else
        tarn__thread_table->count++;
    tarn__thread_cache_add(pool, cache);
    tarn__pool_unlock(pool);
    *slot = (struct tarn__slot){pool->serial, caller->stream, cache};
}

/* --- pools --- */

void tarn__thread_table_add_pool(struct tarn__pool *pool)
{
    static uint64_t last_serial;

    take_pools();
    pool->serial = ++last_serial;
    pool->next = pools;
    pools = pool;
    leave_pools();
}

void tarn__thread_table_remove_pool(struct tarn__pool *pool)
{
    struct tarn__pool **link = &pools;

    take_pools();
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    leave_pools();
}
