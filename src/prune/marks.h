/* marks.h -- does a block raise? Compilers say so with metadata. */
#ifndef TARN_PRUNE_MARKS_H
#define TARN_PRUNE_MARKS_H

#include "prune/view.h"

/* Does the block have one of the marks that the options ask for? */
bool tarn__block_raises(struct tarn__pruning *pruning, LLVMBasicBlockRef block);

#endif
