/* tail_decref.h -- tail decrefs: may a decref be removed, given the code before it in
 * its own block?
 *
 * A block in which a pair ends may release other objects first. One of them may hold the
 * last other reference to the pair's object. With the pair removed, that object dies
 * there and not at its own decref. That is harmless as long as nothing touches memory in
 * between.
 */
#ifndef TARN_PRUNE_TAIL_DECREF_H
#define TARN_PRUNE_TAIL_DECREF_H

#include "prune/function_index.h"

struct tarn__tail_decrefs {
    struct tarn__function_index *function_index;
    uint32_t *first;   /* by block: no decref before this refop still exists */
    uint32_t *blocked; /* by block: this refop and later ones follow a use that follows a
                   * decref; TARN__NONE: not searched */
};

/* False: no host memory. */
bool tarn__tail_decref_open(struct tarn__tail_decrefs *tail_decrefs,
                            struct tarn__function_index *function_index);
/* Decrefs were removed; search again from now on. */
void tarn__tail_decref_renew(struct tarn__tail_decrefs *tail_decrefs);

/* Is there a use of memory between another decref of the block and this one, the first of
 * its value? */
bool tarn__tail_decref_is_blocked(struct tarn__tail_decrefs *tail_decrefs,
                                  uint32_t decref);
/* That use, for a blocked decref. */
LLVMValueRef tarn__tail_decref_use(struct tarn__tail_decrefs *tail_decrefs,
                                   uint32_t decref);

/* Does an instruction between these two of one block touch memory? */
bool tarn__tail_decref_use_between(LLVMValueRef first, LLVMValueRef last);

#endif
