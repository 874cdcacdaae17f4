/* counter.h -- counters: code that counts how often an incref runs. */
#ifndef TARN_PRUNE_COUNTER_H
#define TARN_PRUNE_COUNTER_H

#include "prune/function_index.h"

/* Count each execution of the incref with an object. */
void tarn__counter_insert(struct tarn__function_index *function_index,
                          const struct tarn__refop *incref, const uint64_t *counter);

/* Remove all counters of a function. Code that was counted may be linked into a module
 * that is pruned again. */
void tarn__counter_remove_all(struct tarn__pruning *pruning, LLVMValueRef function);

#endif
