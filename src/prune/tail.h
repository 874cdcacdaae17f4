/* tail.h -- may a decref go, for all that stands before it in its own block?
 *
 * A block in which a pair ends may release other objects first. One of them may hold the
 * last other reference to ours: with the pair gone, ours dies there and not at its own
 * decref. That is harmless as long as nothing touches memory in between.
 */
#ifndef TARN_PRUNE_TAIL_H
#define TARN_PRUNE_TAIL_H

#include "prune/view.h"

struct tarn__tails {
    struct tarn__view *view;
    uint32_t *first; /* by block: no decref before this refop is still there */
    uint32_t
        *blocked; /* by block: this refop and those behind it come after a use that comes
                          after a decref; TARN__NONE: not looked for */
};

/* False: no host memory. */
bool tarn__tails_open(struct tarn__tails *tails, struct tarn__view *view);
/* Decrefs are gone; look again from now on. */
void tarn__tails_renew(struct tarn__tails *tails);

/* Is a use of memory between another decref of the block and this one, the first of its
 * value? */
bool tarn__tail_blocked(struct tarn__tails *tails, uint32_t decref);
/* That use, for a decref that is blocked. */
LLVMValueRef tarn__tail_use(struct tarn__tails *tails, uint32_t decref);

#endif
