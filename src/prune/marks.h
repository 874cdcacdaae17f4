/* marks.h -- raise metadata: does a block raise? */
#ifndef TARN_PRUNE_MARKS_H
#define TARN_PRUNE_MARKS_H

#include "prune/view.h"

/* Does the block have one of the marks that the options name? Searched once. */
bool tarn__block_raises(struct tarn__view *view, uint32_t block);

#endif
