/* ownership.h -- ownership transfer: on a path that raises, may another owner hold the
 * reference?
 *
 * A path that raises loses the references that the function holds. Once a pair was
 * removed with a raising region, it loses one less. That is right if the function still
 * holds the reference that its decrefs release on the other paths. But a reference may be
 * taken for another owner, a list that lives on. IR does not tell which reference is
 * whose. So these checks are made:
 *
 *   - Is the value stored on the path, where no decref is reached any more, before the
 *     raise or behind it? Then that may be the reference of the pair.
 *   - Is it stored before some raise? A callee that keeps it counts for itself. If so:
 *   - Is it taken again in the region? Then the decrefs may be for that reference.
 *   - Was it released in the region, by a decref that was removed since? Then the
 *     remaining reference may be the other owner's.
 */
#ifndef TARN_PRUNE_OWNERSHIP_H
#define TARN_PRUNE_OWNERSHIP_H

#include "prune/fanout_region.h"

struct tarn__ownership {
    struct tarn__fanout_regions *regions;
    bool *before_raise; /* by block: it leads to a raise, or has one */
    bool know_before_raise;
    unsigned char *stored; /* by value: where it is stored; 0: not checked yet */
    bool *leads; /* by block: it leads to a decref of the value that was looked at last */
    uint32_t *
        stored_in; /* by block that leads to no decref of the value: 1 + the last value that was
                            * found to be stored there */
    uint32_t *increfs; /* refops, by value and then in the order of a dominator
                            * tree walk */
    uint32_t *next;    /* for a place: the next place to try if its incref is gone */
    uint32_t *first;   /* value v has increfs[first[v]] .. increfs[first[v + 1] - 1] */
};

/* False: no host memory. */
bool tarn__ownership_open(struct tarn__ownership *ownership,
                          struct tarn__fanout_regions *regions);

/* For an incref of the region's head: a block of the region that forbids removal, or
 * TARN__NONE. */
uint32_t tarn__ownership_transferred(struct tarn__ownership *ownership,
                                     const struct tarn__fanout_region *region,
                                     uint32_t incref);

/* Can the reference leave the function through this use, or continue under another name?
 */
bool tarn__ownership_may_store(LLVMValueRef user, LLVMValueRef value);

/* Is the incref's value stored somewhere in the function? */
bool tarn__ownership_is_stored(struct tarn__ownership *ownership, uint32_t incref);

#endif
