/* addresses.h -- a hash table from the first address of a block to its node.
 *
 * The table has chains of nodes by a hash of the address, about one chain for each block.
 * A free therefore reads little memory, and that memory lies close together, however far
 * apart the blocks are. The table holds the live blocks, which is what callers look up,
 * and the first block of each segment.
 *
 * The table grows step by step. A larger array of chains starts empty, and the old one
 * stays below it. The chain of an address is moved before the first change there, and each
 * reservation moves a few more. The hash's top bits select a chain, so chain `i` becomes
 * the chains `2 * i` and `2 * i + 1`. A look-up reads the old chain until it is moved.
 *
 * Every free reads the table without a lock. A removed node keeps its link, so a reader
 * that stands on it can continue. If the node enters another chain meanwhile, the reader
 * may miss a block that is there. A reader that finds nothing therefore looks once more
 * with the lock.
 */
#ifndef TARN_POOL_ADDRESSES_H
#define TARN_POOL_ADDRESSES_H

#include "base/hash.h"
#include "pool/blocks/node.h"

/* In place of an index: the chain was not moved here yet; the chain has ended. No node has
 * the index 1: an index counts words. */
enum { TARN__CHAIN_UNMOVED = 0, TARN__CHAIN_END = 1 };

struct tarn__chains {
    struct tarn__chains *older; /* half as many chains; a reader may still walk them */
    uint64_t factor;            /* tarn__hash_factor() */
    unsigned shift;             /* 64 less the logarithm of the number of chains */
    _Atomic tarn__index first[];
};

struct tarn__addresses {
    _Atomic(struct tarn__chains *) chains;   /* NULL: no block yet; cache hits read it */
    _Alignas(TARN__CACHE_LINE) size_t count; /* entered blocks */
    size_t room;     /* the number of chains; 0: some are not moved yet */
    size_t moved;    /* old chains below are moved */
    size_t metadata; /* bytes of all chains */
};

/* Move a few chains, or double the number of chains once all are moved. Returns false
 * without host memory. Blocks can then still be entered as long as there is any chain, but
 * look-ups take longer. The owner holds the lock, as for every call here but one. */
bool tarn__addresses_grow(struct tarn__addresses *addresses,
                          const struct tarn__nodes *nodes);

/* Reserve room for one more block. */
static inline bool tarn__addresses_reserve(struct tarn__addresses *addresses,
                                           const struct tarn__nodes *nodes)
{
    return addresses->count < addresses->room || tarn__addresses_grow(addresses, nodes);
}

/* Move a chain that is not moved yet, and its sibling. */
void tarn__addresses_move(struct tarn__chains *chains, const struct tarn__nodes *nodes,
                          size_t chain);

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

/* Load the chain of an address, at which a block is soon entered, into the processor's
 * caches. There is a chain. */
static inline void tarn__addresses_prefetch(const struct tarn__addresses *addresses,
                                            uint64_t address)
{
    const struct tarn__chains *chains = tarn__addresses_chains(addresses);

    __builtin_prefetch(&chains->first[tarn__addresses_chain_of(chains, address)], 1);
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

/* Return the link by which `index` is entered. Its chain is moved if it is not yet. */
static inline _Atomic tarn__index *tarn__addresses_chain_link(
    struct tarn__chains *chains, const struct tarn__nodes *nodes, tarn__index index)
{
    size_t chain = tarn__addresses_chain_of(chains, tarn__node(nodes, index)->address);
    _Atomic tarn__index *link = &chains->first[chain];
    tarn__index at;

    while ((at = tarn__addresses_chain_load(link)) != index)
        if (at == TARN__CHAIN_UNMOVED)
            tarn__addresses_move(chains, nodes, chain);
        else
            link = &tarn__node(nodes, at)->chain;
    return link;
}

/* Enter a node under its address, or remove it before it gets another address. */
static inline void tarn__addresses_add(struct tarn__addresses *addresses,
                                       const struct tarn__nodes *nodes, tarn__index index)
{
    struct tarn__chains *chains = tarn__addresses_chains(addresses);
    struct tarn__node *node = tarn__node(nodes, index);
    size_t chain = tarn__addresses_chain_of(chains, node->address);
    tarn__index first = tarn__addresses_chain_load(&chains->first[chain]);

    if (first == TARN__CHAIN_UNMOVED) {
        tarn__addresses_move(chains, nodes, chain);
        first = tarn__addresses_chain_load(&chains->first[chain]);
    }
    tarn__addresses_chain_store(&node->chain, first);
    tarn__addresses_chain_store(&chains->first[chain], index);
    addresses->count++;
}

static inline void tarn__addresses_remove(struct tarn__addresses *addresses,
                                          const struct tarn__nodes *nodes,
                                          tarn__index index)
{
    _Atomic tarn__index *link =
        tarn__addresses_chain_link(tarn__addresses_chains(addresses), nodes, index);

    tarn__addresses_chain_store(
        link, tarn__addresses_chain_load(&tarn__node(nodes, index)->chain));
    addresses->count--;
}

/* Replace `index` by `by`, which is not entered and has the same address. */
static inline void tarn__addresses_replace(struct tarn__addresses *addresses,
                                           const struct tarn__nodes *nodes,
                                           tarn__index index, tarn__index by)
{
    _Atomic tarn__index *link =
        tarn__addresses_chain_link(tarn__addresses_chains(addresses), nodes, index);

    tarn__addresses_chain_store(
        &tarn__node(nodes, by)->chain,
        tarn__addresses_chain_load(&tarn__node(nodes, index)->chain));
    tarn__addresses_chain_store(link, by);
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
    for (int looks = 0; index > TARN__CHAIN_END && looks < TARN__CHAIN_LOOKS; looks++) {
        const struct tarn__node *node = tarn__node(nodes, index);
        if (tarn__node_address(node) == address)
            return index;
        index = atomic_load_explicit(&node->chain, memory_order_acquire);
    }
    return 0;
}

/* Do the same in the old chain, if the chain of the address is not moved yet. */
tarn__index tarn__addresses_look_in_older(const struct tarn__addresses *addresses,
                                          const struct tarn__nodes *nodes,
                                          uint64_t address);

#endif
