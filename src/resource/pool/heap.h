/* heap.h -- all blocks of a pool by address: cut, joined, found and told apart.
 *
 * This is where the invariants about memory live:
 *   order    a block leaves for a stream only as its own, as ready, or through
 *            tarn__heap_find_donor(), whose caller waits for the fence that came with it
 *   fence    neighbours join only where the one that is made is covered by what covers
 *            each: both ready, or of one lane (then the younger epoch counts), or a ready
 *            one taken over by a lane; what is cut off keeps lane and epoch
 *   borders  `before` and `after` are 0 where another range begins
 *
 * The owner holds the heap's lock around every call. Nothing here calls the driver.
 */
#ifndef TARN_POOL_HEAP_H
#define TARN_POOL_HEAP_H

#include "base/map.h"
#include "resource/pool/addresses.h"
#include "resource/pool/lane.h"

enum { TARN__LANE_CHUNK = 8, TARN__LANE_CHUNKS = 1 << 16 };

struct tarn__heap {
    struct tarn__nodes nodes;
    struct tarn__addresses addresses;
    struct tarn__bins ready; /* lane 0: for anybody */
    struct tarn__bins holes; /* addresses without memory */
    uint64_t *starts;        /* first address of each segment, in no order */
    size_t segments, segment_room;

    struct tarn__lane *lanes[TARN__LANE_CHUNKS]; /* chunks of lanes, which never move */
    tarn__index lanes_made, unused_lane;
    size_t lane_count;
    struct tarn__map by_key;    /* lane's key -> its index */
    struct tarn__map by_handle; /* stream's handle -> index of the lane it names now */
    struct tarn__lane *left;    /* TARN__KEY_LEFT; NULL until it is needed */
    tarn__index with_memory;    /* list of lanes that have free blocks */
    size_t with_memory_count;

    CUevent_ *events; /* that nobody uses */
    size_t event_count, event_room;

    uint64_t free_bytes; /* of all lanes and the ready ones */
    uint64_t ready_bytes;
    uint64_t unfenced_bytes; /* of all lanes */
    uint64_t out_bytes;      /* live, parked and moving */
    uint64_t hole_bytes;
    uint64_t absorb_bytes; /* a fenced or ready neighbour of more than this is not joined
                                to what was just freed: it would lose its fence */
    size_t blocks;         /* nodes in use */
    uint64_t misses;       /* searches that found nothing at hand */
    size_t lane_metadata;
};

struct tarn__request {
    uint32_t granules;
    uint64_t alignment; /* a power of two */
};

void tarn__heap_init(struct tarn__heap *heap);
void tarn__heap_free(struct tarn__heap *heap);

/* --- lanes --- */

static inline struct tarn__lane *tarn__lane(const struct tarn__heap *heap,
                                            tarn__index index)
{
    return &heap->lanes[index / TARN__LANE_CHUNK][index % TARN__LANE_CHUNK];
}

/* May the stream of `lane` have this block, if need be behind a wait for the fence of another
 * stream's? */
static inline bool tarn__lane_may_wait_for(const struct tarn__heap *heap,
                                           const struct tarn__lane *lane,
                                           const struct tarn__node *node)
{
    return tarn__lane_may_have(lane, node) ||
           (tarn__node_state(node) == TARN__FREE && node->lane != 0 &&
            !(lane && node->lane == lane->index) &&
            tarn__lane_has_fenced(tarn__lane(heap, node->lane), node));
}

/* The lane of `key`, made where there is none; NULL: no host memory. */
struct tarn__lane *tarn__heap_lane(struct tarn__heap *heap, uint64_t key);
/* Lanes that have free blocks are in a list, for those who look for a donor. */
void tarn__lane_has_memory(struct tarn__heap *heap, struct tarn__lane *lane);
void tarn__lane_is_empty(struct tarn__heap *heap, struct tarn__lane *lane);
/* The lane of `key`, or NULL. */
struct tarn__lane *tarn__heap_known_lane(const struct tarn__heap *heap, uint64_t key);
/* Forget a lane that has no memory, no fences in use and no users; else leave it. */
void tarn__heap_forget_lane(struct tarn__heap *heap, struct tarn__lane *lane);
/* The lane TARN__KEY_LEFT, which stays from then on; NULL: no host memory. */
struct tarn__lane *tarn__heap_left(struct tarn__heap *heap);
/* Note that `handle`, which is not the lane's yet, names its stream. Returns the lane
 * of the stream that it named before; NULL: none. Without host memory nothing is
 * noted, and NULL. */
struct tarn__lane *tarn__heap_name_lane(struct tarn__heap *heap, struct tarn__lane *lane,
                                        CUstream_ handle);
/* Move up to `most` unfenced blocks of a lane that has ended to TARN__KEY_LEFT. True:
 * there are more. */
bool tarn__heap_leave_unfenced(struct tarn__heap *heap, struct tarn__lane *lane,
                               size_t most);
/* Streams that the pool knows, those of captures too: all lanes but TARN__KEY_NOBODY,
 * which every pool has, and TARN__KEY_LEFT. */
static inline size_t tarn__heap_streams(const struct tarn__heap *heap)
{
    return heap->lane_count - 1 - (heap->left != NULL);
}

/* --- memory comes and goes --- */

/* Enter fresh memory. `lane` NULL: ready; else it carries that lane's open epoch. Addresses
 * outside of multiples of the granule are cut off. A border on both sides. False: no host
 * memory. */
bool tarn__heap_add_segment(struct tarn__heap *heap, uint64_t address, uint64_t bytes,
                            struct tarn__lane *lane);
/* Enter a range of VMM, all of it a hole. */
bool tarn__heap_add_range(struct tarn__heap *heap, uint64_t address, uint64_t bytes);

/* Cut [address, address + bytes) out of the free or hole node that contains it, as a node
 * that is MOVING. 0: no host memory; nothing changed. */
tarn__index tarn__heap_carve(struct tarn__heap *heap, tarn__index index, uint64_t address,
                             uint64_t bytes);
/* A node that is MOVING becomes a hole, joined to holes beside it. */
void tarn__heap_make_hole(struct tarn__heap *heap, tarn__index index);
/* A node that is MOVING becomes OLD, and MOVING again. Counted as a hole. */
void tarn__heap_make_old(struct tarn__heap *heap, tarn__index index);
void tarn__heap_end_old(struct tarn__heap *heap, tarn__index index);
/* A node that is MOVING and covers a whole segment goes. */
void tarn__heap_drop_segment(struct tarn__heap *heap, tarn__index index);

/* Where a pool could grow so that a request fits, with `spare_bytes` more behind it. */
struct tarn__site {
    tarn__index hole; /* 0: no hole is large enough */
    uint64_t address; /* of the hole */
    uint64_t bytes;   /* needed from its start: less than the request where memory lies
                         before it that the lane may use */
    uint64_t from;    /* where that memory begins; `address`: there is none */
};
struct tarn__site tarn__heap_find_site(const struct tarn__heap *heap,
                                       const struct tarn__lane *lane,
                                       const struct tarn__request *request,
                                       uint64_t spare_bytes);

/* The hole that contains `address`, which was one a moment ago; or 0. */
tarn__index tarn__heap_hole_at(const struct tarn__heap *heap, uint64_t address);

/* --- blocks --- */

/* Best fit among the lane's own blocks and the ready ones (lane NULL, or one that is not in
 * order: ready alone), cut to size: MOVING, in nobody's bins. `*was_ready` says which. 0:
 * nothing fits; or no host memory, then `*no_memory`. */
tarn__index tarn__heap_take(struct tarn__heap *heap, struct tarn__lane *lane,
                            const struct tarn__request *request, bool *was_ready,
                            bool *no_memory);

/* Does the request fit into a free block of this node's place and size? */
bool tarn__request_fits(const struct tarn__request *request,
                        const struct tarn__node *node);
/* Cut a free block, which it fits into, to the request, and take it out. 0: no host
 * memory. */
tarn__index tarn__heap_cut(struct tarn__heap *heap, tarn__index index,
                           const struct tarn__request *request);
/* Take all of a free block or a hole out: MOVING. */
void tarn__heap_take_whole(struct tarn__heap *heap, tarn__index index);

/* Make one free block of `first` and what follows, up to `granules`: all ready, or some of
 * one lane, then the lane's, of the youngest epoch among them. */
void tarn__heap_join_neighbours(struct tarn__heap *heap, tarn__index first,
                                uint32_t granules);
/* `index` takes in its upper neighbour, which is out; neither is in a bin. */
void tarn__heap_swallow(struct tarn__heap *heap, tarn__index index);
/* The same where it is not out, so that it is not found by its address. */
void tarn__heap_take_in(struct tarn__heap *heap, tarn__index index);

/* --- runs.c --- */

/* Neighbours that touch, each free for the caller's stream or behind a published fence. */
enum { TARN__RUN_MAX = 64 };
struct tarn__run {
    tarn__index nodes[TARN__RUN_MAX]; /* by address, MOVING */
    tarn__index lanes[TARN__RUN_MAX]; /* whose each was; 0: ready */
    uint64_t epochs[TARN__RUN_MAX];
    size_t count; /* 0: there is no such run */
};

/* Take out neighbours that are large enough together, the last one cut to size. */
void tarn__heap_take_run(struct tarn__heap *heap, const struct tarn__lane *lane,
                         const struct tarn__request *request, struct tarn__run *out);
/* Every donor was waited for: make one block of the run, MOVING. */
tarn__index tarn__heap_weld(struct tarn__heap *heap, const struct tarn__run *run);
/* Give the pieces back to their lanes, of the open epochs now. */
void tarn__heap_put_run(struct tarn__heap *heap, const struct tarn__run *run);

/* Join neighbours that `lane` may use until one fits; false: none does. */
bool tarn__heap_join(struct tarn__heap *heap, struct tarn__lane *lane,
                     const struct tarn__request *request);

/* A block (MOVING, LIVE or PARKED) becomes free: in the lane's open epoch, or ready where
 * `lane` is NULL; joined to its neighbours as the rule says. */
void tarn__heap_put(struct tarn__heap *heap, tarn__index index, struct tarn__lane *lane);
/* A free block of a lane, whose last use is done, is ready. */
void tarn__heap_make_ready(struct tarn__heap *heap, tarn__index index);

/* A fenced block of another lane that fits, cut to size and taken out (MOVING); its lane in
 * `*donor`, and the number of the fence in its list that covers it in `*fence`. What is
 * cut off stays with the donor. 0: there is none. */
tarn__index tarn__heap_take_from_donor(struct tarn__heap *heap,
                                       const struct tarn__lane *lane,
                                       const struct tarn__request *request,
                                       struct tarn__lane **donor, size_t *fence);

/* Is any lane's memory done, but not ready yet? Make up to `most` blocks of them ready.
 * True: there are more. */
bool tarn__heap_sweep(struct tarn__heap *heap, size_t most);

/* Close the open epoch of every lane but those of captures, before a wait for the device. */
void tarn__heap_close_all(struct tarn__heap *heap);
/* The wait is over: all that was freed before it is ready. */
void tarn__heap_all_ready(struct tarn__heap *heap);

/* --- epochs --- */

/* Close the lane's open epoch and return it; no other record may be under way. */
uint64_t tarn__lane_close(struct tarn__heap *heap, struct tarn__lane *lane);
/* `event` was recorded after `epoch` was closed: publish it. False: no host memory, the
 * event stays the caller's and the epoch unfenced. */
bool tarn__lane_publish(struct tarn__heap *heap, struct tarn__lane *lane, uint64_t epoch,
                        CUevent_ event);
/* Use a fence's event, until it is unpinned: it is not recycled, and the lane stays. */
CUevent_ tarn__lane_pin(struct tarn__lane *lane, struct tarn__fence *fence);
void tarn__lane_unpin(struct tarn__lane *lane, CUevent_ event);
/* The place in the lane's list of the oldest fence that covers `epoch`. */
size_t tarn__lane_fence_for(const struct tarn__lane *lane, uint64_t epoch);
/* The fence of `epoch` is done: so are all before it. */
void tarn__lane_fence_done(struct tarn__heap *heap, struct tarn__lane *lane,
                           uint64_t epoch);

/* All that was freed up to `epoch`, which is closed, is done, fenced or not. */
void tarn__lane_settle(struct tarn__heap *heap, struct tarn__lane *lane, uint64_t epoch);

/* --- asking --- */

/* An event that nobody uses, or NULL. */
CUevent_ tarn__heap_event(struct tarn__heap *heap);
/* Keep an event for later. False: no host memory. */
bool tarn__heap_keep_event(struct tarn__heap *heap, CUevent_ event);

/* The pool ends: the events of all fences are nobody's. */
void tarn__heap_collect_events(struct tarn__heap *heap);

/* The node that starts at `address`, if it is out or the first of a segment; or 0. */
tarn__index tarn__heap_find(const struct tarn__heap *heap, uint64_t address);

/* Granules of the largest block that `lane` could have at once. */
uint32_t tarn__heap_largest(const struct tarn__heap *heap, const struct tarn__lane *lane);

/* check.c: NULL, or the words of the first invariant of the heap that does not hold. */
const char *tarn__heap_check(const struct tarn__heap *heap);

#endif
