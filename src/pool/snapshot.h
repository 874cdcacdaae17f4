/* snapshot.h -- a copy of a pool's blocks, made one slice at a time. */
#ifndef TARN_POOL_SNAPSHOT_H
#define TARN_POOL_SNAPSHOT_H

#include "pool/blocks/node.h"
#include <tarn/pool.h>

enum { TARN__SLICE = 256 }; /* blocks for which the heap's lock is held */

struct tarn__pool;

/* Blocks by address, without gaps within a segment; all zeros at first. */
struct tarn__snapshot {
    tarn_pool_block *blocks;
    tarn__index *nodes; /* the node of each block */
    size_t count, room;
    uint64_t end; /* everything below it was copied */
};

/* Copy the next slice. TARN_OUT_OF_MEMORY: no host memory; nothing was copied. */
tarn_status tarn__snapshot_copy(struct tarn__pool *pool, struct tarn__snapshot *copy,
                                bool *more_out);
void tarn__snapshot_free(struct tarn__snapshot *copy);

#endif
