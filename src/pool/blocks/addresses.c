/* addresses.c -- the hash table from the addresses of blocks to their nodes. */
#define _GNU_SOURCE
#include "pool/blocks/addresses.h"
#include "base/hash.h"
#include <sys/mman.h>

/* A reservation moves so many old chains. All are moved long before their number doubles
 * again. */
enum { CHAINS_FIRST_LOG = 10, BITS = 64, MOVED_AT_ONCE = 4 };

static size_t how_many(const struct tarn__chains *chains)
{
    return (size_t)1 << (BITS - chains->shift);
}

static size_t bytes_of(unsigned log)
{
    return sizeof(struct tarn__chains) + ((size_t)1 << log) * sizeof(tarn__index);
}

/* Make a twice as large array of chains, none of them moved. The system provides the
 * zeros page by page, when a chain is first written. */
static bool add_chains(struct tarn__addresses *addresses)
{
    struct tarn__chains *old = tarn__addresses_chains(addresses);
    unsigned log = old ? BITS - old->shift + 1 : CHAINS_FIRST_LOG;
    struct tarn__chains *chains = mmap(NULL, bytes_of(log), PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (chains == MAP_FAILED)
        return false;
    chains->older = old;
    chains->factor = tarn__hash_factor();
    chains->shift = BITS - log;
    addresses->metadata += bytes_of(log);
    addresses->moved = 0;
    addresses->room = old ? 0 : how_many(chains);
    atomic_store_explicit(&addresses->chains, chains, memory_order_release);
    return true;
}

/* Readers see each of the two new chains when it is complete. */
void tarn__addresses_move(struct tarn__chains *chains, const struct tarn__nodes *nodes,
                          size_t chain)
{
    size_t lower = chain & ~(size_t)1;
    tarn__index first[2] = {TARN__CHAIN_END, TARN__CHAIN_END}, next;
    tarn__index index = TARN__CHAIN_END;

    if (chains->older)
        index = tarn__addresses_chain_load(&chains->older->first[lower / 2]);
    for (; index > TARN__CHAIN_END; index = next) {
        struct tarn__node *node = tarn__node(nodes, index);
        tarn__index *to = &first[tarn__addresses_chain_of(chains, node->address) - lower];
        next = tarn__addresses_chain_load(&node->chain);
        tarn__addresses_chain_store(&node->chain, *to);
        *to = index;
    }
    tarn__addresses_chain_store(&chains->first[lower], first[0]);
    tarn__addresses_chain_store(&chains->first[lower + 1], first[1]);
}

/* Move a few chains, or note that all are moved. */
static void move_some(struct tarn__addresses *addresses, const struct tarn__nodes *nodes)
{
    struct tarn__chains *chains = tarn__addresses_chains(addresses);
    size_t old = how_many(chains) / 2;

    for (int i = 0; i < MOVED_AT_ONCE && addresses->moved < old; i++) {
        size_t chain = 2 * addresses->moved++;
        if (tarn__addresses_chain_load(&chains->first[chain]) == TARN__CHAIN_UNMOVED)
            tarn__addresses_move(chains, nodes, chain);
    }
    if (addresses->moved == old)
        addresses->room = how_many(chains);
}

bool tarn__addresses_grow(struct tarn__addresses *addresses,
                          const struct tarn__nodes *nodes)
{
    if (addresses->room == 0 && tarn__addresses_chains(addresses)) {
        move_some(addresses, nodes);
        return true;
    }
    return add_chains(addresses);
}

/* Return the node of `address` in a chain; 0: it is not there, as far as `looks` nodes
 * show. */
static tarn__index find_in(const struct tarn__nodes *nodes, tarn__index index,
                           uint64_t address, size_t looks)
{
    while (index > TARN__CHAIN_END && looks-- > 0) {
        if (tarn__node_address(tarn__node(nodes, index)) == address)
            return index;
        index =
            atomic_load_explicit(&tarn__node(nodes, index)->chain, memory_order_acquire);
    }
    return 0;
}

/* Return the first node of the chain of an address, or of its old chain if it is not moved
 * yet. */
static tarn__index first_of(const struct tarn__chains *chains, uint64_t address)
{
    tarn__index first = TARN__CHAIN_UNMOVED;

    for (; chains && first == TARN__CHAIN_UNMOVED; chains = chains->older)
        first = atomic_load_explicit(
            &chains->first[tarn__addresses_chain_of(chains, address)],
            memory_order_acquire);
    return first;
}

tarn__index tarn__addresses_look_in_older(const struct tarn__addresses *addresses,
                                          const struct tarn__nodes *nodes,
                                          uint64_t address)
{
    const struct tarn__chains *chains =
        atomic_load_explicit(&addresses->chains, memory_order_acquire);

    return find_in(nodes, first_of(chains, address), address, TARN__CHAIN_LOOKS);
}

tarn__index tarn__addresses_find(const struct tarn__addresses *addresses,
                                 const struct tarn__nodes *nodes, uint64_t address)
{
    return find_in(nodes, first_of(tarn__addresses_chains(addresses), address), address,
                   SIZE_MAX);
}

void tarn__addresses_free(struct tarn__addresses *addresses)
{
    struct tarn__chains *older;

    for (struct tarn__chains *i = tarn__addresses_chains(addresses); i; i = older) {
        older = i->older;
        munmap(i, bytes_of(BITS - i->shift));
    }
}
