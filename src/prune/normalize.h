/* normalize.h -- the decrefs of a block, moved to its end. */
#ifndef TARN_PRUNE_NORMALIZE_H
#define TARN_PRUNE_NORMALIZE_H

#include "prune/function_index.h"

/* In each block with an incref move all decrefs, in order, behind everything else. */
void tarn__normalize(struct tarn__function_index *function_index);

#endif
