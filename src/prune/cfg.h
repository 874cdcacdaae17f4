/* cfg.h -- the control flow graph: the successors and predecessors of each block.
 *
 * LLVM-C has only the successors of a block. Both lists are made once, as numbers;
 * control flow never changes while the pruner works.
 */
#ifndef TARN_PRUNE_CFG_H
#define TARN_PRUNE_CFG_H

#include "prune/function_index.h"

struct tarn__cfg {
    uint32_t blocks;
    size_t edges;      /* a switch may have several to one block; each is counted */
    size_t *first_out; /* block b leads to targets[first_out[b]] and on */
    uint32_t *targets; /* in the order of the terminator */
    size_t *first_in;  /* block b is reached from sources[first_in[b]] and on */
    uint32_t *sources;

    const LLVMBasicBlockRef *names; /* by number; borrowed from the view */
    uint32_t *slots;                /* by name: number + 1, or 0 */
    size_t slot_mask;
};

/* False: no host memory. Every block has a terminator. */
bool tarn__cfg_open(struct tarn__cfg *cfg,
                    const struct tarn__function_index *function_index);

/* The number of a block of the function. */
uint32_t tarn__cfg_number(const struct tarn__cfg *cfg, LLVMBasicBlockRef block);

/* The graph with reversed edges; it shares the arrays. */
struct tarn__cfg tarn__cfg_reversed(const struct tarn__cfg *cfg);

#endif
