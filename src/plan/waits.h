/* waits.h -- the waits between streams that a plan expects. */
#ifndef TARN_PLAN_WAITS_H
#define TARN_PLAN_WAITS_H

#include "plan/plan.h"

struct tarn__waits {
    uint64_t handovers; /* allocations of addresses that another stream freed last */
    uint64_t waits;     /* waits that these need, while the device lags */
};

/* Count. A wait of one stream for another covers all that the other freed before it.
 * TARN_OUT_OF_MEMORY: no host memory for the count. */
tarn_status tarn__waits_count(const struct tarn_plan *plan, struct tarn__waits *out);

#endif
