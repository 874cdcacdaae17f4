/* binary_ring.h -- the blocks that are live before the first rows of a ring.
 *
 * To fold a chunk is to apply its rows to this set of blocks. The chunk can then be used
 * again. A turn folds the oldest chunks and writes the set as a checkpoint. */
#ifndef TARN_TRACE_BINARY_RING_H
#define TARN_TRACE_BINARY_RING_H

#include "base/map.h"
#include "trace/binary_chunks.h"

/* How often a writer without space lets the ring fold, before the ring exceeds its size or
 * a record is left out. */
enum { TARN__BINARY_FOLDS = 3 };

struct tarn__binary_ring {
    /* Guards all members below. It is taken before the lock of the chunks. */
    pthread_mutex_t lock;
    struct tarn__map live; /* address -> struct tarn__binary_row of its allocation */
    uint64_t *freed;       /* addresses whose free this turn has folded */
    size_t freed_count, freed_capacity;
    uint64_t checkpoint; /* number of the newest checkpoint; 0: none */
    uint32_t *places;    /* of its chunks; owned */
    uint32_t place_count;
};

void tarn__binary_ring_init(struct tarn__binary_ring *ring);
/* Free all memory. No thread may use the ring any more. */
void tarn__binary_ring_free(struct tarn__binary_ring *ring);

/* Fold the oldest chunks of rows into a checkpoint and free them, unless a ring can take
 * `enough` more chunks. Return false on failure: errno has the reason. The function takes
 * both locks. */
bool tarn__binary_ring_fold(struct tarn__binary_ring *ring,
                            struct tarn__binary_chunks *chunks, uint32_t enough);

/* Return true if a row with a time before `floor_ns` still belongs into the log. The free
 * of a block does not if the ring has folded a later allocation of its address, or knows
 * no such block. `lock` held. */
bool tarn__binary_ring_takes(const struct tarn__binary_ring *ring,
                             const struct tarn__binary_row *row);

#endif
