/* node.h -- the pool's metadata of one block, and the store of all nodes.
 *
 * Device memory cannot hold a header that the host reads, so each block has a node of 64
 * bytes of host memory. That is one cache line: two threads that each reuse one block do
 * not write the same line. A 32-bit index names a node, so that the links between nodes
 * are small. The store is one array, and only a part of it has memory. The array never
 * moves and lives as long as the pool. A free may read the node of a stale pointer,
 * without a lock, so that memory must stay readable.
 */
#ifndef TARN_POOL_NODE_H
#define TARN_POOL_NODE_H

#include "base/cache_line.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* the allocation quantum: blocks are multiples of 512 bytes, at multiples of
     * 512 */
    TARN__QUANTUM_SHIFT = 9,
    TARN__QUANTUM = 1 << TARN__QUANTUM_SHIFT,
    TARN__PAGE_SHIFT = 21 /* memory is mapped by multiples of 2 MiB */
};

/* Index of a node or a stream state; 0: none. A node's index counts words of 8 bytes from
 * the first node on, so that one addition yields its address. */
typedef uint32_t tarn__index;

enum tarn__node_state {
    TARN__UNUSED = 0, /* the node is unused */
    /* in the bins of its stream state, or of the completed frees (state
     * 0) */
    TARN__FREE,
    TARN__LIVE,          /* live: allocated to a caller */
    TARN__THREAD_CACHED, /* in a thread cache */
    TARN__IN_TRANSIT,    /* in transit: in use by a call that is under way */
    TARN__UNMAPPED,      /* an unmapped range */
    /* a retired mapping: its memory moved while queued work still uses these addresses */
    TARN__RETIRED
};

/* The pool's lock guards a node, with one exception. The owner of a LIVE block writes
 * `requested`, `alignment_log` and `state` without the lock when the block becomes live.
 * A stale pointer also leads to a node without the lock. The fields read there, and those
 * that share memory with them, are read and written atomically by the functions below. */
struct tarn__node {
    _Alignas(TARN__CACHE_LINE) uint64_t address;
    union {
        uint64_t requested; /* LIVE: requested bytes */
        struct {
            /* FREE with a stream state: by epoch, oldest first */
            tarn__index older, younger;
        } age;
    };
    union {
        uint64_t epoch; /* FREE with a stream state: of that stream state */
        uint64_t step;  /* LIVE: of the record in which its place is, if it has one */
    };
    uint32_t quanta;           /* size */
    tarn__index before, after; /* neighbours by address; 0 at a border */
    tarn__index next,
        previous; /* FREE and UNMAPPED: in the bin; THREAD_CACHED: `next` in the stack;
                   * LIVE: `previous` is its place in the record of its step
                   * (follow/record.h) */
    /* FREE: the stream that orders it; 0: completed, for any stream */
    tarn__index stream_state;
    _Atomic tarn__index chain; /* the next one of its chain: addresses.h */
    _Atomic uint8_t state;     /* enum tarn__node_state */
    uint8_t alignment_log;     /* LIVE: as requested */
    /* LIVE: slot of the capture that it belongs to; 0: none. TARN__NODE_PLANNED: the block
     * is at a planned address, and `next` is its rank (follow/sequences.h). */
    uint16_t capture;
};

enum { TARN__NODE_PLANNED = UINT16_MAX };

enum { TARN__NODE_WORDS = sizeof(struct tarn__node) / sizeof(uint64_t) };

struct tarn__nodes {
    uint64_t *all; /* set before any thread knows an index; cache hits read it */
    /* nodes that have memory; that have addresses */
    _Alignas(TARN__CACHE_LINE) size_t room, most;
    tarn__index made;   /* indices below were handed out; 0 never is */
    tarn__index unused; /* list through `next` of returned nodes */
    size_t unused_count;
};

/* Node 0 exists as soon as any node does, and no block uses it. */
static inline struct tarn__node *tarn__node(const struct tarn__nodes *nodes,
                                            tarn__index index)
{
    return (struct tarn__node *)(void *)(nodes->all + index);
}

static inline uint64_t tarn__node_bytes(const struct tarn__node *node)
{
    return (uint64_t)node->quanta << TARN__QUANTUM_SHIFT;
}

static inline uint64_t tarn__node_end(const struct tarn__node *node)
{
    return node->address + tarn__node_bytes(node);
}

static inline enum tarn__node_state tarn__node_state(const struct tarn__node *node)
{
    return (enum tarn__node_state)atomic_load_explicit(&node->state,
                                                       memory_order_relaxed);
}

static inline void tarn__node_set(struct tarn__node *node, enum tarn__node_state state)
{
    atomic_store_explicit(&node->state, (uint8_t)state, memory_order_relaxed);
}

/* Return the address of a node that may be another block's by now, read without the
 * lock. */
static inline uint64_t tarn__node_address(const struct tarn__node *node)
{
    return __atomic_load_n(&node->address, __ATOMIC_RELAXED);
}

/* Set the address of a node. */
static inline void tarn__node_set_address(struct tarn__node *node, uint64_t address)
{
    __atomic_store_n(&node->address, address, __ATOMIC_RELAXED);
}

/* Return the size of such a node. */
static inline uint32_t tarn__node_quanta(const struct tarn__node *node)
{
    return __atomic_load_n(&node->quanta, __ATOMIC_RELAXED);
}

static inline void tarn__node_size(struct tarn__node *node, uint32_t quanta)
{
    __atomic_store_n(&node->quanta, quanta, __ATOMIC_RELAXED);
}

/* Return the capture that such a node belongs to; 0: none. */
static inline uint16_t tarn__node_capture(const struct tarn__node *node)
{
    return __atomic_load_n(&node->capture, __ATOMIC_RELAXED);
}

static inline void tarn__node_set_capture(struct tarn__node *node, uint16_t slot)
{
    __atomic_store_n(&node->capture, slot, __ATOMIC_RELAXED);
}

/* Return the requested bytes of a live block. Another thread may have freed it meanwhile
 * and reused the node. A caller that does not own the block checks state and address
 * after this call. */
static inline uint64_t tarn__node_requested(const struct tarn__node *node)
{
    return __atomic_load_n(&node->requested, __ATOMIC_ACQUIRE);
}

static inline uint64_t tarn__node_alignment(const struct tarn__node *node)
{
    return (uint64_t)1 << __atomic_load_n(&node->alignment_log, __ATOMIC_ACQUIRE);
}

/* Make a block live that no caller has yet. */
static inline void tarn__node_make_live(struct tarn__node *node, uint64_t requested,
                                        uint64_t alignment)
{
    __atomic_store_n(&node->requested, requested, __ATOMIC_RELEASE);
    __atomic_store_n(&node->alignment_log, (uint8_t)__builtin_ctzll(alignment),
                     __ATOMIC_RELEASE);
    atomic_store_explicit(&node->state, TARN__LIVE, memory_order_release);
}

/* Write a link of the list by epochs, which shares memory with `requested`. */
static inline void tarn__node_link(tarn__index *link, tarn__index index)
{
    __atomic_store_n(link, index, __ATOMIC_RELEASE);
}

/* Claim the live block at `address` from its owner: of two threads that free one block,
 * one succeeds. Between the look-up and this call the node may have become another
 * block's, which then keeps it. */
static inline bool tarn__node_claim(struct tarn__node *node, uint64_t address,
                                    enum tarn__node_state state)
{
    uint8_t live = TARN__LIVE;

    if (!atomic_compare_exchange_strong_explicit(&node->state, &live, (uint8_t)state,
                                                 memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    if (tarn__node_address(node) == address)
        return true;
    atomic_store_explicit(&node->state, TARN__LIVE, memory_order_release);
    return false;
}

/* Provide `count` nodes that can be taken. Returns false without host memory. The owner
 * holds the lock, as for all calls here. */
bool tarn__nodes_add(struct tarn__nodes *nodes, size_t count);

/* Ensure that the next `count` nodes are available. */
static inline bool tarn__nodes_reserve(struct tarn__nodes *nodes, size_t count)
{
    return nodes->unused_count >= count || tarn__nodes_add(nodes, count);
}

/* Take a reserved node: UNUSED, without neighbours, stream state and capture. */
static inline tarn__index tarn__nodes_take(struct tarn__nodes *nodes)
{
    tarn__index index = nodes->unused;

    if (index == 0) {
        index = nodes->made;
        nodes->made += TARN__NODE_WORDS;
        return index;
    }
    nodes->unused = tarn__node(nodes, index)->next;
    nodes->unused_count--;
    return index;
}

/* Return a node. Its address stays: a stale reader compares the address, and then reads
 * the state. */
static inline void tarn__nodes_put(struct tarn__nodes *nodes, tarn__index index)
{
    struct tarn__node *node = tarn__node(nodes, index);

    tarn__node_set(node, TARN__UNUSED);
    node->stream_state = node->before = node->after = 0;
    tarn__node_set_capture(node, 0);
    node->next = nodes->unused;
    nodes->unused = index;
    nodes->unused_count++;
}

void tarn__nodes_free(struct tarn__nodes *nodes);
size_t tarn__nodes_metadata(const struct tarn__nodes *nodes);

#endif
