/* cycles.h -- which blocks lie on a cycle. */
#ifndef TARN_PRUNE_CYCLES_H
#define TARN_PRUNE_CYCLES_H

#include "prune/cfg.h"

/* Tables for a search; allocated once per function. */
struct tarn__cycles {
    uint32_t *number; /* by block: order of discovery, from 1; 0: not yet */
    uint32_t *lowest; /* by block: the lowest number on the path that it reaches */
    uint32_t *path;   /* blocks whose component is not complete */
    bool *on_path;
    uint32_t *open; /* blocks whose targets are being visited */
    size_t *next;   /* by block: the next target */
};

/* False: no host memory. */
bool tarn__cycles_open(struct tarn__cycles *cycles, uint32_t blocks,
                       struct tarn__arena *arena);

/* Set cyclic[b] for each block b that can return to itself without passing a block b'
 * where stops[b'] is not 0; clear it for all others. */
void tarn__cycles_find(struct tarn__cycles *cycles, const struct tarn__cfg *cfg,
                       const uint32_t *stops, bool *cyclic);

#endif
