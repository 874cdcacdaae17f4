/* node.c -- the store of nodes. */
#define _GNU_SOURCE
#include "pool/blocks/node.h"
#include <sys/mman.h>

/* Nodes that get memory at once: whole pages of the host. The most nodes, in 8 GiB of
 * addresses, which cost nothing. The fewest, where there are fewer addresses. */
enum { MORE = 1 << 12, MOST = 1 << 27, LEAST = 1 << 18 };

/* Reserve addresses for many nodes, without memory. */
static bool reserve_addresses(struct tarn__nodes *nodes)
{
    void *all = MAP_FAILED;
    size_t most = MOST;

    for (; all == MAP_FAILED && most >= LEAST; most /= 2)
        all = mmap(NULL, most * sizeof(struct tarn__node), PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return false;
    nodes->all = all;
    nodes->most = 2 * most;
    nodes->made = TARN__NODE_WORDS; /* index 0 means none */
    return true;
}

bool tarn__nodes_add(struct tarn__nodes *nodes, size_t count)
{
    if (!nodes->all && !reserve_addresses(nodes))
        return false;
    while (nodes->unused_count + nodes->room < nodes->made / TARN__NODE_WORDS + count) {
        if (nodes->room + MORE > nodes->most ||
            mprotect(nodes->all + nodes->room * TARN__NODE_WORDS,
                     MORE * sizeof(struct tarn__node), PROT_READ | PROT_WRITE) != 0)
            return false;
        nodes->room += MORE;
    }
    return true;
}

void tarn__nodes_free(struct tarn__nodes *nodes)
{
    if (nodes->all)
        munmap(nodes->all, nodes->most * sizeof(struct tarn__node));
}

size_t tarn__nodes_metadata(const struct tarn__nodes *nodes)
{
    return nodes->room * sizeof(struct tarn__node);
}
