/* heap.h -- all blocks of a pool by address: splitting, coalescing and looking up.
 *
 * This component keeps the invariants about memory.
 *
 *    order    A stream gets a block as a same-stream free or as a completed free.
 *             Another stream's block comes from tarn__steal_from_source() or from
 *             tarn__runs_take_part(). The caller waits for the event fences that cover it.
 *    fence    Two neighbours coalesce only where the result is covered by what covers
 *             each of them: both completed, or both of one stream state (then the
 *             younger epoch counts), or a completed one that joins a stream state. A
 *             split-off part keeps its stream state and epoch.
 *    borders  `before` and `after` are 0 where another address range begins.
 *    area     Free blocks and unmapped ranges in the area of a plan are in no bins. A
 *             search by size does not find them, a look-up by address does
 *             (follow/area.h). Where the area is shared, they are in the bins of all.
 *
 * The owner holds the heap's lock around every call. Nothing here calls the driver.
 */
#ifndef TARN_POOL_HEAP_H
#define TARN_POOL_HEAP_H

#include "base/map.h"
#include "pool/blocks/addresses.h"
#include "pool/blocks/stream_state.h"

enum { TARN__STATE_CHUNK = 8, TARN__STATE_CHUNKS = 1 << 16 };

struct tarn__state_list {
    tarn__index first; /* 0: it is empty */
    size_t count;
};

enum { TARN__AREA_RANGES = 8 };

/* A time at which a plan needs addresses again (follow/state.h): not in this step. */
#define TARN__NEXT_STEP ((uint64_t)1 << 32)

struct tarn__heap {
    struct tarn__nodes nodes;
    struct tarn__addresses addresses;
    struct tarn__bins completed; /* state 0: completed frees, which any stream may use */
    struct tarn__bins unmapped;  /* address ranges without memory */
    /* Addresses of their own for blocks at planned addresses: `area_bytes` from
     * `area_address` on; 0: there are none. They are one range, or several. */
    uint64_t area_address, area_bytes;
    /* The first address of each. Layouts are in the first range. */
    uint64_t area_ranges[TARN__AREA_RANGES];
    unsigned area_range_count;
    /* of that range: the addresses of the plan that is followed; 0: there is none */
    uint64_t planned_bytes;
    /* While others share the area: a request of fewer quanta gets none of its addresses. */
    uint32_t area_least;
    uint64_t *starts; /* first address of each segment, unsorted */
    size_t segments, segment_capacity;

    /* in chunks, which never move */
    struct tarn__stream_state *stream_states[TARN__STATE_CHUNKS];
    tarn__index states_made, unused_state;
    size_t state_count;
    struct tarn__map by_key; /* key of a stream state -> its index */
    /* stream handle -> index of the stream state that it names now */
    struct tarn__map by_handle;
    struct tarn__stream_state *orphaned; /* TARN__KEY_ORPHANED; NULL until it is needed */
    /* The stream states that have free blocks, and those of them that also have event
     * fences. Many can have no fence: their streams have ended, or are captures. */
    struct tarn__state_list with_memory, with_fences;
    /* Where a poll goes on in `with_fences`, and where a plan of compaction goes on; 0: at
     * the end. */
    tarn__index poll_next, plan_next;
    /* first stream state with a finished epoch whose blocks may not be marked yet */
    tarn__index finished;

    struct CUevent_st **events; /* unused events */
    size_t event_count, event_capacity;

    uint64_t free_bytes; /* of all stream states, and the completed frees */
    uint64_t completed_bytes;
    uint64_t unfenced_bytes;  /* of all stream states */
    uint64_t captured_bytes;  /* of the stream states of captures; unfenced, too */
    uint64_t allocated_bytes; /* live, thread-cached and in transit */
    uint64_t unmapped_bytes;
    /* The pool does not coalesce a fenced or completed neighbour larger than this with a
     * new free: the neighbour would lose its event fence. */
    uint64_t absorb_bytes;
    size_t blocks; /* nodes in use */
    /* searches that found nothing immediately available: no same-stream free and no
     * completed free that fits */
    uint64_t misses;
    size_t state_metadata;
};

void tarn__heap_init(struct tarn__heap *heap);
/* Free the heap; no thread uses it any more. */
void tarn__heap_free(struct tarn__heap *heap);

/* --- stream states --- */

/* Return the stream state with this index; 0 is no stream state. */
static inline struct tarn__stream_state *tarn__heap_state(const struct tarn__heap *heap,
                                                          tarn__index index)
{
    return &heap->stream_states[index / TARN__STATE_CHUNK][index % TARN__STATE_CHUNK];
}

/* Return true if the stream of `stream_state` may have this block, if necessary after a
 * wait for the event fence of another stream. */
static inline bool tarn__heap_may_use_after_wait(
    const struct tarn__heap *heap, const struct tarn__stream_state *stream_state,
    const struct tarn__node *node) TARN__REQUIRES(pool_lock)
{
    return tarn__stream_state_may_use(stream_state, node) ||
           (tarn__node_state(node) == TARN__FREE && node->stream_state != 0 &&
            !(stream_state && node->stream_state == stream_state->index) &&
            tarn__stream_state_has_fenced(tarn__heap_state(heap, node->stream_state),
                                          node));
}

/* Return the number of streams that the pool knows, those of captures included. These are
 * all stream states but TARN__KEY_NO_STREAM, which every pool has, and
 * TARN__KEY_ORPHANED. */
static inline size_t tarn__heap_streams(const struct tarn__heap *heap)
{
    return heap->state_count - 1 - (heap->orphaned != NULL);
}

/* Make one free block of `first` and the blocks that follow it, up to `quanta`. All of
 * them are completed, or some belong to one stream state. Then the result belongs to that
 * stream state, with the youngest epoch among them. */
void tarn__heap_coalesce_neighbours(struct tarn__heap *heap, tarn__index first,
                                    uint32_t quanta) TARN__REQUIRES(pool_lock);
/* Merge into `index` its upper neighbour, which is live; neither is in a bin. */
void tarn__heap_absorb_live(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock);
/* Do the same for a neighbour that is not live, so the address table does not hold it. */
void tarn__heap_absorb(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock);

/* Free a block (in transit, live or thread-cached): into the stream state's open epoch,
 * or as completed where `stream_state` is NULL. It is coalesced with its neighbours as
 * the rule above allows. */
void tarn__heap_put(struct tarn__heap *heap, tarn__index index,
                    struct tarn__stream_state *stream_state) TARN__REQUIRES(pool_lock);
/* Do the same outside of the stream's calls. The block does not coalesce with fenced or
 * completed neighbours, which would lose their event fence. */
void tarn__heap_put_alone(struct tarn__heap *heap, tarn__index index,
                          struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock);
/* Make a free block of a stream state completed; its last use has finished. */
void tarn__heap_complete(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock);

/* Return the node that starts at `address`, if it is live or the first of a segment; else
 * 0. */
tarn__index tarn__heap_find(const struct tarn__heap *heap, uint64_t address)
    TARN__REQUIRES(pool_lock);

/* Enter a stream state into the lists `with_memory` and `with_fences`, or remove it, by
 * what it has now. Called after its first free block or event fence came, or the last one
 * went. */
void tarn__heap_list_state(struct tarn__heap *heap,
                           struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock);

/* --- for the files of this folder ---
 *
 * A free node is in its bins, in the list of its stream state, and in the counts. A live
 * node is in the table of addresses. The functions are inline, since each split and each
 * coalescing does several of these. */

static inline struct tarn__node *tarn__heap_node(const struct tarn__heap *heap,
                                                 tarn__index index)
{
    return tarn__node(&heap->nodes, index);
}

/* --- in and out of the bins --- */

/* Return the stream state of a free node; NULL: the node is completed. */
static inline struct tarn__stream_state *tarn__heap_state_of(
    const struct tarn__heap *heap, const struct tarn__node *node)
{
    return node->stream_state ? tarn__heap_state(heap, node->stream_state) : NULL;
}

/* Count added bytes of a free node. A number that wraps counts removed bytes. */
static inline void tarn__heap_count(struct tarn__heap *heap,
                                    struct tarn__stream_state *stream_state,
                                    uint64_t epoch, uint64_t bytes)
    TARN__REQUIRES(pool_lock)
{
    heap->free_bytes += bytes;
    if (!stream_state) {
        heap->completed_bytes += bytes;
        return;
    }
    stream_state->free.bytes += bytes;
    if (stream_state->is_capture)
        heap->captured_bytes += bytes;
    if (epoch <= stream_state->fenced_epoch)
        return;
    *(epoch == stream_state->open_epoch ? &stream_state->free.open_bytes
                                        : &stream_state->free.closed_bytes) += bytes;
    heap->unfenced_bytes += bytes;
}

/* Return true if the node is in the area of a plan. */
static inline bool tarn__heap_in_area(const struct tarn__heap *heap,
                                      const struct tarn__node *node)
{
    return node->address - heap->area_address < heap->area_bytes;
}

/* Return true if a plan that is followed has the address. */
static inline bool tarn__heap_is_planned(const struct tarn__heap *heap, uint64_t address)
{
    return address - heap->area_ranges[0] < heap->planned_bytes;
}

/* Return true if a request of so many quanta may have addresses of the node, which lie in the
 * area that others share, or outside of it. */
static inline bool tarn__heap_may_serve(const struct tarn__heap *heap,
                                        const struct tarn__node *node, uint32_t quanta)
{
    return quanta >= heap->area_least || node->address < heap->area_address;
}

/* Return the bins of a free node of `stream_state` (NULL: a completed one), outside of the
 * area. */
static inline struct tarn__bins *tarn__heap_bins(struct tarn__heap *heap,
                                                 struct tarn__stream_state *stream_state)
{
    return stream_state ? &stream_state->free.bins : &heap->completed;
}

/* Enter a free node into its bins, and count it. A node in the area has no next one: a visit
 * of bins that goes on with it ends there. */
static inline void tarn__heap_into_bins(struct tarn__heap *heap, tarn__index index,
                                        struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__node *node = tarn__heap_node(heap, index);

    tarn__heap_count(heap, stream_state, node->epoch, tarn__node_bytes(node));
    if (__builtin_expect(tarn__heap_in_area(heap, node), false))
        node->next = 0;
    else
        tarn__bins_add(tarn__heap_bins(heap, stream_state), &heap->nodes, index);
}

static inline void tarn__heap_out_of_bins(struct tarn__heap *heap, tarn__index index,
                                          struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *node = tarn__heap_node(heap, index);

    tarn__heap_count(heap, stream_state, node->epoch, -tarn__node_bytes(node));
    if (__builtin_expect(!tarn__heap_in_area(heap, node), true))
        tarn__bins_remove(tarn__heap_bins(heap, stream_state), &heap->nodes, index);
}

/* Enter an unmapped range into the bins, and count it. */
static inline void tarn__heap_add_unmapped(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *node = tarn__heap_node(heap, index);

    if (!tarn__heap_in_area(heap, node))
        tarn__bins_add(&heap->unmapped, &heap->nodes, index);
    heap->unmapped_bytes += tarn__node_bytes(node);
}

static inline void tarn__heap_remove_unmapped(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *node = tarn__heap_node(heap, index);

    if (!tarn__heap_in_area(heap, node))
        tarn__bins_remove(&heap->unmapped, &heap->nodes, index);
    heap->unmapped_bytes -= tarn__node_bytes(node);
}

/* Give a free node another size. Within its class it stays where it is. */
static inline void tarn__heap_resize(struct tarn__heap *heap, tarn__index index,
                                     uint32_t quanta) TARN__REQUIRES(pool_lock)
{
    struct tarn__node *node = tarn__heap_node(heap, index);
    struct tarn__stream_state *stream_state = tarn__heap_state_of(heap, node);
    struct tarn__bins *bins = tarn__heap_bins(heap, stream_state);
    unsigned from = tarn__bins_class(node->quanta), to = tarn__bins_class(quanta);
    uint64_t more = ((uint64_t)quanta - node->quanta) << TARN__QUANTUM_SHIFT;

    tarn__node_size(node, quanta);
    tarn__heap_count(heap, stream_state, node->epoch, more);
    if (from == to || __builtin_expect(tarn__heap_in_area(heap, node), false))
        return;
    tarn__bins_remove_from(bins, &heap->nodes, index, from);
    tarn__bins_add_to(bins, &heap->nodes, index, to);
}

/* --- the list of a stream state's free blocks by epoch --- */

static inline void tarn__heap_link_after(struct tarn__heap *heap,
                                         struct tarn__stream_state *stream_state,
                                         tarn__index older, tarn__index index)
{
    struct tarn__node *node = tarn__heap_node(heap, index);
    tarn__index younger =
        older ? tarn__heap_node(heap, older)->age.younger : stream_state->free.oldest;

    tarn__node_link(&node->age.older, older);
    tarn__node_link(&node->age.younger, younger);
    tarn__node_link(older ? &tarn__heap_node(heap, older)->age.younger
                          : &stream_state->free.oldest,
                    index);
    tarn__node_link(younger ? &tarn__heap_node(heap, younger)->age.older
                            : &stream_state->free.youngest,
                    index);
}

static inline void tarn__heap_unlink(struct tarn__heap *heap,
                                     struct tarn__stream_state *stream_state,
                                     const struct tarn__node *node)
{
    tarn__index older = node->age.older, younger = node->age.younger;

    tarn__node_link(older ? &tarn__heap_node(heap, older)->age.younger
                          : &stream_state->free.oldest,
                    younger);
    tarn__node_link(younger ? &tarn__heap_node(heap, younger)->age.older
                            : &stream_state->free.youngest,
                    older);
}

/* --- free nodes as a whole --- */

/* Take a free node out of its lists: in transit. */
static inline void tarn__heap_detach(struct tarn__heap *heap, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__node *node = tarn__heap_node(heap, index);
    struct tarn__stream_state *stream_state = tarn__heap_state_of(heap, node);

    tarn__heap_out_of_bins(heap, index, stream_state);
    if (stream_state) {
        tarn__heap_unlink(heap, stream_state, node);
        if (stream_state->free.oldest == 0)
            tarn__heap_list_state(heap, stream_state);
    }
    node->stream_state = 0;
    tarn__node_set(node, TARN__IN_TRANSIT);
}

/* --- the address table holds the live nodes, and the first node of each segment --- */

static inline void tarn__heap_enter(struct tarn__heap *heap, tarn__index index)
{
    if (tarn__heap_node(heap, index)->before)
        tarn__addresses_add(&heap->addresses, &heap->nodes, index);
}

static inline void tarn__heap_leave(struct tarn__heap *heap, tarn__index index)
{
    if (tarn__heap_node(heap, index)->before)
        tarn__addresses_remove(&heap->addresses, &heap->nodes, index);
}

#endif
