/* make.h -- makes a plan of blocks whose times are known. */
#ifndef TARN_PLAN_MAKE_H
#define TARN_PLAN_MAKE_H

#include "plan/plan.h"

/* Create a plan with space for `blocks` slots, and none. TARN_OUT_OF_MEMORY: no host
 * memory. TARN_NOT_SUPPORTED: more than TARN__PLAN_SLOTS_MAX blocks. */
tarn_status tarn__make_empty(uint64_t blocks, tarn_plan **out);

/* Set the rules of a plan, lay its slots out and count its waits. The caller has set all
 * of a slot but its offset, the counts of the plan, and the peak live.
 *
 * TARN_INVALID_ARGUMENT: an option is invalid. TARN_OUT_OF_MEMORY: no host memory.
 * TARN_NOT_SUPPORTED: the blocks need 2^32 quanta or more. */
tarn_status tarn__make_layout(tarn_plan *plan, const tarn_plan_options *options);
/* Do the same for a step that a pool has recorded, in less time: the pool moves pages where
 * the plan is a little too high. Work without a stream waits for the device. */
tarn_status tarn__make_layout_of_step(tarn_plan *plan);

#endif
