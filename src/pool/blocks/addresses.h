/* addresses.h -- a hash table from the first address of a block to its node.
 *
 * The table has chains of nodes by a hash of the address, about one chain for each block.
 * A free therefore reads little memory, and that memory lies close together, however far
 * apart the blocks are. The table holds the live blocks, which is what callers look up,
 * and the first block of each segment.
 *
 * Every free reads the table without a lock. A removed node keeps its link, so a reader
 * that stands on it can continue. If the node enters another chain meanwhile, or the
 * chains are rebuilt, the reader may miss a block that is there. A reader that finds
 * nothing therefore looks once more with the lock.
 */
#ifndef TARN_POOL_ADDRESSES_H
#define TARN_POOL_ADDRESSES_H

#include "base/hash.h"
#include "pool/blocks/node.h"

struct tarn__chains {
    struct tarn__chains *older; /* fewer chains, which a reader may still be walking */
    uint64_t factor;            /* tarn__hash_factor() */
    unsigned shift;             /* 64 less the logarithm of the number of chains */
    _Atomic tarn__index first[];
};

struct tarn__addresses {
    _Atomic(struct tarn__chains *) chains; /* NULL: no block yet; cache hits read it */
    /* entered blocks; the number of chains */
    _Alignas(TARN__CACHE_LINE) size_t count, room;
    size_t metadata; /* bytes of all chains */
};

/* Grow the table to as many chains as there will be blocks with `count` more. Returns
 * false without host memory. Blocks can then still be entered as long as there is any
 * chain, but lookups take longer. The owner holds the lock, as for every call here but
 * one. */
bool tarn__addresses_grow(struct tarn__addresses *addresses,
                          const struct tarn__nodes *nodes, size_t count);

static inline bool tarn__addresses_reserve(struct tarn__addresses *addresses,
                                           const struct tarn__nodes *nodes, size_t count)
{
    return addresses->count + count <= addresses->room ||
           tarn__addresses_grow(addresses, nodes, count);
}

/* Return the node of the block that starts at `address`; 0: no block starts there. */
tarn__index tarn__addresses_find(const struct tarn__addresses *addresses,
                                 const struct tarn__nodes *nodes, uint64_t address);
void tarn__addresses_free(struct tarn__addresses *addresses);

static inline size_t tarn__addresses_chain_of(const struct tarn__chains *chains,
                                              uint64_t address)
{
    return (size_t)(tarn__hash_number(chains->factor, address >> TARN__QUANTUM_SHIFT) >>
                    chains->shift);
}

/* Every change is made under the lock, so a plain read sees what the lock protects. */
static inline struct tarn__chains *tarn__addresses_chains(
    const struct tarn__addresses *addresses)
{
    return atomic_load_explicit(&addresses->chains, memory_order_relaxed);
}

static inline tarn__index tarn__addresses_chain_load(const _Atomic tarn__index *link)
{
    return atomic_load_explicit(link, memory_order_relaxed);
}

static inline void tarn__addresses_chain_store(_Atomic tarn__index *link,
                                               tarn__index index)
{
    atomic_store_explicit(link, index, memory_order_release);
}

static inline void tarn__addresses_chain_push(struct tarn__chains *chains,
                                              const struct tarn__nodes *nodes,
                                              tarn__index index)
{
    struct tarn__node *node = tarn__node(nodes, index);
    _Atomic tarn__index *first =
        &chains->first[tarn__addresses_chain_of(chains, node->address)];

    tarn__addresses_chain_store(&node->chain, tarn__addresses_chain_load(first));
    tarn__addresses_chain_store(first, index);
}

/* Return the link by which `index` is entered. */
static inline _Atomic tarn__index *tarn__addresses_chain_link(
    struct tarn__chains *chains, const struct tarn__nodes *nodes, tarn__index index)
{
    uint64_t address = tarn__node(nodes, index)->address;
    _Atomic tarn__index *link = &chains->first[tarn__addresses_chain_of(chains, address)];

    while (tarn__addresses_chain_load(link) != index)
        link = &tarn__node(nodes, tarn__addresses_chain_load(link))->chain;
    return link;
}

/* Enter a node under its address, or remove it before it gets another address. */
static inline void tarn__addresses_add(struct tarn__addresses *addresses,
                                       const struct tarn__nodes *nodes, tarn__index index)
{
    tarn__addresses_chain_push(tarn__addresses_chains(addresses), nodes, index);
    addresses->count++;
}

static inline void tarn__addresses_remove(struct tarn__addresses *addresses,
                                          const struct tarn__nodes *nodes,
                                          tarn__index index)
{
    tarn__addresses_chain_store(
        tarn__addresses_chain_link(tarn__addresses_chains(addresses), nodes, index),
        tarn__addresses_chain_load(&tarn__node(nodes, index)->chain));
    addresses->count--;
}

/* Replace `index` by `by`, which is not entered and has the same address. */
static inline void tarn__addresses_replace(struct tarn__addresses *addresses,
                                           const struct tarn__nodes *nodes,
                                           tarn__index index, tarn__index by)
{
    tarn__addresses_chain_store(
        &tarn__node(nodes, by)->chain,
        tarn__addresses_chain_load(&tarn__node(nodes, index)->chain));
    tarn__addresses_chain_store(
        tarn__addresses_chain_link(tarn__addresses_chains(addresses), nodes, index), by);
}

/* A reader that has followed this many links has strayed into other chains. */
enum { TARN__CHAIN_LOOKS = 64 };

/* Look a block up from any thread, without the lock; 0 may be wrong. */
static inline tarn__index tarn__addresses_look(const struct tarn__addresses *addresses,
                                               const struct tarn__nodes *nodes,
                                               uint64_t address)
{
    const struct tarn__chains *chains =
        atomic_load_explicit(&addresses->chains, memory_order_acquire);

    if (!chains)
        return 0;
    tarn__index index = atomic_load_explicit(
        &chains->first[tarn__addresses_chain_of(chains, address)], memory_order_acquire);
    for (int looks = 0; index && looks < TARN__CHAIN_LOOKS; looks++) {
        const struct tarn__node *node = tarn__node(nodes, index);
        if (tarn__node_address(node) == address)
            return index;
        index = atomic_load_explicit(&node->chain, memory_order_acquire);
    }
    return 0;
}

#endif
