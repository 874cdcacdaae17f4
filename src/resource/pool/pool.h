/* pool.h -- a pool from the inside: what its files share.
 *
 *     allocate ──► magazine.c (thread × stream) ──hit──► block
 *                      │ miss                  ▲ what is freed
 *                      ▼                       │
 *                  search.c: own, ready ─► steal.c: a donor's, behind a wait
 *                      │ nothing fits   └► grow.c: more memory, idle memory moved
 *                      ▼
 *                  heap.h (one lock) ◄── fence.c: epochs become events, events become "done"
 *                      ▼
 *                  pages.h: VMM, or segments of an upstream
 *
 * Locks, in the order they may be taken: a stream that was opened, `growth`, `lock`, a
 * magazine. No driver call is made under `lock` or in a magazine, so a hit waits for none.
 */
#ifndef TARN_POOL_INTERNAL_H
#define TARN_POOL_INTERNAL_H

#include "driver/opened.h"
#include "resource/pool/heap.h"
#include "resource/pool/magazine.h"
#include "resource/pool/mutations.h"
#include "resource/pool/pages.h"

/* Why hits are off: bits of the gate. */
enum {
    TARN__GATE_ASLEEP = 1,
    TARN__GATE_OVER = 2 /* the context died, or the device is lost */
};

/* Out-of-memory callbacks; pressure.c. Under the lock of hooks (base/hook.h). */
struct tarn__pressures {
    struct tarn__pressure *first;
    uint64_t last_number;
};

struct tarn__pool {
    tarn_resource *resource; /* the object around this; set once, not retained */
    int device;
    uint64_t serial;    /* never given twice in a process */
    uint64_t life;      /* of the context that the pool lives in */
    CUcontext_ context; /* the device's primary one */
    const struct tarn__calls *calls;
    tarn_pool_options options;
    size_t least_bytes; /* that a block takes: of a slab all that it has; of a pool 0 */
    size_t most_bytes;  /* that a request may have */
    uint64_t device_bytes; /* that the device has in all */
    struct tarn__pages *pages;
    _Atomic unsigned gate;
    atomic_bool over_limit; /* the limit was lowered, and not all of it could go yet */

    pthread_mutex_t growth;    /* one change of the pages at a time; no hit needs it */
    _Atomic(pthread_t) grower; /* the thread that has `growth`; 0: none */
    /* One barrier at a time: what a second one closes is not covered by the first. Taken
     * behind `growth`, before `lock`. */
    pthread_mutex_t barrier;

    struct tarn__pressures pressures;

    struct tarn__lock lock; /* guards all from here on */
    struct tarn__heap heap;
    uint64_t limit; /* UINT64_MAX: none */
    struct tarn__magazine *magazines;
    uint64_t parked_granted;      /* sum of what the magazines may hold */
    struct tarn__pace misses_ask; /* about fences */
    bool is_shared; /* a search found nothing while another stream had free memory */
    struct tarn__counts counts; /* of what no magazine counted */
    uint64_t poll_round; /* lanes of which no fence was asked in it are asked next */
    uint64_t own, ready, steals, grown, waits, fences, queries, growths, shrinks, moves,
        barriers, failures, peak_allocated, peak_reserved, generation;
    struct tarn__old *olds; /* old.c; under `growth` */
    size_t old_count, old_room;
    struct tarn__captures *captures; /* NULL until the first; capture.c */
    struct tarn__pool *next;         /* in the list of pools; under its lock */
};

/* Take and leave `growth`. False, and TARN_REENTRANT_CALL as the last failure: this thread has
 * it, so its upstream, which is called under it, has called the pool. */
bool tarn__growth_take(struct tarn__pool *pool);
void tarn__growth_leave(struct tarn__pool *pool);

/* --- caller.c: one call's stream, resolved --- */

struct tarn__caller {
    struct tarn__pool *pool;
    tarn_stream stream;      /* as it came */
    CUstream_ handle;        /* good while the call runs */
    struct tarn__lane *lane; /* a user of it until the end */
    struct tarn__scope scope;
    bool capturing;              /* no wait, no fence, no magazine */
    bool may_record;             /* a record or a wait on the stream does no harm */
    struct tarn__opened *opened; /* or NULL */
    uint64_t capture_id;         /* while it captures; 0: the driver cannot say */
    CUgraph_ capture_graph;      /* that it captures into, or NULL */
    unsigned capture_slot;       /* 0: none, or the capture is lost */
    bool is_lost;                /* the capture, so that nothing of it will run */
    unsigned callbacks;          /* that were called for its request */
};

/* Enter the pool's context and find the stream's lane; TARN_INVALID_ARGUMENT for a stream
 * of another context or one that was closed. */
tarn_status tarn__caller_begin(struct tarn__pool *pool, tarn_stream stream,
                               struct tarn__caller *out);
void tarn__caller_end(struct tarn__caller *caller);

/* What the pool may have at most: its limit, or what the device has. `lock` held. */
static inline uint64_t tarn__capacity(const struct tarn__pool *pool)
{
    return pool->limit < pool->device_bytes ? pool->limit : pool->device_bytes;
}

/* --- fence.c --- */

/* Fence what the caller's stream freed, where it is time to. Takes and leaves `lock`. */
void tarn__fence_if_due(struct tarn__caller *caller);
/* Whether it is time or not, if there is anything: what is done then can move. */
void tarn__fence_own(struct tarn__caller *caller);
/* Fence the lane of nobody, which has a user: an event behind all work of the
 * context. */
void tarn__fence_nobodys(struct tarn__pool *pool, const struct tarn__scope *scope,
                         struct tarn__lane *lane);
/* Is it time? `lock` held. */
bool tarn__fence_is_due(const struct tarn__pool *pool, const struct tarn__lane *lane);
/* Would a free of `bytes` in the lane make none due? `lock` held. */
bool tarn__fence_can_wait(const struct tarn__pool *pool, const struct tarn__lane *lane,
                          uint64_t bytes);
/* An opened stream is being closed: fence what it freed, and forget its handle. */
void tarn__fence_last(struct tarn__pool *pool, tarn_stream stream,
                      struct tarn__opened *opened);
/* Ask the driver which fences are done, up to `most` of them, and make what they cover
 * ready. True: something became ready. Takes and leaves `lock`. */
bool tarn__fences_poll(struct tarn__pool *pool, unsigned most);
/* The same of each lane, as far as it is done. */
bool tarn__fences_poll_all(struct tarn__pool *pool);
/* Fence the free memory of streams that are open, which needs no caller of theirs, and have
 * the others do so at their next call. */
void tarn__fences_ask(struct tarn__pool *pool, const struct tarn__caller *caller);
/* Wait for the device, and make all that was free ready. */
tarn_status tarn__fences_barrier(struct tarn__pool *pool);
/* The same where the caller holds the lock of barriers. */
tarn_status tarn__fences_barrier_locked(struct tarn__pool *pool);
/* Create or take an event, in a scope. NULL: the driver has none. */
CUevent_ tarn__fence_event(struct tarn__pool *pool, const struct tarn__scope *scope);

/* --- ended.c --- */

/* The stream of `lane` has ended: close its magazines, and move what no fence covers
 * to the lane TARN__KEY_LEFT. `lock` held, and given up between. */
void tarn__stream_ended(struct tarn__pool *pool, struct tarn__lane *lane);

/* --- streamless.c: what was freed without a stream, or left by one that has ended --- */

/* Free bytes that are held back because no stream was named at their free. `lock` held. */
uint64_t tarn__streamless_bytes(const struct tarn__pool *pool);
/* Make them ready where so many are held back that a search for `request` should not grow
 * instead (NULL: where there are any). True: something became ready. Takes and leaves
 * `lock`. */
bool tarn__streamless_settle(struct tarn__pool *pool,
                             const struct tarn__request *request);
/* A block of `granules` was freed without a stream: is it time for an event? `lock` held. */
bool tarn__streamless_is_due(const struct tarn__pool *pool, uint32_t granules);
/* Have an event recorded behind all work, if no capture is known that would end by it.
 * Takes and leaves `lock`. */
void tarn__streamless_fence(struct tarn__pool *pool);

/* --- search.c --- */

/* The slow path of an allocation: a block that is MOVING, or a failure in words. */
tarn_status tarn__search(struct tarn__caller *caller, const struct tarn__request *request,
                         uint64_t asked, tarn__index *out);
/* Own and ready blocks alone, `lock` held. */
tarn__index tarn__search_at_hand(struct tarn__caller *caller,
                                 const struct tarn__request *request);

/* --- pressure.c --- */

void tarn__pressures_free(struct tarn__pressures *all);

/* How far a request came with the callbacks; zeros at first. */
struct tarn__turn {
    uint64_t number;  /* of the callback whose turn it is */
    unsigned attempt; /* calls of it so far */
    unsigned calls;   /* of all, for this request */
};

/* Call the callbacks in their order, from the turn on, until one says that it freed something
 * for a request of `bytes`. False: none did, or there were as many calls as one request may
 * make. No lock is held. */
bool tarn__pressure_ask(struct tarn__pool *pool, uint64_t bytes, struct tarn__turn *turn);

/* --- steal.c --- */
tarn__index tarn__steal(struct tarn__caller *caller, const struct tarn__request *request);
/* Neighbours of several streams, behind a wait for each. */
tarn__index tarn__steal_run(struct tarn__caller *caller,
                            const struct tarn__request *request);

/* --- gather.c --- */

/* Of what is free in whole handles too little can move for the request (tarn__gap_find()):
 * make handles that lie in pieces of several streams the caller's, behind a wait for each
 * stream. True: some are, of its open epoch. `growth` held. */
bool tarn__gather(struct tarn__caller *caller, const struct tarn__request *request);

/* --- grow.c --- */

/* Grow for the request and take it; with VMM, what is idle moves there first, and only what
 * is missing is new. TARN_OUT_OF_MEMORY: the limit, or upstream has none. `growth` held. */
tarn_status tarn__grow(struct tarn__caller *caller, const struct tarn__request *request,
                       tarn__index *out);
/* Give idle memory back while more than `keep` bytes are free. `growth` held. */
tarn_status tarn__shrink(struct tarn__pool *pool, uint64_t keep, uint64_t *released_out);
/* Leave old places that no queued work uses any more. `growth` held. */
void tarn__old_leave(struct tarn__pool *pool);
/* The device is idle: leave all of them. `growth` held. */
void tarn__old_leave_all(struct tarn__pool *pool);
/* Map `bytes` from the start. */
tarn_status tarn__grow_by(struct tarn__pool *pool, uint64_t bytes);
void tarn__note_peaks(struct tarn__pool *pool);

/* --- report.c --- */
void tarn__report_fill(struct tarn__caller *caller, uint64_t wanted, uint64_t alignment,
                       unsigned attempts, const tarn_error *upstream,
                       tarn_pool_oom_report *out);
/* TARN_OUT_OF_MEMORY in a line; the report is kept for the thread. */
tarn_status tarn__report_refuse(const tarn_pool_oom_report *report);

/* --- capture.c --- */

/* The lane of a capturing stream's memory; NULL: no host memory. `lock` held. */
struct tarn__lane *tarn__capture_lane(struct tarn__caller *caller);
/* Have the graph say when it is gone, if that was not done yet. */
void tarn__capture_tie(const struct tarn__caller *caller);
/* A block goes out to a caller that captures. `lock` held. */
void tarn__capture_note(struct tarn__caller *caller, struct tarn__node *node);
/* Where a block goes that is freed by a capturing caller, or belongs to a capture, of which
 * it is no more a part then. `lock` held. */
struct tarn__lane *tarn__capture_lane_for(struct tarn__caller *caller,
                                          const struct tarn__node *node);
/* The caller's call ends. `lock` held. */
void tarn__capture_leave(struct tarn__caller *caller);
size_t tarn__captures_metadata(const struct tarn__pool *pool);
/* Let go of the memory of graphs that are gone. `lock` held. */
void tarn__captures_collect(struct tarn__pool *pool);
/* Has any graph memory of the pool, or may a capture that got some still go on? `lock` held. */
bool tarn__captures_any(const struct tarn__pool *pool);
void tarn__captures_free(struct tarn__pool *pool);

/* --- pool.c --- */

extern const tarn_resource_ops tarn__pool_ops;
tarn_status tarn__pool_of(tarn_resource *resource, const char *who,
                          struct tarn__pool **out);
tarn_status tarn__pool_gone(struct tarn__pool *pool);
/* Is it over with the pool, its context or the process? No driver call is started then. */
bool tarn__pool_is_over(const struct tarn__pool *pool);
/* The same, with a look at whether the context was reset since. Its streams and events are
 * gone then, and must not be given to the driver: it may crash. */
bool tarn__pool_check_context(struct tarn__pool *pool);
/* Does it give back what is free, over a threshold or a limit that was lowered? */
bool tarn__pool_gives_back(const struct tarn__pool *pool);
void tarn__pool_check(struct tarn__pool *pool); /* debug builds: `lock` held */

/* --- make.c --- */

/* Make a pool, or with `block_bytes` a slab: every block takes that much and serves any
 * request of up to that; options in bytes, as a pool's. */
tarn_status tarn__pool_make(int device, tarn_resource *upstream,
                            const tarn_pool_options *options, size_t block_bytes,
                            tarn_resource **out);
/* Nobody uses it any more. */
void tarn__pool_destroy(void *self);

static inline void tarn__pool_lock(struct tarn__pool *pool)
{
    tarn__lock_take(&pool->lock);
}

/* For questions. In a forked child the lock may be held by a thread that is not there, and at
 * exit by one that never comes back: then it is not had. */
bool tarn__pool_lock_if_possible(struct tarn__pool *pool);

static inline void tarn__pool_unlock(struct tarn__pool *pool)
{
#ifdef TARN_DEBUG
    tarn__pool_check(pool);
#endif
    tarn__lock_leave(&pool->lock);
}

#endif
