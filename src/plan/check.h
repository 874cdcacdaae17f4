/* check.h -- the verifier of plans, independent of what lays blocks out. */
#ifndef TARN_PLAN_CHECK_H
#define TARN_PLAN_CHECK_H

#include "plan/plan.h"

/* Check the invariants of plan.h. TARN_BAD_FORMAT: one does not hold; the message begins
 * with `name`. TARN_OUT_OF_MEMORY: no host memory for the check. */
tarn_status tarn__check_plan(const char *name, const struct tarn_plan *plan);

#endif
