/* heap.h -- all blocks of a pool by address: splitting, coalescing and looking up.
 *
 * This component keeps the invariants about memory.
 *
 *    order    A stream gets a block as a same-stream free or as a completed free.
 *             Another stream's block comes from tarn__heap_take_from_source() or from
 *             tarn__heap_take_run(). The caller waits for the event fences that cover it.
 *    fence    Two neighbours coalesce only where the result is covered by what covers
 *             each of them: both completed, or both of one lane (then the younger epoch
 *             counts), or a completed one that joins a lane. A split-off part keeps its
 *             lane and epoch.
 *    borders  `before` and `after` are 0 where another address range begins.
 *
 * Lane: the state of one stream (lane.h). The owner holds the heap's lock around every
 * call. Nothing here calls the driver.
 */
#ifndef TARN_POOL_HEAP_H
#define TARN_POOL_HEAP_H

#include "base/map.h"
#include "pool/blocks/addresses.h"
#include "pool/blocks/stream_state.h"

enum { TARN__STATE_CHUNK = 8, TARN__STATE_CHUNKS = 1 << 16 };

struct tarn__heap {
    struct tarn__nodes nodes;
    struct tarn__addresses addresses;
    struct tarn__bins completed; /* lane 0: completed frees, which any stream may use */
    struct tarn__bins unmapped;  /* address ranges without memory */
    uint64_t *starts;            /* first address of each segment, unsorted */
    size_t segments, segment_capacity;

    struct tarn__stream_state
        *stream_states[TARN__STATE_CHUNKS]; /* chunks of lanes, which never move */
    tarn__index states_made, unused_state;
    size_t state_count;
    struct tarn__map by_key;    /* key of a lane -> its index */
    struct tarn__map by_handle; /* stream handle -> index of the lane that it names now */
    struct tarn__stream_state *orphaned; /* TARN__KEY_ORPHANED; NULL until it is needed */
    tarn__index with_memory;             /* list of lanes that have free blocks */
    size_t with_memory_count;

    CUevent_ *events; /* unused events */
    size_t event_count, event_capacity;

    uint64_t free_bytes; /* of all lanes, and the completed frees */
    uint64_t completed_bytes;
    uint64_t unfenced_bytes;  /* of all lanes */
    uint64_t allocated_bytes; /* live, thread-cached and in transit (MOVING) */
    uint64_t unmapped_bytes;
    /* The pool does not coalesce a fenced or completed neighbour larger than this with a
     * new free: the neighbour would lose its event fence. */
    uint64_t absorb_bytes;
    size_t blocks;   /* nodes in use */
    uint64_t misses; /* searches that found nothing immediately available */
    size_t state_metadata;
};

struct tarn__request {
    uint32_t quanta;
    uint64_t alignment; /* a power of two */
};

void tarn__heap_init(struct tarn__heap *heap);
void tarn__heap_free(struct tarn__heap *heap);

/* --- lanes --- */

static inline struct tarn__stream_state *tarn__stream_state(const struct tarn__heap *heap,
                                                            tarn__index index)
{
    return &heap->stream_states[index / TARN__STATE_CHUNK][index % TARN__STATE_CHUNK];
}

/* Return true if the stream of `lane` may have this block, if necessary after a wait for
 * the event fence of another stream. */
static inline bool tarn__stream_state_may_use_after_wait(
    const struct tarn__heap *heap, const struct tarn__stream_state *stream_state,
    const struct tarn__node *node)
{
    return tarn__stream_state_may_use(stream_state, node) ||
           (tarn__node_state(node) == TARN__FREE && node->stream_state != 0 &&
            !(stream_state && node->stream_state == stream_state->index) &&
            tarn__stream_state_has_fenced(tarn__stream_state(heap, node->stream_state),
                                          node));
}

/* Return the lane of `key`, and create it if it does not exist; NULL: no host memory. */
struct tarn__stream_state *tarn__heap_stream_state(struct tarn__heap *heap, uint64_t key);
/* Enter a lane that has free blocks into the list that a search for a source stream
 * reads. */
void tarn__stream_state_link(struct tarn__heap *heap,
                             struct tarn__stream_state *stream_state);
void tarn__stream_state_unlink(struct tarn__heap *heap,
                               struct tarn__stream_state *stream_state);
/* Return the lane of `key`, or NULL. */
struct tarn__stream_state *tarn__heap_find_stream_state(const struct tarn__heap *heap,
                                                        uint64_t key);
/* Delete a lane that has no memory, no event fence in use and no users; leave any other
 * lane. */
void tarn__heap_delete_if_unused(struct tarn__heap *heap,
                                 struct tarn__stream_state *stream_state);
/* Return the lane TARN__KEY_ORPHANED, which stays from then on; NULL: no host memory. */
struct tarn__stream_state *tarn__heap_orphaned(struct tarn__heap *heap);
/* Note that `handle`, which is not the lane's yet, names its stream. Returns the lane of
 * the stream that the handle named before; NULL: none. Without host memory the call notes
 * nothing and returns NULL. */
struct tarn__stream_state *tarn__heap_bind_handle(struct tarn__heap *heap,
                                                  struct tarn__stream_state *stream_state,
                                                  CUstream_ handle);
/* Move up to `most` unfenced blocks of a lane whose stream has ended to TARN__KEY_ORPHANED.
 * Returns true if there are more. */
bool tarn__heap_orphan_unfenced(struct tarn__heap *heap,
                                struct tarn__stream_state *stream_state, size_t most);
/* Return the number of streams that the pool knows, those of captures included. These are
 * all lanes but TARN__KEY_NO_STREAM, which every pool has, and TARN__KEY_ORPHANED. */
static inline size_t tarn__heap_streams(const struct tarn__heap *heap)
{
    return heap->state_count - 1 - (heap->orphaned != NULL);
}

/* --- memory is added and removed --- */

/* Enter new memory. With `lane` NULL it is completed; else it carries that lane's open
 * epoch. The part of the addresses outside of multiples of the granule is cut off. Both
 * sides get a border. Returns false without host memory. */
bool tarn__heap_add_segment(struct tarn__heap *heap, uint64_t address, uint64_t bytes,
                            struct tarn__stream_state *stream_state);
/* Enter an address range of VMM, all of it unmapped (a hole). */
bool tarn__heap_add_range(struct tarn__heap *heap, uint64_t address, uint64_t bytes);

/* Split [address, address + bytes) out of the free or hole node that contains it, as a
 * node that is in transit (MOVING). Returns 0 without host memory; then nothing has
 * changed. */
tarn__index tarn__heap_split_range(struct tarn__heap *heap, tarn__index index,
                                   uint64_t address, uint64_t bytes);
/* Turn a node that is MOVING into a hole, coalesced with neighbouring holes. */
void tarn__heap_make_unmapped(struct tarn__heap *heap, tarn__index index);
/* Turn a node that is MOVING into OLD (a retired mapping); and back into MOVING. An OLD
 * node is counted as a hole. */
void tarn__heap_make_retired(struct tarn__heap *heap, tarn__index index);
void tarn__heap_end_retired(struct tarn__heap *heap, tarn__index index);
/* Remove a node that is MOVING and covers a whole segment. */
void tarn__heap_drop_segment(struct tarn__heap *heap, tarn__index index);

/* A place where the pool could grow so that a request fits, with `extra_bytes` more
 * behind it. */
struct tarn__site {
    tarn__index range; /* 0: no hole is large enough */
    uint64_t address;  /* of the hole */
    /* Bytes needed from the start of the hole. It is less than the request where memory
     * that the lane may use lies before the hole. */
    uint64_t bytes;
    uint64_t from; /* where that memory begins; `address`: there is none */
};
struct tarn__site tarn__heap_find_site(const struct tarn__heap *heap,
                                       const struct tarn__stream_state *stream_state,
                                       const struct tarn__request *request,
                                       uint64_t extra_bytes);

/* Return the hole that contains `address`, which was a hole a moment ago; or 0. */
tarn__index tarn__heap_unmapped_at(const struct tarn__heap *heap, uint64_t address);

/* --- blocks --- */

/* Take the best fit among the lane's own blocks and the completed ones, split to size.
 * With lane NULL, or a lane that is not in order, it takes completed blocks alone. The
 * block is in transit (MOVING) and in no bin. `*was_completed` tells whether the block was a
 * completed one. Returns 0 if nothing fits, or without host memory; then `*no_memory` is
 * set. */
tarn__index tarn__heap_take(struct tarn__heap *heap,
                            struct tarn__stream_state *stream_state,
                            const struct tarn__request *request, bool *was_completed,
                            bool *no_memory);

/* Return true if the request fits into a free block of this node's address and size. */
bool tarn__request_fits(const struct tarn__request *request,
                        const struct tarn__node *node);
/* Split a free block, which the request fits into, and take the request's part out.
 * Returns 0 without host memory. */
tarn__index tarn__heap_split_request(struct tarn__heap *heap, tarn__index index,
                                     const struct tarn__request *request);
/* Take a whole free block or hole out; it becomes MOVING. */
void tarn__heap_take_whole(struct tarn__heap *heap, tarn__index index);

/* Make one free block of `first` and the blocks that follow it, up to `granules`. All of
 * them are completed, or some belong to one lane. Then the result belongs to that lane,
 * with the youngest epoch among them. */
void tarn__heap_coalesce_neighbours(struct tarn__heap *heap, tarn__index first,
                                    uint32_t quanta);
/* Merge into `index` its upper neighbour, which is live; neither is in a bin. */
void tarn__heap_absorb_live(struct tarn__heap *heap, tarn__index index);
/* Do the same for a neighbour that is not live, so the address table does not hold it. */
void tarn__heap_absorb(struct tarn__heap *heap, tarn__index index);

/* --- runs.c --- */

/* Adjacent blocks. Each is free for the caller's stream, or behind a published event
 * fence. */
enum { TARN__RUN_MAX = 64 };
struct tarn__run {
    tarn__index nodes[TARN__RUN_MAX];         /* by address, MOVING */
    tarn__index stream_states[TARN__RUN_MAX]; /* lane of each node before; 0: completed */
    uint64_t epochs[TARN__RUN_MAX];
    size_t count; /* 0: there is no such run of blocks */
};

/* Take out adjacent blocks that are large enough together; the last one is split to
 * size. */
void tarn__heap_take_run(struct tarn__heap *heap,
                         const struct tarn__stream_state *stream_state,
                         const struct tarn__request *request, struct tarn__run *out);
/* Coalesce the run into one block, MOVING. The stream has waited for every source
 * stream. */
tarn__index tarn__heap_coalesce_run(struct tarn__heap *heap, const struct tarn__run *run);
/* Return the pieces to their lanes, now with the lanes' open epochs. */
void tarn__heap_put_run(struct tarn__heap *heap, const struct tarn__run *run);

/* Coalesce neighbours that `lane` may use until one block fits; false: none does. */
bool tarn__heap_coalesce_for(struct tarn__heap *heap,
                             struct tarn__stream_state *stream_state,
                             const struct tarn__request *request);

/* Free a block (MOVING, LIVE or PARKED): into the lane's open epoch, or as completed
 * where `lane` is NULL. It is coalesced with its neighbours as the rule above allows. */
void tarn__heap_put(struct tarn__heap *heap, tarn__index index,
                    struct tarn__stream_state *stream_state);
/* Make a free block of a lane completed; its last use has finished. */
void tarn__heap_complete(struct tarn__heap *heap, tarn__index index);

/* Take a fenced block of another lane that fits, split to size (MOVING). `*donor` is set
 * to the lane of the source stream. `*fence` is set to the position, in that lane's list,
 * of the event fence that covers the block. A split-off part stays with the source
 * stream. Returns 0 if there is none. */
tarn__index tarn__heap_take_from_source(struct tarn__heap *heap,
                                        const struct tarn__stream_state *stream_state,
                                        const struct tarn__request *request,
                                        struct tarn__stream_state **source,
                                        size_t *fence);

/* Make up to `most` blocks completed, of lanes whose epochs have finished but whose
 * blocks are not marked yet. Returns true if there are more. */
bool tarn__heap_sweep(struct tarn__heap *heap, size_t most);

/* Close the open epoch of every lane but those of captures, before a device-wide wait. */
void tarn__heap_close_all(struct tarn__heap *heap);
/* Make everything that was freed before the device-wide wait completed; the wait is
 * over. */
void tarn__heap_complete_all(struct tarn__heap *heap);

/* --- epochs --- */

/* Close the lane's open epoch and return it; no other record of an event may be under
 * way. */
uint64_t tarn__stream_state_close_epoch(struct tarn__heap *heap,
                                        struct tarn__stream_state *stream_state);
/* Publish `event`, which was recorded after `epoch` was closed. Returns false without
 * host memory; then the event stays the caller's and the epoch unfenced. */
bool tarn__stream_state_publish_fence(struct tarn__heap *heap,
                                      struct tarn__stream_state *stream_state,
                                      uint64_t epoch, CUevent_ event);
/* Pin the event of an event fence: until it is unpinned it is not recycled, and the lane
 * stays. */
CUevent_ tarn__stream_state_pin(struct tarn__stream_state *stream_state,
                                struct tarn__fence *fence);
void tarn__stream_state_unpin(struct tarn__stream_state *stream_state, CUevent_ event);
/* Return the position in the lane's list of the oldest event fence that covers
 * `epoch`. */
size_t tarn__stream_state_fence_for(const struct tarn__stream_state *stream_state,
                                    uint64_t epoch);
/* Note that the event fence of `epoch` is complete, and with it all before it. */
void tarn__stream_state_fence_completed(struct tarn__heap *heap,
                                        struct tarn__stream_state *stream_state,
                                        uint64_t epoch);

/* Complete everything that was freed up to `epoch`, which is closed, fenced or not. */
void tarn__stream_state_complete(struct tarn__heap *heap,
                                 struct tarn__stream_state *stream_state, uint64_t epoch);

/* --- queries --- */

/* Return an unused event, or NULL. */
CUevent_ tarn__heap_event(struct tarn__heap *heap);
/* Keep an event for later. Returns false without host memory. */
bool tarn__heap_keep_event(struct tarn__heap *heap, CUevent_ event);

/* Collect the events of all event fences as unused ones; the pool ends. */
void tarn__heap_collect_events(struct tarn__heap *heap);

/* Return the node that starts at `address`, if it is live or the first of a segment; else
 * 0. */
tarn__index tarn__heap_find(const struct tarn__heap *heap, uint64_t address);

/* Return the size in granules of the largest block that `lane` could have at once. */
uint32_t tarn__heap_largest(const struct tarn__heap *heap,
                            const struct tarn__stream_state *stream_state);

/* check.c: return NULL, or a message about the first invariant of the heap that does not
 * hold. */
const char *tarn__heap_check(const struct tarn__heap *heap);

#endif
