/* lane.h -- what the pool knows of one stream: its free memory, its epochs, its fences.
 *
 * A lane is named by the stream's id, which the driver never gives twice; a handle comes
 * back at once when its stream is destroyed. What is freed on a stream gets the lane's
 * open epoch. A fence closes the epoch and is an event on the stream: once it is
 * recorded, all that was freed in this epoch and before can be had by other streams,
 * behind a wait for the event; once it is done, by anybody.
 *
 * A stream has ended once its handle names a stream with another id. Nobody can fence it
 * any more: what it freed without a fence moves to the lane TARN__KEY_LEFT (ended.c). Its
 * own lane stays until the last fenced block is ready or another stream's. All of it is
 * under the heap's lock.
 */
#ifndef TARN_POOL_LANE_H
#define TARN_POOL_LANE_H

#include "driver/driver.h"
#include "resource/pool/bins.h"

/* Keys of lanes that are no stream ids. Ids count up from 1. */
#define TARN__KEY_NOBODY UINT64_MAX          /* TARN_STREAM_NONE: in no order at all */
#define TARN__KEY_LEGACY (UINT64_MAX - 1)    /* 0 and 1: asking for the id can hurt */
#define TARN__KEY_LEFT (UINT64_MAX - 2)      /* of ended streams, captures: in no order */
#define TARN__KEY_CAPTURES (UINT64_MAX >> 1) /* above: lanes of captures, by a count */

struct tarn__fence {
    uint64_t epoch; /* covers what was freed in this epoch and before */
    CUevent_ event;
    unsigned pins; /* calls that use the event at the moment: it must not be recycled */
};

/* After a no the same question is left out once, then three times, seven and fifteen; after
 * a yes it is asked each time. */
struct tarn__pace {
    unsigned chosen, left; /* times that it is left out */
};

static inline bool tarn__pace_asks(struct tarn__pace *pace)
{
    bool asks = pace->left == 0;

    pace->left -= !asks;
    return asks;
}

static inline void tarn__pace_note(struct tarn__pace *pace, bool yes)
{
    pace->chosen = yes ? 0 : (2 * pace->chosen + 1) & 15;
    pace->left = pace->chosen;
}

/* May a stream that has nothing queued itself be behind other streams' work? A blocking one
 * is behind what the legacy stream has. */
enum tarn__lane_kind { TARN__KIND_UNKNOWN, TARN__KIND_BLOCKING, TARN__KIND_BY_ITSELF };

struct tarn__lane {
    tarn__index index;
    uint64_t key;
    CUstream_ handle;   /* of its stream, to compare alone: another stream may have it by
                           now; NULL: it has none of its own */
    tarn_stream opened; /* a value the stream was opened by, else 0 */

    struct tarn__bins bins;       /* its free blocks by size */
    tarn__index oldest, youngest; /* its free blocks by epoch */
    uint64_t free_bytes;

    uint64_t open_epoch;   /* of what is freed now; from 1 */
    uint64_t fenced_epoch; /* the youngest with a fence that is recorded */
    uint64_t done_epoch;   /* the youngest whose fence is done; <= fenced_epoch */
    uint64_t open_bytes;   /* free, of the open epoch */
    uint64_t
        closed_bytes; /* free, closed, but not fenced: its record is under way or failed */
    bool recording;   /* a thread is between closing and publishing */
    atomic_bool
        wanted;      /* another stream could use its memory: fence it soon. Hits read it
                              without the lock, and go the slow way */
    bool in_order;   /* what it freed it may have again; false for nobody and
                        what is left */
    bool is_capture; /* its memory waits for the owner of a graph, not for a fence */
    bool has_ended;  /* what is freed here goes to the lane TARN__KEY_LEFT */
    uint64_t barrier_epoch;     /* closed by the wait for the device that is under way */
    struct tarn__fence *fences; /* oldest first */
    size_t fence_count, fence_room;

    unsigned frees;    /* since the last fence */
    unsigned interval; /* frees between two fences: see fence.c */
    uint64_t misses;   /* of the pool, at the last fence */

    enum tarn__lane_kind kind;
    struct tarn__pace idle; /* of asking whether the stream is idle, by fences */
    struct tarn__pace done; /* of asking whether its oldest fence is done, by rounds */

    uint64_t asked_round; /* of the pool: the last in which its oldest fence was asked */

    unsigned users; /* magazines, captures and calls that hold its index */
    tarn__index next_with_memory, previous_with_memory; /* lanes with free blocks */
    tarn__index next_unused;
};

/* Bytes that no fence covers. */
static inline uint64_t tarn__lane_unfenced(const struct tarn__lane *lane)
{
    return lane->open_bytes + lane->closed_bytes;
}

/* May the stream of `lane` have this block without a wait? NULL: no stream. */
static inline bool tarn__lane_may_have(const struct tarn__lane *lane,
                                       const struct tarn__node *node)
{
    return tarn__node_state(node) == TARN__FREE &&
           (node->lane == 0 || (lane && lane->in_order && node->lane == lane->index));
}

/* Is this block of the lane's behind a fence that is published? */
static inline bool tarn__lane_has_fenced(const struct tarn__lane *lane,
                                         const struct tarn__node *node)
{
    return lane->fence_count > 0 && !lane->is_capture &&
           node->epoch <= lane->fences[lane->fence_count - 1].epoch;
}

#endif
