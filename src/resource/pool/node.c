/* node.c -- the store of nodes. */
#include "resource/pool/node.h"
#include <stdlib.h>

static bool add_chunk(struct tarn__nodes *nodes)
{
    if (nodes->chunk_count == TARN__CHUNKS)
        return false;
    struct tarn__node *chunk = calloc(TARN__CHUNK_NODES, sizeof *chunk);
    if (!chunk)
        return false;
    atomic_store_explicit(&nodes->chunks[nodes->chunk_count++], chunk,
                          memory_order_release);
    return true;
}

bool tarn__nodes_add(struct tarn__nodes *nodes, size_t count)
{
    if (nodes->made == 0 && nodes->chunk_count == 0) {
        if (!add_chunk(nodes))
            return false;
        nodes->made = 1; /* index 0 means none */
    }
    while (nodes->unused_count + nodes->chunk_count * TARN__CHUNK_NODES - nodes->made <
           count)
        if (!add_chunk(nodes))
            return false;
    return true;
}

void tarn__nodes_free(struct tarn__nodes *nodes)
{
    for (size_t i = 0; i < nodes->chunk_count; i++)
        free(atomic_load_explicit(&nodes->chunks[i], memory_order_relaxed));
}

size_t tarn__nodes_metadata(const struct tarn__nodes *nodes)
{
    return nodes->chunk_count * TARN__CHUNK_NODES * sizeof(struct tarn__node);
}
