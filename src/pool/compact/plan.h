/* plan.h -- one growth of a VMM pool: what it moves, where to, and what is new.
 *
 * A plan is made in short holds of the lock, and other threads use the memory that it
 * chose meanwhile. So the plan is checked when its memory is taken.
 */
#ifndef TARN_POOL_PLAN_H
#define TARN_POOL_PLAN_H

#include "pool/compact/reclaimable.h"

/* `reclaimable->bytes` move to `at`, and `new_bytes` follow there. */
struct tarn__plan {
    struct tarn__reclaimable *reclaimable; /* NULL: nothing moves */
    tarn__index range;                     /* the unmapped range that contains `at` */
    uint64_t at;
    uint64_t new_bytes, least; /* by the step of growth; the least needed */
    /* nodes in transit; 0 where there are no bytes */
    tarn__index moved_node, new_node;
};

/* How often a plan is made whose memory other threads use meanwhile. */
enum { TARN__PLANS_MAX = 4 };

static inline uint64_t tarn__plan_moved_bytes(const struct tarn__plan *plan)
{
    return plan->reclaimable ? plan->reclaimable->bytes : 0;
}

/* Take all that the plan needs. Returns false if other threads use some of the memory
 * that moves or of the memory beside the place; or without host memory. Then nothing is
 * taken. Where nothing moves, the place may be worse than planned. `growth` held. */
bool tarn__plan_take(struct tarn__plan *plan, const struct tarn__caller *caller,
                     const struct tarn__request *request) TARN__REQUIRES(growth);
/* Return what the plan has taken and not published. `lock` held; it is released between
 * parts. */
void tarn__plan_cancel(const struct tarn__plan *plan, struct tarn__pool *pool)
    TARN__REQUIRES(pool_lock);

#endif
