/* grow_vmm.c -- growth of a VMM pool: reclaimable handles move to where they are needed,
 * and only the missing part is new.
 *
 * Every allocation that fits nowhere ends here. This file therefore decides how much
 * memory a pool reserves beyond the live blocks. Free memory in whole handles is no
 * reason to grow. The pool maps it beside the memory that the request can use already
 * (placement.c). Where it is not enough, new memory comes behind it, usually at the end
 * of the range.
 *
 * Moves have a budget of time (budget.c). Once it is spent, and while the device has room,
 * the pool grows by a part of each request, and moves the rest. With TARN_POOL_MOVES_NEVER
 * nothing moves.
 *
 * A move costs per handle, so large ones move first.
 */
#include "pool/compact/grow_vmm.h"
#include "pool/backing/handle_size.h"
#include "pool/blocks/ranges.h"
#include "pool/blocks/runs.h"
#include "pool/blocks/take.h"
#include "pool/compact/assemble.h"
#include "pool/compact/budget.h"
#include "pool/compact/growth_site.h"
#include "pool/compact/placement.h"
#include "pool/compact/plan.h"
#include "pool/compact/reclaimable.h"
#include "pool/compact/retired.h"
#include "pool/order/fence.h"
#include <stdlib.h>

/* The part of a request that is new once the budget of moves is spent. The pool grows in
 * small steps until its moves are within the budget. */
enum { INSTEAD_PART = 8 };

/* One call of tarn__grow_vmm(). */
struct growth {
    struct tarn__caller *caller;
    const struct tarn__request *request;
    struct tarn__reclaimable *found; /* NULL: nothing moves */
    /* bytes that are new although memory could move, since the budget of moves is spent */
    uint64_t instead;
    struct tarn__plan plan;
    bool has_moved;    /* the move, if there was one, has not failed */
    tarn__index block; /* for the request; 0: none yet */
};

/* Decide how much is new, and whether the limit allows it. */
static bool plan_new(const struct tarn__pool *pool, const struct tarn__growth_site *site,
                     struct tarn__plan *plan) TARN__REQUIRES(pool_lock)
{
    uint64_t need = tarn__pages_round_up(site->bytes ? site->bytes : 1);
    uint64_t moved = tarn__plan_moved_bytes(plan);
    uint64_t range = tarn__node_bytes(tarn__node(&pool->heap.nodes, site->range));
    uint64_t available = range > moved ? range - moved : 0;
    uint64_t most = tarn__budget_headroom(pool);

    plan->least = need > moved ? need - moved : 0;
    plan->new_bytes = 0;
    if (plan->least == 0)
        return moved <= range;
    most = most < available ? most : available;
    plan->new_bytes = tarn__handle_size_step(pool->pages, plan->least, most);
    return plan->new_bytes > 0;
}

/* Find memory that moves to the site. Large handles come first: completed ones, then fenced
 * ones. */
static void find_reclaimable(const struct growth *growth, uint64_t need,
                             const struct tarn__growth_site *site,
                             struct tarn__reclaimable *found) TARN__REQUIRES(growth)
{
    uint64_t instead = growth->instead < need ? growth->instead : need;

    tarn__reclaimable_find(
        growth->caller->pool, need - instead, instead > 0 ? need - instead : UINT64_MAX,
        (struct tarn__span){site->from, site->address - site->from}, found);
    tarn__reclaimable_find_fenced(growth->caller, found);
    if (instead > 0)
        tarn__reclaimable_fit(found);
}

/* Find a site with enough addresses for the moved memory in whole handles, where the
 * range still has such an unmapped range. */
static struct tarn__growth_site find_site(const struct tarn__caller *caller,
                                          const struct tarn__request *request)
    TARN__REQUIRES(growth)
{
    struct tarn__growth_site site =
        tarn__growth_site_find(caller, request, TARN__HANDLE_BYTES_MAX);

    return site.range ? site : tarn__growth_site_find(caller, request, 0);
}

/* Plan to move all the memory that is needed, or nearly all, and take it. */
static bool plan_placement(struct growth *growth) TARN__REQUIRES(growth)
{
    struct tarn__placement placement;

    for (int i = 0; i < TARN__PLANS_MAX; i++) {
        if (!tarn__placement_find(growth->caller, growth->request, growth->found,
                                  &placement))
            return false;
        growth->plan = (struct tarn__plan){.range = placement.range,
                                           .at = placement.at,
                                           .reclaimable = growth->found,
                                           .new_bytes = placement.new_bytes,
                                           .least = placement.least};
        if (tarn__plan_take(&growth->plan, growth->caller, growth->request))
            return true;
    }
    return false;
}

/* Plan new memory at the range's end, behind the moved memory, which is `found`; NULL:
 * nothing moves. At least `instead` of the needed bytes are new. */
static tarn_status plan_end(struct growth *growth, struct tarn__reclaimable *found)
    TARN__REQUIRES(growth)
{
    struct tarn__pool *pool = growth->caller->pool;
    const struct tarn__request *request = growth->request;
    struct tarn__plan *plan = &growth->plan;
    struct tarn__growth_site site = find_site(growth->caller, request);
    uint64_t need = tarn__pages_round_up(site.bytes ? site.bytes : 1);
    tarn_status status = TARN_OK;

    *plan = (struct tarn__plan){
        .range = site.range, .at = site.address, .reclaimable = found};
    if (site.range && found)
        find_reclaimable(growth, need, &site, found);
    tarn__pool_lock(pool);
    if (!site.range)
        status =
            tarn__budget_fail(pool, (uint64_t)request->quanta << TARN__QUANTUM_SHIFT);
    else if (!plan_new(pool, &site, plan))
        status = tarn__budget_fail(pool, need);
    tarn__pool_unlock(pool);
    return status;
}

/* Make such a plan, and take what it needs. The last one moves nothing. */
static tarn_status grow_at_end(struct growth *growth) TARN__REQUIRES(growth)
{
    for (int i = growth->found ? TARN__PLANS_MAX : 1; i-- > 0;) {
        tarn_status status = plan_end(growth, i > 0 ? growth->found : NULL);
        if (status != TARN_OK ||
            tarn__plan_take(&growth->plan, growth->caller, growth->request))
            return status;
    }
    return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to grow");
}

/* Map the new memory; without enough for the step, only what is needed. */
static tarn_status map_new(struct tarn__pool *pool, struct tarn__plan *plan)
{
    uint64_t at = plan->at + tarn__plan_moved_bytes(plan);
    struct tarn__span span;
    tarn_status status =
        tarn__pages_grow(pool->pages, at, plan->new_bytes, TARN_STREAM_NONE, &span);

    if (status != TARN_OUT_OF_MEMORY || plan->least == plan->new_bytes)
        return status;
    tarn__pool_lock(pool);
    tarn__index range = tarn__ranges_make_unmapped(&pool->heap, plan->new_node);
    plan->new_bytes = plan->least;
    plan->new_node =
        plan->least ? tarn__take_range(&pool->heap, range, at, plan->least) : 0;
    tarn__pool_unlock(pool);
    if (plan->least == 0)
        return TARN_OK;
    if (!plan->new_node)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to grow");
    return tarn__pages_grow(pool->pages, at, plan->least, TARN_STREAM_NONE, &span);
}

static unsigned moved_handles(const struct tarn__plan *plan)
{
    unsigned handles = 0;

    for (unsigned i = 0; i < plan->reclaimable->count; i++)
        handles += plan->reclaimable->parts[i].handles;
    return handles;
}

/* Publish the moved memory at its new place: as completed, or, where the stream waited
 * for some of it, in the order of the caller's stream. `lock` held. */
static void publish_moved(struct tarn__caller *caller, struct tarn__plan *plan)
    TARN__REQUIRES(pool_lock) TARN__REQUIRES(growth)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn__pool *pool = caller->pool;
    bool is_completed = plan->reclaimable->completed == plan->reclaimable->count ||
                        TARN_MUTATION(moved_taken_as_completed);

    tarn__budget_note_move(pool, moved_handles(plan));
    tarn__reclaimable_retire(plan->reclaimable, plan->reclaimable->count);
    tarn__heap_put(&pool->heap, plan->moved_node,
                   is_completed ? NULL : caller->stream_state);
    plan->reclaimable = NULL;
    plan->moved_node = 0;
    pool->counters.moves++;
    pool->generation++;
}

static void publish_new(struct tarn__pool *pool, struct tarn__plan *plan)
    TARN__REQUIRES(pool_lock)
{
    if (!TARN_MUTATION(growth_published_before_mapped))
        tarn__heap_put(&pool->heap, plan->new_node, NULL);
    plan->new_node = 0;
    pool->counters.growths++;
    tarn__budget_note_peaks(pool);
}

static tarn_status move(const struct tarn__caller *caller, const struct tarn__plan *plan)
{
    const struct tarn__reclaimable *reclaimable = plan->reclaimable;
    struct tarn__span spans[TARN__RECLAIMABLE_MAX];

    if (!tarn__reclaimable_wait(caller, reclaimable))
        return tarn_error_set(
            TARN_DRIVER_FAILURE,
            "pool: the driver failed to wait for the event fences of %llu bytes",
            (unsigned long long)reclaimable->bytes);
    for (unsigned i = 0; i < reclaimable->count; i++)
        spans[i] = reclaimable->parts[i].span;
    return tarn__pages_move(caller->pool->pages, spans, reclaimable->count,
                            reclaimable->completed, plan->at);
}

/* Execute the plan. On failure, moved memory stays at its new place. */
static tarn_status carry_out(struct growth *growth) TARN__REQUIRES(growth)
{
    struct tarn__caller *caller = growth->caller;
    struct tarn__pool *pool = caller->pool;
    struct tarn__plan *plan = &growth->plan;
    uint64_t moved = tarn__plan_moved_bytes(plan);
    tarn_status status = TARN_OK;

    if (TARN_MUTATION(growth_published_before_mapped) && plan->new_node) {
        tarn__pool_lock(pool);
        tarn__heap_put(&pool->heap, plan->new_node, NULL);
        tarn__pool_unlock(pool);
    }
    if (moved > 0)
        status = move(caller, plan);
    growth->has_moved = status == TARN_OK;
    if (status == TARN_OK && plan->new_bytes > 0)
        status = map_new(pool, plan);

    tarn__pool_lock(pool);
    if (growth->has_moved && moved > 0)
        publish_moved(caller, plan);
    if (status == TARN_OK && plan->new_bytes > 0)
        publish_new(pool, plan);
    tarn__plan_cancel(plan, pool);
    tarn__pool_unlock(pool);
    return status;
}

/* Assemble handles from pieces of several streams for the caller: then one may fit, or
 * they can move. */
static bool assembled(struct growth *growth) TARN__REQUIRES(growth)
{
    struct tarn__caller *caller = growth->caller;

    if (!tarn__assemble(caller, growth->request))
        return false;
    tarn__fence_same_stream(caller);
    tarn__pool_lock(caller->pool);
    growth->block = tarn__caller_take(caller, growth->request);
    tarn__pool_unlock(caller->pool);
    return true;
}

/* Make the plan, or find the block: then no growth is needed after all. */
static tarn_status make_plan(struct growth *growth) TARN__REQUIRES(growth)
{
    if (growth->found && growth->instead == 0 &&
        (plan_placement(growth) ||
         (assembled(growth) && (growth->block || plan_placement(growth)))))
        return TARN_OK;
    return grow_at_end(growth);
}

/* Grow with the reclaimable memory in `found` (NULL: nothing moves). */
static tarn_status grow(struct growth *growth, struct tarn__reclaimable *found)
    TARN__REQUIRES(growth)
{
    struct tarn__caller *caller = growth->caller;
    struct tarn__pool *pool = caller->pool;

    growth->found = found;
    growth->has_moved = true;
    tarn__pages_set_block(pool->pages,
                          (uint64_t)growth->request->quanta << TARN__QUANTUM_SHIFT);
    tarn_status status = make_plan(growth);
    if (status != TARN_OK || growth->block)
        return status;
    bool is_growth = growth->plan.new_bytes > 0;
    status = carry_out(growth);
    tarn__pool_lock(pool);
    if (status == TARN_OK)
        growth->block =
            tarn__runs_take_block(&pool->heap, caller->stream_state, growth->request);
    pool->counters.grown += growth->block != 0 && is_growth;
    tarn__pool_unlock(pool);
    return status;
}

/* Grow, and move memory; without host memory nothing moves. */
static tarn_status grow_and_move(struct growth *growth) TARN__REQUIRES(growth)
{
    struct tarn__reclaimable *found = malloc(sizeof *found);
    tarn_status status = grow(growth, found);

    free(found);
    return status;
}

/* If the pool has spent its budget of moves, grow by a part of the request, and move memory
 * for the rest. */
static bool grew_instead(struct growth *growth) TARN__REQUIRES(growth)
{
    struct tarn__pool *pool = growth->caller->pool;

    if (!tarn__budget_is_spent(growth->caller, growth->request))
        return false;
    growth->instead = tarn__pages_round_up(
        ((uint64_t)growth->request->quanta << TARN__QUANTUM_SHIFT) / INSTEAD_PART);
    tarn_status status = grow_and_move(growth);
    growth->instead = 0;
    if (status != TARN_OK)
        return false;
    tarn__pool_lock(pool);
    tarn__budget_note_growth(pool, growth->plan.new_bytes);
    tarn__pool_unlock(pool);
    return true;
}

/* Move memory, and grow for the remainder. Then release what was grown instead of earlier
 * moves, if the device has little room. */
static tarn_status grow_with_moves(struct growth *growth) TARN__REQUIRES(growth)
{
    tarn_status status = grow_and_move(growth);

    /* The driver does not move it: then all of it must be new. */
    if (status != TARN_OK && !growth->has_moved)
        status = grow(growth, NULL);
    tarn__budget_release_excess(growth->caller);
    return status;
}

tarn_status tarn__grow_vmm(struct tarn__caller *caller,
                           const struct tarn__request *request, tarn__index *out)
{
    struct growth growth = {.caller = caller, .request = request};
    tarn_status status = TARN_OK;

    tarn__assert_held(&caller->pool->growth);
    tarn__retired_unmap_completed(caller->pool);
    if (tarn__pool_never_moves(caller->pool))
        status = grow(&growth, NULL);
    else if (!grew_instead(&growth))
        status = grow_with_moves(&growth);
    *out = growth.block;
    return status;
}

/* Plan one handle at the site that needs the least, and take its place. */
static bool plan_ahead(struct growth *growth, uint64_t handle) TARN__REQUIRES(growth)
{
    struct tarn__pool *pool = growth->caller->pool;
    struct tarn__growth_site site =
        tarn__growth_site_find(growth->caller, growth->request, handle);

    tarn__pool_lock(pool);
    bool is_allowed = handle <= tarn__budget_headroom(pool);
    tarn__pool_unlock(pool);
    if (!site.range || !is_allowed)
        return false;
    growth->plan = (struct tarn__plan){
        .range = site.range, .at = site.address, .new_bytes = handle, .least = handle};
    return tarn__plan_take(&growth->plan, growth->caller, growth->request);
}

uint64_t tarn__grow_vmm_ahead(struct tarn__pool *pool, uint64_t bytes)
{
    tarn__assert_held(&pool->growth);

    uint64_t handle = tarn__handle_size(pool->pages, bytes);
    struct tarn__caller caller = {.pool = pool}; /* of no stream */
    struct tarn__request request = {(uint32_t)(handle >> TARN__QUANTUM_SHIFT),
                                    TARN__QUANTUM};
    struct growth growth = {.caller = &caller, .request = &request};

    return plan_ahead(&growth, handle) && carry_out(&growth) == TARN_OK ? handle : 0;
}

/* --- at a given place --- */

/* Return how much to map at the place: a handle, where the pool may have as much. */
static uint64_t bytes_at(struct tarn__pool *pool, const struct tarn__grow_at *at,
                         uint64_t room)
{
    uint64_t need = at->need.bytes, wanted = tarn__handle_size(pool->pages, need);

    tarn__pool_lock(pool);
    uint64_t reserved = tarn__pages_reserved(pool->pages);
    uint64_t most = tarn__budget_headroom(pool);
    tarn__pool_unlock(pool);
    most = at->aim > reserved && at->aim - reserved < most ? at->aim - reserved : most;
    room = at->end - at->need.address < room ? at->end - at->need.address : room;
    most = room < most ? room : most;
    return wanted <= need || wanted > most ? need : wanted;
}

/* Find memory that can move to the place, as much as fits there: completed, then fenced. */
static void find_for(struct tarn__caller *caller, const struct tarn__grow_at *at,
                     uint64_t room, struct tarn__reclaimable *out) TARN__REQUIRES(growth)
{
    struct tarn__pool *pool = caller->pool;

    if (caller->may_record) {
        tarn__fences_request(pool, caller);
        tarn__fence_same_stream(caller);
    }
    tarn__fences_poll_all(pool);
    tarn__reclaimable_find_last_needed(caller, at->need.bytes, room, at->kept, out);
    tarn__reclaimable_fit(out);
}

tarn_status tarn__grow_vmm_at(struct tarn__caller *caller, const struct tarn__grow_at *at)
{
    struct tarn__pool *pool = caller->pool;
    uint64_t need = at->need.bytes;
    struct tarn__request request = {(uint32_t)(need >> TARN__QUANTUM_SHIFT),
                                    TARN__QUANTUM};
    struct growth growth = {.caller = caller, .request = &request, .has_moved = true};
    struct tarn__reclaimable *found = NULL;

    tarn__assert_held(&pool->growth);
    tarn__pool_lock(pool);
    uint64_t reserved = tarn__pages_reserved(pool->pages);
    uint64_t room =
        tarn__node_end(tarn__node(&pool->heap.nodes, at->range)) - at->need.address;
    uint64_t headroom = tarn__budget_headroom(pool);
    tarn__pool_unlock(pool);
    if ((reserved + need > at->aim || need > headroom) && !tarn__pool_never_moves(pool) &&
        (found = malloc(sizeof *found)) != NULL)
        find_for(caller, at, room, found);
    growth.plan = (struct tarn__plan){.range = at->range, .at = at->need.address};
    if (found && found->count > 0)
        growth.plan.reclaimable = found;
    uint64_t moved = tarn__plan_moved_bytes(&growth.plan);
    growth.plan.least = need > moved ? need - moved : 0;
    tarn__pages_set_large(pool->pages, at->has_large_handles);
    growth.plan.new_bytes = moved == 0 ? bytes_at(pool, at, room) : growth.plan.least;
    tarn_status status = TARN_OUT_OF_MEMORY;
    if (growth.plan.least <= headroom && tarn__plan_take(&growth.plan, caller, &request))
        status = carry_out(&growth);
    tarn__pages_set_large(pool->pages, false);
    free(found);
    return status;
}
