/* addresses.c -- the hash table from the addresses of blocks to their nodes. */
#include "pool/blocks/addresses.h"
#include "base/hash.h"
#include <stdlib.h>

enum { CHAINS_FIRST_LOG = 10, BITS = 64 };

static size_t how_many(const struct tarn__chains *chains)
{
    return (size_t)1 << (BITS - chains->shift);
}

/* Double the number of chains; the old ones stay for readers that still walk them. */
static bool grow(struct tarn__addresses *addresses, const struct tarn__nodes *nodes)
{
    struct tarn__chains *old = tarn__addresses_chains(addresses);
    unsigned log = old ? BITS - old->shift + 1 : CHAINS_FIRST_LOG;
    size_t bytes = sizeof *old + ((size_t)1 << log) * sizeof old->first[0];
    struct tarn__chains *chains = calloc(1, bytes);

    if (!chains)
        return false;
    chains->older = old;
    chains->factor = tarn__hash_factor();
    chains->shift = BITS - log;
    for (size_t i = 0; old && i < how_many(old); i++)
        for (tarn__index index = tarn__addresses_chain_load(&old->first[i]), next; index;
             index = next) {
            next = tarn__addresses_chain_load(&tarn__node(nodes, index)->chain);
            tarn__addresses_chain_push(chains, nodes, index);
        }
    addresses->metadata += bytes;
    addresses->room = how_many(chains);
    atomic_store_explicit(&addresses->chains, chains, memory_order_release);
    return true;
}

bool tarn__addresses_grow(struct tarn__addresses *addresses,
                          const struct tarn__nodes *nodes, size_t count)
{
    while (addresses->count + count > addresses->room)
        if (!grow(addresses, nodes))
            return false;
    return true;
}

tarn__index tarn__addresses_find(const struct tarn__addresses *addresses,
                                 const struct tarn__nodes *nodes, uint64_t address)
{
    const struct tarn__chains *chains = tarn__addresses_chains(addresses);
    tarn__index index =
        chains ? tarn__addresses_chain_load(
                     &chains->first[tarn__addresses_chain_of(chains, address)])
               : 0;

    while (index && tarn__node(nodes, index)->address != address)
        index = tarn__addresses_chain_load(&tarn__node(nodes, index)->chain);
    return index;
}

void tarn__addresses_free(struct tarn__addresses *addresses)
{
    struct tarn__chains *older;

    for (struct tarn__chains *i = tarn__addresses_chains(addresses); i; i = older) {
        older = i->older;
        free(i);
    }
}
