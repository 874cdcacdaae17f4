/* stream_state.h -- the state of one stream: its free memory, its epochs, its event
 * fences.
 *
 * The stream's id names the stream state, because the driver never reuses an id. It
 * reuses a handle as soon as the stream is destroyed. Memory freed on a stream gets the
 * stream state's open epoch. An event fence is a recorded event that closes the epoch.
 * (CUDA's fences order memory; this one orders streams.) Once the event is recorded,
 * other streams may use the frees of this epoch and of earlier ones. They wait for the
 * event first. Once the event is complete, any stream may use them without a wait.
 *
 * A stream has ended once its handle names a stream with another id. Such a stream cannot
 * be fenced any more: its unfenced frees move to the state TARN__KEY_ORPHANED
 * (cache/thread_cache.c). Its own stream state stays until the last fenced block is
 * completed or another stream's. The heap's lock guards all of it.
 *
 * The handles of the driver here are opaque: no file of this folder calls the driver.
 */
#ifndef TARN_POOL_STREAM_STATE_H
#define TARN_POOL_STREAM_STATE_H

#include "base/backoff.h"
#include "base/thread_safety.h"
#include "pool/blocks/bins.h"

TARN__LOCK_KIND(pool_lock); /* the lock of the pool: "the heap's lock" */

/* The key of a stream state names it in its pool. There are three ranges:
 *
 *     1 and more                  stream ids, which the driver counts up (cuStreamGetId)
 *     above TARN__KEY_CAPTURES    stream states of captures, which the pool counts up
 *     the three greatest          NO_STREAM, LEGACY and ORPHANED
 */
#define TARN__KEY_NO_STREAM UINT64_MAX /* TARN_STREAM_NONE: no order at all */
/* the legacy stream, handles 0 and 1: querying their id can invalidate a capture */
#define TARN__KEY_LEGACY (UINT64_MAX - 1)
#define TARN__KEY_ORPHANED (UINT64_MAX - 2) /* of ended streams and captures: no order */
#define TARN__KEY_CAPTURES (UINT64_MAX >> 1)

struct tarn__fence {
    uint64_t epoch; /* it covers the frees of this epoch and before */
    struct CUevent_st *event;
    unsigned pins; /* calls that use the event now: it must not be recycled */
};

/* A wait that a stream has made: its work from then on runs after the frees of the stream
 * state `source` up to `epoch`. */
struct tarn__wait {
    tarn__index source; /* 0: none */
    uint64_t epoch;
};

/* The waits that a stream state remembers: the last one of each source, by the index of
 * the source modulo TARN__WAITS. */
enum { TARN__WAITS = 32 };

/* Does the work of other streams order a stream that has nothing queued itself? The
 * legacy stream's work orders a blocking one. */
enum tarn__stream_kind {
    TARN__KIND_UNKNOWN,
    TARN__KIND_BLOCKING,
    TARN__KIND_NON_BLOCKING
};

/* The neighbours of a stream state in a list of the heap; 0: none. */
struct tarn__state_links {
    tarn__index next, previous;
    bool is_linked;
};

/* Which stream a stream state belongs to. */
struct tarn__state_identity {
    uint64_t key;
    /* Handle of its stream, for comparison alone: another stream may have it by now.
     * NULL: the stream has no handle of its own. */
    struct CUstream_st *handle;
    /* the value of the registered stream (tarn_stream_register()); NULL: a raw stream.
     * The table's entry for it is a struct tarn__registration. */
    struct tarn__stream *registration;
    enum tarn__stream_kind kind TARN__GUARDED_BY(pool_lock);
};

/* The free memory of a stream state. */
struct tarn__free_list {
    struct tarn__bins bins;       /* its blocks by size */
    tarn__index oldest, youngest; /* its blocks by epoch */
    uint64_t bytes TARN__GUARDED_BY(pool_lock);
    uint64_t open_bytes TARN__GUARDED_BY(pool_lock); /* of the open epoch */
    /* of closed epochs without an event fence: its record is under way or failed */
    uint64_t closed_bytes TARN__GUARDED_BY(pool_lock);
};

struct tarn__stream_state {
    tarn__index index;
    struct tarn__state_identity identity;
    struct tarn__free_list free;

    /* Of the memory freed now; from 1. It never decreases, not even when the state becomes
     * another stream's. So a remembered wait for it covers no later stream's frees. */
    uint64_t open_epoch TARN__GUARDED_BY(pool_lock);
    /* the youngest with an event fence, or complete without one */
    uint64_t fenced_epoch TARN__GUARDED_BY(pool_lock);
    /* the youngest that is complete; <= fenced_epoch */
    uint64_t done_epoch TARN__GUARDED_BY(pool_lock);
    /* a thread is between closing an epoch and publishing its event fence */
    bool recording TARN__GUARDED_BY(pool_lock);
    /* Another stream could use its memory: fence it soon. A cache hit reads this without
     * the lock, and takes the slow path. */
    atomic_bool wanted;
    /* the stream may reuse its own frees; false for no stream and for
     * TARN__KEY_ORPHANED */
    bool in_order;
    /* its memory waits for the owner of a graph, not for an event fence */
    bool is_capture;
    /* frees here go to the state TARN__KEY_ORPHANED */
    bool has_ended TARN__GUARDED_BY(pool_lock);
    /* closed by the device-wide wait that is under way */
    uint64_t device_wait_epoch TARN__GUARDED_BY(pool_lock);
    struct tarn__fence *fences TARN__GUARDED_BY(pool_lock); /* oldest first */
    size_t fence_count TARN__GUARDED_BY(pool_lock);
    size_t fence_capacity TARN__GUARDED_BY(pool_lock);
    /* the waits of its stream for others (order/wait_set.h) */
    struct tarn__wait waits[TARN__WAITS] TARN__GUARDED_BY(pool_lock);

    /* the pool's number of frees at its last one */
    uint64_t last_free TARN__GUARDED_BY(pool_lock);
    unsigned frees TARN__GUARDED_BY(pool_lock); /* since the last event fence */
    /* frees until the next event fence is due: see fence.c */
    unsigned interval TARN__GUARDED_BY(pool_lock);
    /* the count `misses` of the heap, at the last event fence */
    uint64_t misses TARN__GUARDED_BY(pool_lock);
    /* back-off of the query whether the stream is idle: how many event fences to record
     * without it */
    struct tarn__backoff idle;
    /* back-off of the query whether its oldest event fence is complete: how many rounds
     * to skip */
    struct tarn__backoff done;

    /* number of the poll round in which its oldest event fence was last queried */
    uint64_t queried_round TARN__GUARDED_BY(pool_lock);

    /* number of thread caches, captures and calls that hold the stream state: it is not
     * deleted before all of them have left it */
    unsigned users TARN__GUARDED_BY(pool_lock);
    /* list of its thread caches */
    struct tarn__thread_cache *caches TARN__GUARDED_BY(pool_lock);
    struct tarn__state_links with_memory, with_fences; /* in these lists of the heap */
    tarn__index next_unused;
    bool is_finished; /* it is in the heap's list `finished`, and is not deleted */
    tarn__index next_finished;
};

/* Return the bytes that no event fence covers. */
static inline uint64_t tarn__stream_state_unfenced(
    const struct tarn__stream_state *stream_state) TARN__REQUIRES(pool_lock)
{
    return stream_state->free.open_bytes + stream_state->free.closed_bytes;
}

/* Return true if the stream of `stream_state` may have this block without a wait. NULL:
 * no stream. */
static inline bool tarn__stream_state_may_use(
    const struct tarn__stream_state *stream_state, const struct tarn__node *node)
{
    return tarn__node_state(node) == TARN__FREE &&
           (node->stream_state == 0 || (stream_state && stream_state->in_order &&
                                        node->stream_state == stream_state->index));
}

/* Return true if a published event fence covers this block of the stream state. Another
 * stream can then take the block after a wait. This is the rule for every such use. */
static inline bool tarn__stream_state_has_fenced(
    const struct tarn__stream_state *stream_state, const struct tarn__node *node)
    TARN__REQUIRES(pool_lock)
{
    return stream_state->fence_count > 0 && !stream_state->is_capture &&
           node->epoch <= stream_state->fences[stream_state->fence_count - 1].epoch;
}

#endif
