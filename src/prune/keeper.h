/* keeper.h -- keepers: does another reference of the function keep an object alive while
 * the pair of an incref is gone?
 *
 * A releasing call between an incref and its decref may release the references of other
 * owners. The pair may go if the object lives all the same. How many references the
 * function has behind the incref is counted by name: at least as many as the most decrefs
 * of the value on a path from there that belong to no incref on the way.
 *
 *   - It has two: one is left.
 *   - It has one, and the value is a parameter. The caller holds what it passes for the
 *     whole call. A function with an invoked decref, or a call of NRT_MemInfo_release,
 *     may release a parameter itself: there this does not count.
 *
 * Between the incref and the decrefs of its pair no decref of any value stands. So the
 * references are held for the whole time. A store in between may give one to another owner,
 * so across blocks the value must not be stored. Within a block the decrefs follow the
 * store, so those references are still held behind it.
 */
#ifndef TARN_PRUNE_KEEPER_H
#define TARN_PRUNE_KEEPER_H

#include "prune/cfg.h"

struct tarn__keeper {
    struct tarn__function_index *function_index;
    const struct tarn__cfg *cfg;
    size_t steps, most_steps; /* beyond the limit nothing is held */
    int wanted;               /* by the current search: so many references */
    uint32_t search;

    /* By block: */
    uint32_t *seen;     /* by the search of that number */
    signed char *found; /* most decrefs without an incref, on the paths to the block */
    uint32_t *stack;    /* each block may be in it once */
    bool *waits;        /* is it there? */
};

/* False: no host memory. */
bool tarn__keeper_open(struct tarn__keeper *keeper,
                       struct tarn__function_index *function_index,
                       const struct tarn__cfg *cfg);

/* Is another reference to the incref's value held behind it? */
bool tarn__keeper_holds(struct tarn__keeper *keeper, uint32_t incref);

#endif
