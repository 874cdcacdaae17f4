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
#include "pool/blocks/bins.h"

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

/* Does the work of other streams order a stream that has nothing queued itself? The
 * legacy stream's work orders a blocking one. */
enum tarn__stream_kind {
    TARN__KIND_UNKNOWN,
    TARN__KIND_BLOCKING,
    TARN__KIND_NON_BLOCKING
};

struct tarn__stream_state {
    tarn__index index;
    uint64_t key;
    /* Handle of its stream, for comparison alone: another stream may have it by now.
     * NULL: the stream has no handle of its own. */
    struct CUstream_st *handle;
    /* the value of the registered stream (tarn_stream_register()); NULL: a raw stream.
     * The table's entry for it is a struct tarn__registration. */
    struct tarn__stream *registration;

    struct tarn__bins bins;       /* its free blocks by size */
    tarn__index oldest, youngest; /* its free blocks by epoch */
    uint64_t free_bytes;

    uint64_t open_epoch;   /* of the memory freed now; from 1 */
    uint64_t fenced_epoch; /* the youngest with an event fence, or complete without one */
    uint64_t done_epoch;   /* the youngest that is complete; <= fenced_epoch */
    uint64_t open_bytes;   /* free, of the open epoch */
    /* free, closed, but not fenced: its record is under way or failed */
    uint64_t closed_bytes;
    /* a thread is between closing an epoch and publishing its event fence */
    bool recording;
    /* Another stream could use its memory: fence it soon. A cache hit reads this without
     * the lock, and takes the slow path. */
    atomic_bool wanted;
    /* the stream may reuse its own frees; false for no stream and for
     * TARN__KEY_ORPHANED */
    bool in_order;
    /* its memory waits for the owner of a graph, not for an event fence */
    bool is_capture;
    bool has_ended;             /* frees here go to the state TARN__KEY_ORPHANED */
    uint64_t device_wait_epoch; /* closed by the device-wide wait that is under way */
    struct tarn__fence *fences; /* oldest first */
    size_t fence_count, fence_capacity;

    unsigned frees;    /* since the last event fence */
    unsigned interval; /* frees until the next event fence is due: see fence.c */
    uint64_t misses;   /* the count `misses` of the heap, at the last event fence */

    enum tarn__stream_kind kind;
    /* back-off of the query whether the stream is idle: how many event fences to record
     * without it */
    struct tarn__backoff idle;
    /* back-off of the query whether its oldest event fence is complete: how many rounds
     * to skip */
    struct tarn__backoff done;

    /* number of the poll round in which its oldest event fence was last queried */
    uint64_t queried_round;

    /* number of thread caches, captures and calls that hold the stream state: it is not
     * deleted before all of them have left it */
    unsigned users;
    tarn__index next_with_memory, previous_with_memory; /* in the list of the heap */
    tarn__index next_unused;
    bool is_finished; /* it is in the heap's list `finished`, and is not deleted */
    tarn__index next_finished;
};

/* Return the bytes that no event fence covers. */
static inline uint64_t tarn__stream_state_unfenced(
    const struct tarn__stream_state *stream_state)
{
    return stream_state->open_bytes + stream_state->closed_bytes;
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
{
    return stream_state->fence_count > 0 && !stream_state->is_capture &&
           node->epoch <= stream_state->fences[stream_state->fence_count - 1].epoch;
}

#endif
