/* addresses.h -- from the first address of a block to its node.
 *
 * Chains of nodes by a hash of the address, as many as there are blocks: what a free has to
 * look at is little and close together, however far apart the blocks are. Entered are the
 * blocks that are out, which is whom anybody asks for, and the first of each segment.
 *
 * It is read without a lock at every free. A node that is taken out keeps its link, so who
 * stands on it goes on; if it is put into another chain meanwhile, or the chains are made
 * anew, the reader may miss a block that is there. So a reader that finds nothing looks once
 * more with the lock.
 */
#ifndef TARN_POOL_ADDRESSES_H
#define TARN_POOL_ADDRESSES_H

#include "base/hash.h"
#include "resource/pool/node.h"

struct tarn__chains {
    struct tarn__chains *older; /* fewer, which a reader may still have in hand */
    uint64_t factor;            /* tarn__hash_factor() */
    unsigned shift;             /* 64 less the logarithm of how many */
    _Atomic tarn__index first[];
};

struct tarn__addresses {
    _Atomic(struct tarn__chains *) chains; /* NULL: no block yet */
    size_t count, room;                    /* blocks that are entered; as many chains */
    size_t metadata;                       /* bytes of all chains */
};

/* Have as many chains as there will be blocks with `count` more. False: no host memory.
 * Without, they can be entered as long as there is any chain, but are looked for longer.
 * Locked by the owner, as all but one of the calls here. */
bool tarn__addresses_grow(struct tarn__addresses *addresses,
                          const struct tarn__nodes *nodes, size_t count);

static inline bool tarn__addresses_reserve(struct tarn__addresses *addresses,
                                           const struct tarn__nodes *nodes, size_t count)
{
    return addresses->count + count <= addresses->room ||
           tarn__addresses_grow(addresses, nodes, count);
}

/* The node of the block that starts at `address`; 0: none does. */
tarn__index tarn__addresses_find(const struct tarn__addresses *addresses,
                                 const struct tarn__nodes *nodes, uint64_t address);
void tarn__addresses_free(struct tarn__addresses *addresses);

static inline size_t tarn__chain_of(const struct tarn__chains *chains, uint64_t address)
{
    return (size_t)(tarn__hash_number(chains->factor, address >> TARN__GRANULE_SHIFT) >>
                    chains->shift);
}

/* All changes are made under the lock, so what it protects is read as it is. */
static inline struct tarn__chains *tarn__chains(const struct tarn__addresses *addresses)
{
    return atomic_load_explicit(&addresses->chains, memory_order_relaxed);
}

static inline tarn__index tarn__chain_load(const _Atomic tarn__index *link)
{
    return atomic_load_explicit(link, memory_order_relaxed);
}

static inline void tarn__chain_store(_Atomic tarn__index *link, tarn__index index)
{
    atomic_store_explicit(link, index, memory_order_release);
}

static inline void tarn__chain_push(struct tarn__chains *chains,
                                    const struct tarn__nodes *nodes, tarn__index index)
{
    struct tarn__node *node = tarn__node(nodes, index);
    _Atomic tarn__index *first = &chains->first[tarn__chain_of(chains, node->address)];

    tarn__chain_store(&node->chain, tarn__chain_load(first));
    tarn__chain_store(first, index);
}

/* The link by which `index` is entered. */
static inline _Atomic tarn__index *tarn__chain_link(struct tarn__chains *chains,
                                                    const struct tarn__nodes *nodes,
                                                    tarn__index index)
{
    uint64_t address = tarn__node(nodes, index)->address;
    _Atomic tarn__index *link = &chains->first[tarn__chain_of(chains, address)];

    while (tarn__chain_load(link) != index)
        link = &tarn__node(nodes, tarn__chain_load(link))->chain;
    return link;
}

/* Enter a node under its address; or take it out, before it gets another one. */
static inline void tarn__addresses_add(struct tarn__addresses *addresses,
                                       const struct tarn__nodes *nodes, tarn__index index)
{
    tarn__chain_push(tarn__chains(addresses), nodes, index);
    addresses->count++;
}

static inline void tarn__addresses_remove(struct tarn__addresses *addresses,
                                          const struct tarn__nodes *nodes,
                                          tarn__index index)
{
    tarn__chain_store(tarn__chain_link(tarn__chains(addresses), nodes, index),
                      tarn__chain_load(&tarn__node(nodes, index)->chain));
    addresses->count--;
}

/* `by`, which is not entered, comes in the place of `index`, which has the same address. */
static inline void tarn__addresses_replace(struct tarn__addresses *addresses,
                                           const struct tarn__nodes *nodes,
                                           tarn__index index, tarn__index by)
{
    tarn__chain_store(&tarn__node(nodes, by)->chain,
                      tarn__chain_load(&tarn__node(nodes, index)->chain));
    tarn__chain_store(tarn__chain_link(tarn__chains(addresses), nodes, index), by);
}

/* A reader that has come so far is lost in other chains. */
enum { TARN__CHAIN_LOOKS = 64 };

/* The same by any thread, without the lock; 0 may be an error. */
static inline tarn__index tarn__addresses_look(const struct tarn__addresses *addresses,
                                               const struct tarn__nodes *nodes,
                                               uint64_t address)
{
    const struct tarn__chains *chains =
        atomic_load_explicit(&addresses->chains, memory_order_acquire);

    if (!chains)
        return 0;
    tarn__index index = atomic_load_explicit(
        &chains->first[tarn__chain_of(chains, address)], memory_order_acquire);
    for (int looks = 0; index && looks < TARN__CHAIN_LOOKS; looks++) {
        const struct tarn__node *node = tarn__node(nodes, index);
        if (tarn__node_address(node) == address)
            return index;
        index = atomic_load_explicit(&node->chain, memory_order_acquire);
    }
    return 0;
}

#endif
