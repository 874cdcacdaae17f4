/* layout.h -- lays out the blocks of a plan: the best of several orders. */
#ifndef TARN_PLAN_LAYOUT_H
#define TARN_PLAN_LAYOUT_H

#include "plan/plan.h"

/* Set the offsets of all slots, and the height of the plan. The result depends on nothing
 * but the slots, the rules and the effort, which is a multiple of the usual one.
 *
 * TARN_OUT_OF_MEMORY: no host memory. TARN_NOT_SUPPORTED: no layout is below 2^32
 * quanta. */
tarn_status tarn__layout_make(struct tarn_plan *plan, unsigned effort);

/* The most quanta that are live at once: no layout is lower. false: no host memory. */
bool tarn__layout_bound(const struct tarn_plan *plan, uint64_t *out);

#endif
