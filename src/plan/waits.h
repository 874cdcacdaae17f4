/* waits.h -- the waits between streams that a plan expects. */
#ifndef TARN_PLAN_WAITS_H
#define TARN_PLAN_WAITS_H

#include "plan/plan.h"

/* Set `handovers`, the allocations of addresses that another stream freed last, and
 * `waits`, the waits that these need while the device lags. A wait of one stream for
 * another covers all that the other freed before it.
 *
 * Set `next` of all slots. TARN__PLAN_NEXT_NOBODY: no slot of the plan has the addresses
 * afterwards. Steps repeat, so the next step has them.
 *
 * TARN_OUT_OF_MEMORY: no host memory for the count. */
tarn_status tarn__waits_count(struct tarn_plan *plan);

#endif
