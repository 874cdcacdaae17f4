/* cost.h -- the driver calls of a pool that learns.
 *
 * Blocks that stay in other places in each step, and shapes that are not planned, have memory
 * move all the time. A plain pool limits its moves (compact/budget.h), a pool that learns does
 * not. So it counts its allocations, and the driver calls that obtain, map and release memory, of
 * TARN__COST_STEPS steps at a time. After TARN__COST_PERIODS periods in a row with too many calls
 * learning ends. A period without a new plan and with hardly any call is quiet: the memory is
 * where the plans need it.
 */
#ifndef TARN_POOL_FOLLOW_COST_H
#define TARN_POOL_FOLLOW_COST_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TARN__COST_STEPS = 32, /* of a period */
    TARN__COST_PART = 5,   /* more calls than this part of the allocations are too many */
    TARN__COST_PERIODS = 3,     /* the first ones have new plans */
    TARN__COST_QUIET_PART = 256 /* at most this part of the allocations is hardly any */
};

struct tarn__cost_counts {
    uint64_t calls, allocations;
};

struct tarn__cost {
    uint64_t calls_seen;             /* all calls of the pool, when the last step ended */
    struct tarn__cost_counts period; /* of the steps of this period */
    struct tarn__cost_counts last;   /* of the period that has ended */
    uint32_t steps;                  /* of this period */
    uint32_t costly;                 /* periods in a row */
    bool has_new_plan;               /* this period */
    bool is_quiet; /* the period that has ended, and there is no new plan since then */
};

/* Note the end of a step of so many allocations, by when the pool has made so many calls. A step
 * without an allocation does not count. Returns true if the calls of the last periods were too
 * many. */
bool tarn__cost_note_step(struct tarn__cost *cost, uint64_t calls, uint64_t allocations);

/* Note a new plan: memory moves to its addresses. */
void tarn__cost_note_plan(struct tarn__cost *cost);

#endif
