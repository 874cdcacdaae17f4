/* pool.h -- a pool from the inside: what its files share.
 *
 *     allocate ──► magazine.c (thread cache) ────hit────► block
 *                      │ miss                  ▲ frees
 *                      ▼                       │
 *                  search.c: own, ready ─► steal.c: another stream's, after a wait
 *                      │ nothing fits   └► grow.c: more memory, idle memory moved
 *                      ▼
 *                  heap.h (one lock) ◄── fence.c: epochs get events, events complete
 *                      ▼
 *                  pages.h: VMM, or segments of an upstream
 *
 * Terms in the code: `magazine` is a thread cache, `lane` the state of one stream,
 * and `granule` the allocation quantum. `own` is a same-stream free, and `ready` a
 * completed free: the device has finished with it.
 *
 * Locks, in the order they may be taken: a registered stream, `growth`, `lock`, a thread
 * cache. No driver call is made under `lock` or in a thread cache, so a cache hit waits
 * for none.
 */
#ifndef TARN_POOL_INTERNAL_H
#define TARN_POOL_INTERNAL_H

#include "driver/opened.h"
#include "pool/blocks/check.h"
#include "pool/blocks/ranges.h"
#include "pool/blocks/runs.h"
#include "pool/cache/thread_cache.h"
#include "pool/mutations.h"
#include "pool/backing/pages.h"
#include "pool/order/epoch.h"
#include "pool/order/events.h"
#include "pool/order/identity.h"

/* Reasons why cache hits are off: bits of the lifecycle state (`gate`). */
enum {
    TARN__POOL_SUSPENDED = 1,
    TARN__POOL_ENDED = 2 /* the context was destroyed, or the device is lost */
};

/* Out-of-memory callbacks (pressure.c), under the lock of hooks (base/hook.h). */
struct tarn__oom_hooks {
    struct tarn__oom_hook *first;
    uint64_t last_number;
};

struct tarn__pool {
    tarn_resource *resource; /* the resource of this pool; set once, not retained */
    int device;
    uint64_t serial;             /* unique in the process */
    uint64_t context_generation; /* generation of the context that the pool lives in */
    CUcontext_ context;          /* the device's primary one */
    const struct tarn__calls *calls;
    tarn_pool_options options;
    size_t least_bytes;    /* of a block: in a slab the whole block; in a pool 0 */
    size_t most_bytes;     /* of a request */
    uint64_t device_bytes; /* all memory of the device; UINT64_MAX: not known */
    struct tarn__pages *pages;
    _Atomic unsigned lifecycle;
    atomic_bool over_limit; /* the limit was lowered, and the pool still exceeds it */

    /* one change of the pages at a time; no cache hit needs it */
    pthread_mutex_t growth;
    _Atomic(pthread_t) grower; /* the thread that has `growth`; 0: none */
    /* One device-wide wait at a time: the first does not cover epochs that a second one
     * closes. Taken after `growth`, before `lock`. */
    pthread_mutex_t device_wait;

    struct tarn__oom_hooks oom_hooks;

    struct tarn__lock lock; /* guards all fields from here on */
    struct tarn__heap heap;
    uint64_t limit; /* UINT64_MAX: none */
    struct tarn__thread_cache *caches;
    uint64_t granted_bytes;            /* sum of the bytes granted to the thread caches */
    struct tarn__backoff miss_backoff; /* back-off of queries about event fences */
    bool is_shared; /* a search found nothing while another stream had free memory */
    struct tarn__counts counts; /* operations that no thread cache counted */
    /* lanes without a query of an event fence in this round are queried next */
    uint64_t poll_round;
    uint64_t same_stream, completed, steals, grown, waits, fences, queries, growths,
        shrinks, moves, device_waits, failures, peak_allocated, peak_reserved, generation;
    struct tarn__retired *retired; /* old.c; under `growth` */
    size_t retired_count, retired_capacity;
    struct tarn__captures *captures; /* NULL until the first; capture.c */
    struct tarn__pool *next;         /* in the list of pools; under its lock */
};

/* Take and release `growth`. TARN_REENTRANT_CALL: this thread has it, so its upstream, which
 * is called under it, has called the pool. */
tarn_status tarn__growth_take(struct tarn__pool *pool);
void tarn__growth_leave(struct tarn__pool *pool);

/* --- caller.c: stream resolution of one call --- */

struct tarn__caller {
    struct tarn__pool *pool;
    tarn_stream stream;                      /* as passed */
    CUstream_ handle;                        /* valid while the call runs */
    struct tarn__stream_state *stream_state; /* the call is a user of it until its end */
    struct tarn__scope scope;
    bool capturing;  /* no wait, no event fence, no thread cache */
    bool may_record; /* recording or waiting on the stream ends no capture */
    struct tarn__registration *registration; /* or NULL */
    uint64_t capture_id;    /* while it captures; 0: the driver cannot tell */
    CUgraph_ capture_graph; /* the graph that it captures into, or NULL */
    unsigned capture_slot;  /* 0: none, or the capture is lost */
    /* the capture was invalidated, so that none of its work will run */
    bool is_lost;
    unsigned callbacks; /* calls of callbacks for its request */
};

/* Enter the pool's context and find the stream's lane. Returns TARN_INVALID_ARGUMENT for
 * a stream of another context, or one that was unregistered. */
tarn_status tarn__caller_begin(struct tarn__pool *pool, tarn_stream stream,
                               struct tarn__caller *out);
void tarn__caller_end(struct tarn__caller *caller);

/* Return the most that the pool may have: its limit, or the device's memory. `lock`
 * held. */
static inline uint64_t tarn__pool_maximum(const struct tarn__pool *pool)
{
    return pool->limit < pool->device_bytes ? pool->limit : pool->device_bytes;
}

/* --- fence.c --- */

/* Fence the frees of the caller's stream, if that is due. Takes and releases `lock`. */
void tarn__fence_if_due(struct tarn__caller *caller);
/* Fence them whether due or not, if there are any: completed memory can move. */
void tarn__fence_same_stream(struct tarn__caller *caller);
/* Fence the no-stream lane (TARN__KEY_NO_STREAM), which has a user: with an event behind all
 * work of the context. */
void tarn__fence_no_stream(struct tarn__pool *pool, const struct tarn__scope *scope,
                           struct tarn__stream_state *stream_state);
/* Return true if an event fence is due. `lock` held. */
bool tarn__fence_is_due(const struct tarn__pool *pool,
                        const struct tarn__stream_state *stream_state);
/* Return true if a free of `bytes` in the lane would make no event fence due. `lock`
 * held. */
bool tarn__fence_can_wait(const struct tarn__pool *pool,
                          const struct tarn__stream_state *stream_state, uint64_t bytes);
/* Fence the frees of a registered stream, and drop its handle: it is being
 * unregistered. */
void tarn__fence_last(struct tarn__pool *pool, tarn_stream stream,
                      struct tarn__registration *registration);
/* Query the driver which event fences are complete, up to `most` of them, and make the
 * frees they cover completed. Returns true if any became completed. Takes and releases
 * `lock`. */
bool tarn__fences_poll(struct tarn__pool *pool, unsigned most);
/* Do the same for each lane, as far as its event fences are complete. */
bool tarn__fences_poll_all(struct tarn__pool *pool);
/* Fence the free memory of registered streams, which needs no call on them. Have the
 * other streams fence theirs at their next call. */
void tarn__fences_request(struct tarn__pool *pool, const struct tarn__caller *caller);
/* Wait for the device, and make all free memory completed. */
tarn_status tarn__fences_wait_for_device(struct tarn__pool *pool);
/* Do the same where the caller holds the lock `barrier`. */
tarn_status tarn__fences_wait_for_device_locked(struct tarn__pool *pool);
/* Create an event or reuse one, in a scope. NULL: the driver has none. */
CUevent_ tarn__fence_event(struct tarn__pool *pool, const struct tarn__scope *scope);

/* --- ended.c --- */

/* Close the thread caches of `lane`, whose stream has ended, and move its unfenced frees
 * to the lane TARN__KEY_ORPHANED. `lock` held, and released in between. */
void tarn__stream_ended(struct tarn__pool *pool, struct tarn__stream_state *stream_state);

/* --- streamless.c: no-stream frees, and the unfenced frees of streams that have ended
 * --- */

/* Return the free bytes that are deferred because they were freed without a stream.
 * `lock` held. */
uint64_t tarn__no_stream_bytes(const struct tarn__pool *pool);
/* Complete the deferred frees, if there are so many that a search for `request` should
 * not grow instead (NULL: if there are any). Returns true if any became completed. Takes
 * and releases `lock`. */
bool tarn__no_stream_complete(struct tarn__pool *pool,
                              const struct tarn__request *request);
/* Return true if an event is due after a no-stream free of `granules`. `lock` held. */
bool tarn__no_stream_fence_is_due(const struct tarn__pool *pool, uint32_t quanta);
/* Record an event behind all work, unless that would end a known capture. Takes and
 * releases `lock`. */
void tarn__no_stream_fence(struct tarn__pool *pool);

/* --- search.c --- */

/* Allocate on the slow path: a block that is in transit (MOVING), or a failure with a
 * message. */
tarn_status tarn__search(struct tarn__caller *caller, const struct tarn__request *request,
                         uint64_t asked, tarn__index *out);
/* Search the same-stream frees and the completed frees alone. `lock` held. */
tarn__index tarn__search_available(struct tarn__caller *caller,
                                   const struct tarn__request *request);

/* --- pressure.c --- */

void tarn__oom_hooks_free(struct tarn__oom_hooks *all);

/* The progress of a request through the callbacks; zeros at first. */
struct tarn__oom_progress {
    uint64_t number;  /* number of the next callback */
    unsigned attempt; /* calls of this callback so far */
    unsigned calls;   /* calls of all callbacks for this request */
};

/* Call the callbacks in their order, from `turn` on, until one reports that it freed
 * memory for a request of `bytes`. Returns false if none did, or if the calls reached the
 * bound of one request. No lock is held. */
bool tarn__oom_hooks_call(struct tarn__pool *pool, uint64_t bytes,
                          struct tarn__oom_progress *turn);

/* --- steal.c --- */
tarn__index tarn__steal(struct tarn__caller *caller, const struct tarn__request *request);
/* Take adjacent blocks of several streams, after a wait for each stream. */
tarn__index tarn__steal_run(struct tarn__caller *caller,
                            const struct tarn__request *request);

/* --- gather.c --- */

/* Assemble memory of several streams where too little of the free whole handles can move
 * for the request (tarn__placement_find()). It makes handles that lie in pieces of several
 * streams the caller's, after a wait for each stream. Returns true if there are some, in
 * the open epoch of the caller's lane. `growth` held. */
bool tarn__assemble(struct tarn__caller *caller, const struct tarn__request *request);

/* --- grow.c --- */

/* Grow for the request and take it. With VMM, reclaimable memory moves there first, and
 * only the missing part is new. TARN_OUT_OF_MEMORY: the limit is reached, or the upstream
 * has none. `growth` held. */
tarn_status tarn__grow(struct tarn__caller *caller, const struct tarn__request *request,
                       tarn__index *out);
/* Release reclaimable memory while more than `keep` bytes are free. `growth` held. */
tarn_status tarn__shrink(struct tarn__pool *pool, uint64_t keep, uint64_t *released_out);
/* Unmap the retired mappings that no queued work uses any more. `growth` held. */
void tarn__retired_unmap_completed(struct tarn__pool *pool);
/* Unmap all retired mappings; the device is idle. `growth` held. */
void tarn__retired_unmap_all(struct tarn__pool *pool);
/* Map `bytes` when the pool is created. */
tarn_status tarn__grow_by(struct tarn__pool *pool, uint64_t bytes);
void tarn__note_peaks(struct tarn__pool *pool);

/* --- report.c --- */
void tarn__report_fill(struct tarn__caller *caller, uint64_t wanted, uint64_t alignment,
                       unsigned attempts, const tarn_error *upstream,
                       tarn_pool_oom_report *out);
/* Fail with TARN_OUT_OF_MEMORY and a one-line message; the report is kept for the
 * thread. */
tarn_status tarn__report_fail(const tarn_pool_oom_report *report);

/* --- capture.c --- */

/* Return the lane of a capturing stream's memory; NULL: no host memory. `lock` held. */
struct tarn__stream_state *tarn__capture_state(struct tarn__caller *caller);
/* Have the graph notify the pool when it is destroyed, if that was not arranged yet. */
void tarn__capture_tie(const struct tarn__caller *caller);
/* Note that a block becomes live for a caller that captures. `lock` held. */
void tarn__capture_note(struct tarn__caller *caller, struct tarn__node *node);
/* Return the lane that a free goes to when the caller captures, or the block belongs to a
 * capture. The block then belongs to the capture no longer. `lock` held. */
struct tarn__stream_state *tarn__capture_state_for_free(struct tarn__caller *caller,
                                                        const struct tarn__node *node);
/* End the caller's call. `lock` held. */
void tarn__capture_leave(struct tarn__caller *caller);
size_t tarn__captures_metadata(const struct tarn__pool *pool);
/* Release the memory of destroyed graphs. `lock` held. */
void tarn__captures_collect(struct tarn__pool *pool);
/* Return true if any graph has memory of the pool, or a capture that got some may still
 * go on. `lock` held. */
bool tarn__captures_any(const struct tarn__pool *pool);
void tarn__captures_free(struct tarn__pool *pool);

/* --- pool.c --- */

extern const tarn_resource_ops tarn__pool_ops;
tarn_status tarn__pool_of(tarn_resource *resource, const char *component,
                          struct tarn__pool **out);
tarn_status tarn__pool_fail_ended(struct tarn__pool *pool);
/* Return true if the pool, its context or the process has ended. No driver call is
 * started then. */
bool tarn__pool_has_ended(const struct tarn__pool *pool);
/* Do the same, and check whether the context was reset since. Its streams and events are
 * gone then, and must not be passed to the driver: it may crash. */
bool tarn__pool_check_context(struct tarn__pool *pool);
/* Return true if the pool releases free memory above a threshold or a lowered limit. */
bool tarn__pool_releases_memory(const struct tarn__pool *pool);
/* Destroy a pool that no caller uses any more. */
void tarn__pool_destroy(void *self);

static inline void tarn__pool_lock(struct tarn__pool *pool)
{
    tarn__lock_take(&pool->lock);
}

/* Try to take the lock, for queries. Returns false if the lock will never be released. In
 * a forked child a thread may hold it that does not exist there. At exit a thread may
 * hold it that never runs again. */
bool tarn__pool_lock_if_possible(struct tarn__pool *pool);

static inline void tarn__pool_unlock(struct tarn__pool *pool)
{
#ifdef TARN_DEBUG
    tarn__check_or_abort(&pool->heap, pool->device);
#endif
    tarn__lock_leave(&pool->lock);
}

#endif
