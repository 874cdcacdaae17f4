/* roots.h -- the blocks from which post-dominator trees start. */
#ifndef TARN_PRUNE_ROOTS_H
#define TARN_PRUNE_ROOTS_H

#include "prune/cfg.h"

/* Find the blocks from which LLVM starts a post-dominator tree: those that end the
 * function, and one for each part of it that never ends. `roots` has space for every
 * block. False: no host memory. */
bool tarn__roots_of_post_dominators(const struct tarn__cfg *cfg,
                                    struct tarn__arena *arena, uint32_t *roots,
                                    uint32_t *count_out);

#endif
