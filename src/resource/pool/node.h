/* node.h -- what the pool knows of one block, and the store of all nodes.
 *
 * Memory of a device cannot hold a header, so a block's is here: 56 bytes of host memory,
 * named by a 32-bit index, so that the links between nodes are small. The store is one
 * array, of which a part has memory: it never moves and never goes before the pool does.
 * A free may look at the node of a stale pointer, without a lock, and must read memory that
 * is there.
 */
#ifndef TARN_POOL_NODE_H
#define TARN_POOL_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TARN__GRANULE_SHIFT = 9, /* blocks are multiples of 512 bytes, at multiples of 512 */
    TARN__GRANULE = 1 << TARN__GRANULE_SHIFT,
    TARN__PAGE_SHIFT = 21 /* memory is mapped by multiples of 2 MiB */
};

/* Index of a node or a lane; 0: none. A node's counts words of 8 bytes from the first node
 * on, so that the way to it is one addition. */
typedef uint32_t tarn__index;

enum tarn__node_state {
    TARN__UNUSED = 0, /* the node is nobody's */
    TARN__FREE,       /* in the bins of its lane, or of the ready ones (lane 0) */
    TARN__LIVE,       /* out */
    TARN__PARKED,     /* in a magazine */
    TARN__MOVING,     /* in the hands of a call that is under way */
    TARN__HOLE,       /* addresses without memory */
    TARN__OLD         /* addresses whose memory moved while queued work still uses them */
};

/* Under the pool's lock, but for what the owner of a LIVE block writes without it when it
 * goes out: `asked`, `alignment_log`, `state`. A stale pointer leads to a node without the
 * lock, too. What is read there, and what it shares memory with, is read and written
 * atomically, by the functions below. */
struct tarn__node {
    uint64_t address;
    union {
        uint64_t asked; /* LIVE: bytes as asked for */
        struct {
            tarn__index older, younger; /* FREE with a lane: by epoch, oldest first */
        } age;
    };
    uint64_t epoch;            /* FREE with a lane: of that lane */
    uint32_t granules;         /* size */
    tarn__index before, after; /* neighbours by address; 0 at a border */
    tarn__index next,
        previous;     /* FREE and HOLE: in the bin; PARKED: `next` in the stack */
    tarn__index lane; /* FREE: whose order it is in; 0: done, for anybody */
    _Atomic tarn__index chain; /* the next one of its chain: addresses.h */
    _Atomic uint8_t state;     /* enum tarn__node_state */
    uint8_t alignment_log;     /* LIVE: as asked for */
    uint16_t capture;          /* LIVE: slot of the capture that it belongs to; 0: none */
};

enum { TARN__NODE_WORDS = sizeof(struct tarn__node) / sizeof(uint64_t) };

struct tarn__nodes {
    uint64_t *all;      /* set before the first index is known to anybody */
    size_t room, most;  /* nodes that have memory; that have addresses */
    tarn__index made;   /* indices below have been handed out; 0 never is */
    tarn__index unused; /* list through `next` of those that came back */
    size_t unused_count;
};

/* Node 0 is there as soon as any is, and nobody's. */
static inline struct tarn__node *tarn__node(const struct tarn__nodes *nodes,
                                            tarn__index index)
{
    return (struct tarn__node *)(void *)(nodes->all + index);
}

static inline uint64_t tarn__node_bytes(const struct tarn__node *node)
{
    return (uint64_t)node->granules << TARN__GRANULE_SHIFT;
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

/* The address of a node that may be another block's by now, read without the lock. */
static inline uint64_t tarn__node_address(const struct tarn__node *node)
{
    return __atomic_load_n(&node->address, __ATOMIC_RELAXED);
}

/* A node comes to lie at `address`. */
static inline void tarn__node_place(struct tarn__node *node, uint64_t address)
{
    __atomic_store_n(&node->address, address, __ATOMIC_RELAXED);
}

/* The size of such a node. */
static inline uint32_t tarn__node_granules(const struct tarn__node *node)
{
    return __atomic_load_n(&node->granules, __ATOMIC_RELAXED);
}

static inline void tarn__node_size(struct tarn__node *node, uint32_t granules)
{
    __atomic_store_n(&node->granules, granules, __ATOMIC_RELAXED);
}

/* The capture that such a node belongs to; 0: none. */
static inline uint16_t tarn__node_capture(const struct tarn__node *node)
{
    return __atomic_load_n(&node->capture, __ATOMIC_RELAXED);
}

static inline void tarn__node_set_capture(struct tarn__node *node, uint16_t slot)
{
    __atomic_store_n(&node->capture, slot, __ATOMIC_RELAXED);
}

/* What was asked for a live block. It may have gone meanwhile, and another one come: who
 * does not own it looks at state and address after this. */
static inline uint64_t tarn__node_asked(const struct tarn__node *node)
{
    return __atomic_load_n(&node->asked, __ATOMIC_ACQUIRE);
}

static inline uint64_t tarn__node_alignment(const struct tarn__node *node)
{
    return (uint64_t)1 << __atomic_load_n(&node->alignment_log, __ATOMIC_ACQUIRE);
}

/* A block that is nobody's yet goes out. */
static inline void tarn__node_go_out(struct tarn__node *node, uint64_t asked,
                                     uint64_t alignment)
{
    __atomic_store_n(&node->asked, asked, __ATOMIC_RELEASE);
    __atomic_store_n(&node->alignment_log, (uint8_t)__builtin_ctzll(alignment),
                     __ATOMIC_RELEASE);
    atomic_store_explicit(&node->state, TARN__LIVE, memory_order_release);
}

/* A link of the list by epochs, which lies where `asked` does. */
static inline void tarn__node_link(tarn__index *link, tarn__index index)
{
    __atomic_store_n(link, index, __ATOMIC_RELEASE);
}

/* Take the live block at `address` out of its owner's hands: of two threads that give one
 * block back, one does. Between the look-up and here the node may have become another
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

/* Have `count` nodes that can be taken. False: no host memory. Locked by the owner, as all
 * calls here. */
bool tarn__nodes_add(struct tarn__nodes *nodes, size_t count);

/* See to it that the next `count` nodes can be had. */
static inline bool tarn__nodes_reserve(struct tarn__nodes *nodes, size_t count)
{
    return nodes->unused_count >= count || tarn__nodes_add(nodes, count);
}

/* A node that was reserved: UNUSED, without neighbours, lane and capture. */
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

/* The address stays: a stale look compares it, and finds the state. */
static inline void tarn__nodes_put(struct tarn__nodes *nodes, tarn__index index)
{
    struct tarn__node *node = tarn__node(nodes, index);

    tarn__node_set(node, TARN__UNUSED);
    node->lane = node->before = node->after = 0;
    tarn__node_set_capture(node, 0);
    node->next = nodes->unused;
    nodes->unused = index;
    nodes->unused_count++;
}

void tarn__nodes_free(struct tarn__nodes *nodes);
size_t tarn__nodes_metadata(const struct tarn__nodes *nodes);

#endif
