/* thread_table.h -- a thread's table, in which it finds its thread caches by pool and
 * stream.
 *
 * The table is a hash table with open addressing, which grows with the number of streams.
 * The key is the pool's serial number and the stream's value. A serial number is never
 * reused, so an entry of a pool that has ended matches no pool. Only its own thread
 * reads and writes the table.
 */
#ifndef TARN_POOL_THREAD_TABLE_H
#define TARN_POOL_THREAD_TABLE_H

#include "pool/pool.h"

struct tarn__caller;
struct tarn__thread_cache;

struct tarn__slot {
    _Alignas(32) uint64_t serial; /* of the pool; 0: the slot is empty */
    tarn_stream stream;
    struct tarn__thread_cache *cache;
};

struct tarn__thread {
    /* size of the table less one slot, in bytes */
    _Alignas(TARN__CACHE_LINE) uint64_t mask;
    size_t count, most;        /* slots in use; as many until the table is made anew */
    struct tarn__slot slots[]; /* the last one is always empty */
};

/* The table of this thread; an empty one if the thread has no thread cache yet. */
extern _Thread_local struct tarn__thread *tarn__thread_table
    __attribute__((visibility("hidden")));

/* Return the slot at which a search begins. */
static inline struct tarn__slot *tarn__thread_table_slot(struct tarn__thread *thread,
                                                         uint64_t serial,
                                                         tarn_stream stream)
{
    uint64_t mixed = ((uint64_t)(uintptr_t)stream ^ serial << 7) * 0x9e3779b97f4a7c15u;

    return (struct tarn__slot *)(void *)((char *)thread->slots +
                                         (mixed >> 40 & thread->mask));
}

/* Return the calling thread's cache for a stream, or NULL. */
static inline struct tarn__thread_cache *tarn__thread_table_find(
    const struct tarn__pool *pool, tarn_stream stream)
{
    const struct tarn__slot *slot =
        tarn__thread_table_slot(tarn__thread_table, pool->serial, stream);

    for (;; slot++) {
        if (slot->stream == stream && slot->serial == pool->serial)
            return slot->cache;
        if (slot->serial == 0)
            return NULL;
    }
}

/* Make a thread cache for the calling thread and a stream, or bring the thread's up to
 * date. Does nothing without host memory, or for streams that have no thread cache. Takes
 * and releases the pool's lock. */
void tarn__thread_table_make(const struct tarn__caller *caller);

/* Have threads that end find the pool, and give it its serial number; or have them find
 * it no longer. */
void tarn__thread_table_add_pool(struct tarn__pool *pool);
void tarn__thread_table_remove_pool(struct tarn__pool *pool);

#endif
