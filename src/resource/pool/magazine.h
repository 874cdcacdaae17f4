/* magazine.h -- blocks that one thread freed on one stream, and will have again at once.
 *
 * A hit takes no lock that another thread wants: the magazine's own is free but for the
 * moment in which somebody drains it. On a raw stream a hit asks the driver whether the
 * stream captures and, at an allocation, whether it is still the same stream; on an opened
 * one it asks nobody.
 *
 * Small blocks are kept in a stack for each size up to 64 KiB, larger ones one a slot, by
 * the exact size. What a magazine may hold is granted by the pool, whose magazines together
 * hold no more than a part of what it has.
 *
 * Beside that it keeps the spare: the one block, of any size, that was freed last and for
 * which there was no room. A loop that frees and takes it again touches neither the heap
 * nor its lock. It is lent, not granted: the thread's next search of the heap gives it back
 * first, and so does any search that finds nothing at hand, of all magazines.
 */
#ifndef TARN_POOL_MAGAZINE_H
#define TARN_POOL_MAGAZINE_H

#include "driver/opened.h"
#include "resource/pool/lane.h"
#include "resource/pool/lock.h"
#include <tarn/pool.h>

struct tarn__pool;

enum {
    TARN__SMALL_CLASSES = 128, /* 512 bytes to 64 KiB */
    TARN__LARGE_SLOTS = 16,
    TARN__SMALL_DEPTH = 32 /* blocks a stack */
};

/* What was done, by whoever did it. */
struct tarn__counts {
    uint64_t allocations, frees, hits;
    uint64_t allocated_bytes, freed_bytes; /* as asked for */
    uint64_t classes[TARN_POOL_SIZE_CLASSES];
};

struct tarn__magazine {
    struct tarn__lock lock;
    atomic_bool closed; /* the stream was closed, or has ended: no more hits */
    bool is_raw;        /* the stream has to be checked at every hit */
    bool is_per_thread; /* the thread's own (2), which is another one in each context */
    struct tarn__lane *lane; /* in the pool; the magazine is a user of it */
    uint64_t key;            /* the stream's id */
    tarn_stream stream;
    CUstream_ handle;
    struct tarn__opened *opened;

    /* Who comes with a block looks at these before he takes the lock. */
    _Atomic uint64_t bytes, granted; /* held; allowed */
    _Atomic uint8_t small_count[TARN__SMALL_CLASSES];
    _Atomic tarn__index large[TARN__LARGE_SLOTS];
    tarn__index small[TARN__SMALL_CLASSES];
    uint32_t large_granules[TARN__LARGE_SLOTS]; /* its size, as the thread knows it */

    /* Granules << 32 | index; 0: none. Put in by the thread alone, taken by anybody. */
    _Atomic uint64_t spare;
    /* The thread's own: */
    bool left_spare;         /* one was put in, and not taken by the thread since */
    uint32_t spare_granules; /* what had this size may be put in again; 0: nothing */
    unsigned spare_rest;     /* frees that will put none in */
    struct tarn__counts counts;
    struct tarn__magazine *next; /* of the pool's; under its lock */
};

enum tarn__use { TARN__TO_ALLOCATE, TARN__TO_FREE };
enum tarn__put { TARN__PUT_DONE, TARN__PUT_NO_ROOM, TARN__PUT_NOT_OUT };

/* The driver's part of tarn__magazine_check(): magazine_hit.h. */
bool tarn__magazine_check_raw(struct tarn__pool *pool, struct tarn__magazine *magazine,
                              enum tarn__use use);

/* Make a magazine for the calling thread and a stream, or bring the thread's up to date;
 * nothing happens where there is no host memory, or for streams that have none. Takes and
 * leaves the pool's lock. */
struct tarn__caller;
void tarn__magazine_make(const struct tarn__caller *caller);

/* The parts of tarn__magazine_keep() and of tarn__magazine_search() that are not for every
 * operation: magazine_hit.h. Under the pool's lock, by the magazine's thread. */
bool tarn__magazine_keep_now(struct tarn__pool *pool, struct tarn__magazine *magazine,
                             tarn__index index);
void tarn__magazine_give_up(struct tarn__pool *pool, struct tarn__magazine *magazine);
/* The spare goes to the heap. False: there is none. Under the pool's lock. */
bool tarn__magazine_let_go(struct tarn__pool *pool, struct tarn__magazine *magazine);
/* Those of all magazines. */
bool tarn__magazines_let_go(struct tarn__pool *pool);

/* Give all blocks of all magazines back to the heap. Takes and leaves `lock`. */
void tarn__magazines_drain(struct tarn__pool *pool);
/* The same for those of one stream, of all threads. */
void tarn__magazines_drain_lane(struct tarn__pool *pool, const struct tarn__lane *lane);
/* The same for those of one opened stream, which take no more. */
void tarn__magazines_close(struct tarn__pool *pool, tarn_stream stream);
/* The same for those of a stream that has ended. `lock` held. */
void tarn__magazines_close_lane(struct tarn__pool *pool, const struct tarn__lane *lane);
/* All of them go; nobody uses the pool any more. */
void tarn__magazines_free(struct tarn__pool *pool);

/* Sum up what the magazines counted and hold, and `lock` is held. */
void tarn__magazines_sum(struct tarn__pool *pool, struct tarn__counts *counts,
                         uint64_t *parked_bytes, uint64_t *parked_blocks,
                         size_t *metadata);

/* The list of all pools, in which a thread that ends finds those that still are. */
void tarn__pools_add(struct tarn__pool *pool);
void tarn__pools_remove(struct tarn__pool *pool);

#endif
