/* thread_cache.h -- magazine: the thread cache, with blocks that one thread freed on one
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
 * The spare is the last-freed slot: the one block, of any size, that was freed last and
 * exceeded the capacity. A loop that frees and takes it again touches neither the heap
 * nor its lock. The pool lends this block and does not grant it. The thread's next search
 * of the heap returns it first. A search that finds nothing immediately available returns
 * those of all thread caches.
 */
#ifndef TARN_POOL_THREAD_CACHE_H
#define TARN_POOL_THREAD_CACHE_H

#include "driver/opened.h"
#include "pool/blocks/stream_state.h"
#include "pool/lock.h"
#include <tarn/pool.h>

struct tarn__pool;

enum {
    TARN__SMALL_CLASSES = 128, /* 512 bytes to 64 KiB */
    TARN__LARGE_SLOTS = 16,
    TARN__SMALL_DEPTH = 32 /* blocks a stack */
};

/* What the operations did, whichever thread did them. */
struct tarn__counts {
    uint64_t allocations, frees, hits;
    uint64_t allocated_bytes, freed_bytes; /* as requested */
    uint64_t classes[TARN_POOL_SIZE_CLASSES];
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

/* Do the driver's part of tarn__thread_cache_check() (magazine_hit.h). */
bool tarn__thread_cache_check_raw(struct tarn__pool *pool,
                                  struct tarn__thread_cache *cache, enum tarn__use use);

/* Make a thread cache for the calling thread and a stream, or bring the thread's up to
 * date. Does nothing without host memory, or for streams that have no thread cache. Takes
 * and releases the pool's lock. */
struct tarn__caller;
void tarn__thread_cache_make(const struct tarn__caller *caller);

/* Do the parts of tarn__thread_cache_keep_last_freed() and of tarn__thread_cache_before_search() that not every
 * operation needs (magazine_hit.h). The cache's own thread calls them, under the pool's
 * lock. */
bool tarn__thread_cache_keep_last_freed_now(struct tarn__pool *pool,
                                            struct tarn__thread_cache *cache,
                                            tarn__index index);
void tarn__thread_cache_drop_last_freed(struct tarn__pool *pool,
                                        struct tarn__thread_cache *cache);
/* Return the last-freed block (the spare) to the heap. Returns false if there is none.
 * Under the pool's lock. */
bool tarn__thread_cache_return_last_freed(struct tarn__pool *pool,
                                          struct tarn__thread_cache *cache);
/* Return those of all thread caches. */
bool tarn__thread_caches_return_last_freed(struct tarn__pool *pool);

/* Return all blocks of all thread caches to the heap. Takes and releases `lock`. */
void tarn__thread_caches_drain(struct tarn__pool *pool);
/* Do the same for the thread caches of one stream, of all threads. */
void tarn__thread_caches_drain_stream(struct tarn__pool *pool,
                                      const struct tarn__stream_state *stream_state);
/* Do the same for the thread caches of one registered stream, which take no more
 * blocks. */
void tarn__thread_caches_close(struct tarn__pool *pool, tarn_stream stream);
/* Do the same for the thread caches of a stream that has ended. `lock` held. */
void tarn__thread_caches_close_stream(struct tarn__pool *pool,
                                      const struct tarn__stream_state *stream_state);
/* Free all thread caches; no thread uses the pool any more. */
void tarn__thread_caches_free(struct tarn__pool *pool);

/* Sum up what the thread caches counted and hold. `lock` held. */
void tarn__thread_caches_sum(struct tarn__pool *pool, struct tarn__counts *counts,
                             uint64_t *thread_cached_bytes,
                             uint64_t *thread_cached_blocks, size_t *metadata);

/* The list of all pools, in which a thread that ends finds the pools that still exist. */
void tarn__pools_add(struct tarn__pool *pool);
void tarn__pools_remove(struct tarn__pool *pool);

#endif
