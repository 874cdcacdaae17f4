/* raise_metadata.h -- raise metadata: does a block raise? */
#ifndef TARN_PRUNE_RAISE_METADATA_H
#define TARN_PRUNE_RAISE_METADATA_H

#include "prune/function_index.h"

/* Does the block have raise metadata that the options name? Searched once. */
bool tarn__raise_metadata_block_raises(struct tarn__function_index *function_index,
                                       uint32_t block);

#endif
