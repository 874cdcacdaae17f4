/* cost.c -- the driver calls of a pool that learns. */
#include "pool/follow/cost.h"

bool tarn__cost_note_step(struct tarn__cost *cost, uint64_t calls, uint64_t allocations)
{
    uint64_t more = calls - cost->calls_seen;

    cost->calls_seen = calls;
    if (allocations == 0)
        return false;
    cost->period.calls += more;
    cost->period.allocations += allocations;
    if (++cost->steps < TARN__COST_STEPS)
        return false;
    bool is_costly = cost->period.calls > cost->period.allocations / TARN__COST_PART;
    cost->costly = is_costly ? cost->costly + 1 : 0;
    cost->is_quiet =
        !cost->has_new_plan &&
        cost->period.calls <= cost->period.allocations / TARN__COST_QUIET_PART;
    cost->has_new_plan = false;
    cost->last = cost->period;
    cost->period = (struct tarn__cost_counts){0, 0};
    cost->steps = 0;
    return cost->costly == TARN__COST_PERIODS;
}

void tarn__cost_note_plan(struct tarn__cost *cost)
{
    cost->has_new_plan = true;
    cost->is_quiet = false;
}
