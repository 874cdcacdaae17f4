/* per_block.h -- pairs within one block. */
#ifndef TARN_PRUNE_PER_BLOCK_H
#define TARN_PRUNE_PER_BLOCK_H

#include "prune/function_index.h"

/* Remove every refop on null, then pairs of one value, in every block. */
bool tarn__per_block_prune(struct tarn__function_index *function_index);

#endif
