/* addresses.c -- chains of nodes by their addresses. */
#include "resource/pool/addresses.h"
#include <stdlib.h>

enum { CHAINS_FIRST_LOG = 10, BITS = 64 };

static size_t how_many(const struct tarn__chains *chains)
{
    return (size_t)1 << (BITS - chains->shift);
}

/* All changes are made under the lock, so what it protects is read as it is. */
static struct tarn__chains *chains_of(const struct tarn__addresses *addresses)
{
    return atomic_load_explicit(&addresses->chains, memory_order_relaxed);
}

static tarn__index load(const _Atomic tarn__index *link)
{
    return atomic_load_explicit(link, memory_order_relaxed);
}

static void store(_Atomic tarn__index *link, tarn__index index)
{
    atomic_store_explicit(link, index, memory_order_release);
}

static void push(struct tarn__chains *chains, const struct tarn__nodes *nodes,
                 tarn__index index)
{
    struct tarn__node *node = tarn__node(nodes, index);
    _Atomic tarn__index *first = &chains->first[tarn__chain_of(chains, node->address)];

    store(&node->chain, load(first));
    store(first, index);
}

/* The link by which `index` is entered. */
static _Atomic tarn__index *link_to(struct tarn__chains *chains,
                                    const struct tarn__nodes *nodes, tarn__index index)
{
    uint64_t address = tarn__node(nodes, index)->address;
    _Atomic tarn__index *link = &chains->first[tarn__chain_of(chains, address)];

    while (load(link) != index)
        link = &tarn__node(nodes, load(link))->chain;
    return link;
}

/* Twice as many chains; the old ones stay for who still reads them. */
static bool grow(struct tarn__addresses *addresses, const struct tarn__nodes *nodes)
{
    struct tarn__chains *old = chains_of(addresses);
    unsigned log = old ? BITS - old->shift + 1 : CHAINS_FIRST_LOG;
    size_t bytes = sizeof *old + ((size_t)1 << log) * sizeof old->first[0];
    struct tarn__chains *chains = calloc(1, bytes);

    if (!chains)
        return false;
    chains->older = old;
    chains->shift = BITS - log;
    for (size_t i = 0; old && i < how_many(old); i++)
        for (tarn__index index = load(&old->first[i]), next; index; index = next) {
            next = load(&tarn__node(nodes, index)->chain);
            push(chains, nodes, index);
        }
    addresses->metadata += bytes;
    atomic_store_explicit(&addresses->chains, chains, memory_order_release);
    return true;
}

bool tarn__addresses_reserve(struct tarn__addresses *addresses,
                             const struct tarn__nodes *nodes, size_t count)
{
    while (!chains_of(addresses) ||
           addresses->count + count > how_many(chains_of(addresses)))
        if (!grow(addresses, nodes))
            return false;
    return true;
}

void tarn__addresses_add(struct tarn__addresses *addresses,
                         const struct tarn__nodes *nodes, tarn__index index)
{
    push(chains_of(addresses), nodes, index);
    addresses->count++;
}

void tarn__addresses_remove(struct tarn__addresses *addresses,
                            const struct tarn__nodes *nodes, tarn__index index)
{
    store(link_to(chains_of(addresses), nodes, index),
          load(&tarn__node(nodes, index)->chain));
    addresses->count--;
}

void tarn__addresses_replace(struct tarn__addresses *addresses,
                             const struct tarn__nodes *nodes, tarn__index index,
                             tarn__index by)
{
    store(&tarn__node(nodes, by)->chain, load(&tarn__node(nodes, index)->chain));
    store(link_to(chains_of(addresses), nodes, index), by);
}

tarn__index tarn__addresses_find(const struct tarn__addresses *addresses,
                                 const struct tarn__nodes *nodes, uint64_t address)
{
    const struct tarn__chains *chains = chains_of(addresses);
    tarn__index index =
        chains ? load(&chains->first[tarn__chain_of(chains, address)]) : 0;

    while (index && tarn__node(nodes, index)->address != address)
        index = load(&tarn__node(nodes, index)->chain);
    return index;
}

void tarn__addresses_free(struct tarn__addresses *addresses)
{
    struct tarn__chains *older;

    for (struct tarn__chains *i = chains_of(addresses); i; i = older) {
        older = i->older;
        free(i);
    }
}
