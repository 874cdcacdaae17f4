/* owners.h -- for each slot of a plan, the slots that had its addresses before it.
 *
 * The address range is kept in pieces. A piece has the slot that took it last. A slot
 * that begins replaces the pieces below it by one of its own. So a sweep over n slots
 * visits at most 3n pairs.
 */
#ifndef TARN_PLAN_OWNERS_H
#define TARN_PLAN_OWNERS_H

#include "plan/plan.h"

/* `from` had an address of `to` last before it. Return false to end the sweep. A pair can
 * be visited more than once, in one go. */
typedef bool tarn__owners_visit_fn(void *data, const struct tarn__plan_slot *from,
                                   const struct tarn__plan_slot *to);

/* Visit the pairs of all slots, in the order of the later slot. The slots are sorted by
 * start, not empty, and end below 2^32 quanta. TARN_OUT_OF_MEMORY: no host memory;
 * `*ended_out`: the visitor ended the sweep. */
tarn_status tarn__owners_sweep(const struct tarn__plan_slot *slots, size_t count,
                               tarn__owners_visit_fn *visit, void *data, bool *ended_out);

#endif
