/* handed.h -- when a way raises, may a reference be somebody else's already?
 *
 * A way that raises loses the references that the function holds, and once a pair has gone
 * with a raising fan it loses one less. That is right if the function still holds the one
 * that its decrefs give back on the other ways. It need not. A reference may be taken for
 * somebody else, a list that lives on; IR does not say which is whose. So it is asked
 *
 *   - whether the value is stored before some raise. A callee that keeps it counts for
 *     itself;
 *   - whether it is taken again in the fan: then the decrefs may be for that one;
 *   - whether it was given back in the fan, by a decref that has gone since: then what is
 *     left may be the other's.
 */
#ifndef TARN_PRUNE_HANDED_H
#define TARN_PRUNE_HANDED_H

#include "prune/fan.h"

struct tarn__handed {
    struct tarn__fans *fans;
    bool *before_raise; /* by block: it leads to a raise, or has one */
    bool know_before_raise;
    unsigned char *stored; /* by value: where it matters; 0: not asked yet */
    uint32_t *increfs;     /* refops, by value and then as the dominator tree is walked */
    uint32_t *next;        /* for a place: one further on, to go on from if it is gone */
    uint32_t *first; /* value v has increfs[first[v]] .. increfs[first[v + 1] - 1] */
};

/* False: no host memory. */
bool tarn__handed_open(struct tarn__handed *handed, struct tarn__fans *fans);

/* For an incref of the fan's head: a block of the fan that speaks against it, or
 * TARN__NONE. */
uint32_t tarn__handed_over(struct tarn__handed *handed, const struct tarn__fan *fan,
                           uint32_t incref);

#endif
