/* layout.h -- lays out the blocks of a plan: the best of several orders. */
#ifndef TARN_PLAN_LAYOUT_H
#define TARN_PLAN_LAYOUT_H

#include "plan/plan.h"

/* How long to search. */
struct tarn__layout_effort {
    uint64_t blocks;      /* as long as is usual for so many blocks */
    uint32_t enough_part; /* or until the height is at most the least and such a part of
                           * it; 0: until it is the least */
};

/* Set the offsets of all slots, and the height of the plan. The result depends on nothing
 * but the slots, the rules and the effort.
 *
 * TARN_OUT_OF_MEMORY: no host memory. TARN_NOT_SUPPORTED: no layout is below 2^32
 * quanta. */
tarn_status tarn__layout_make(struct tarn_plan *plan,
                              const struct tarn__layout_effort *effort);

/* The most quanta that are live at once: no layout is lower. false: no host memory. */
bool tarn__layout_bound(const struct tarn_plan *plan, uint64_t *out);

#endif
