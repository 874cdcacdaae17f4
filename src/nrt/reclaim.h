/* reclaim.h -- return the memory of a freed block. */
#ifndef TARN_NRT_RECLAIM_H
#define TARN_NRT_RECLAIM_H

#include "nrt/block.h"

/* Return the memory of a block to its slab or its allocator. Its header is no longer
 * needed. */
void tarn__reclaim_block(struct tarn__block *block);

#endif
