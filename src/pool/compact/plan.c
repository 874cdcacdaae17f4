/* plan.c -- taking the memory of a plan, if it is still as it was when the plan was
 * made. */
#include "pool/compact/plan.h"
#include "pool/blocks/ranges.h"
#include "pool/blocks/runs.h"
#include "pool/blocks/take.h"
#include "pool/pool.h"

/* Return true if the request fits into the place, once it has its memory, together with
 * what its stream may use beside it. */
static bool fits(const struct tarn__plan *plan, const struct tarn__caller *caller,
                 const struct tarn__request *request) TARN__REQUIRES(pool_lock)
{
    const struct tarn__heap *heap = &caller->pool->heap;
    tarn__index first = plan->moved_node ? plan->moved_node : plan->new_node;
    tarn__index last = plan->new_node ? plan->new_node : plan->moved_node;
    uint64_t begin = tarn__runs_begin(heap, caller->stream_state, first);
    uint64_t start = (begin + request->alignment - 1) & ~(request->alignment - 1);

    return start + ((uint64_t)request->quanta << TARN__QUANTUM_SHIFT) <=
           tarn__runs_end(heap, caller->stream_state, last);
}

/* Take the place. Returns false without host memory. */
static bool take_place(struct tarn__plan *plan, struct tarn__heap *heap)
    TARN__REQUIRES(pool_lock)
{
    uint64_t moved = tarn__plan_moved_bytes(plan);
    tarn__index range = plan->range;

    if (moved > 0) {
        plan->moved_node = tarn__take_range(heap, range, plan->at, moved);
        if (!plan->moved_node)
            return false;
        range = tarn__node(&heap->nodes, plan->moved_node)->after; /* what is left */
    }
    if (plan->new_bytes > 0)
        plan->new_node = tarn__take_range(heap, range, plan->at + moved, plan->new_bytes);
    return plan->new_bytes == 0 || plan->new_node;
}

bool tarn__plan_take(struct tarn__plan *plan, const struct tarn__caller *caller,
                     const struct tarn__request *request)
{
    tarn__assert_held(&caller->pool->growth);

    struct tarn__pool *pool = caller->pool;

    bool all = !plan->reclaimable || tarn__reclaimable_split(plan->reclaimable);
    tarn__pool_lock(pool);
    bool taken = all && take_place(plan, &pool->heap) &&
                 (!plan->reclaimable || fits(plan, caller, request));
    if (!taken)
        tarn__plan_cancel(plan, pool);
    tarn__pool_unlock(pool);
    return taken;
}

void tarn__plan_cancel(const struct tarn__plan *plan, struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    if (plan->reclaimable)
        tarn__reclaimable_put_back(plan->reclaimable, 0);
    if (plan->moved_node)
        tarn__ranges_make_unmapped(&pool->heap, plan->moved_node);
    if (plan->new_node)
        tarn__ranges_make_unmapped(&pool->heap, plan->new_node);
}
