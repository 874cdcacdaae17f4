/* grow_vmm.c -- growth of a VMM pool: reclaimable handles move to where they are needed,
 * and only the missing part is new.
 *
 * Every allocation that fits nowhere ends here. This file therefore decides how much
 * memory a pool reserves beyond the live blocks. Free memory in whole handles is never a
 * reason to grow. The pool maps it beside the memory that the request can use already
 * (placement.c). Where it is not enough, new memory comes behind it, usually at the end
 * of the range.
 *
 * A pool without spare memory would have to move memory for nearly every large request,
 * and moving a handle costs about as much as a new one. So where one stream has all of
 * the memory, the pool grows and moves nothing until it exceeds the live bytes by a
 * twentieth. When it grows, it takes as much at once, unless it has half of what it may
 * have.
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
#include "pool/compact/placement.h"
#include "pool/compact/reclaimable.h"
#include "pool/compact/retired.h"
#include "pool/order/fence.h"
#include <stdlib.h>

/* One growth: at `at`, `idle->bytes` move there, and `fresh` new bytes follow. */
struct plan {
    struct tarn__reclaimable *reclaimable; /* NULL: nothing moves */
    uint64_t at;
    uint64_t new_bytes, least; /* by the step of growth; the least needed */
    /* nodes in transit; 0 where there are no bytes */
    tarn__index moved_node, new_node;
};

static uint64_t moved_bytes(const struct plan *plan)
{
    return plan->reclaimable ? plan->reclaimable->bytes : 0;
}

/* Return true if the pool has half of what it may have, of its limit or of the device.
 * Then it takes no more than it needs. */
static bool is_half_full(const struct tarn__pool *pool)
{
    return tarn__pages_reserved(pool->pages) > tarn__pool_maximum(pool) / 2;
}

/* The bytes that the pool may have before it moves memory, once `need` more are live; 0
 * where it is to have as little as possible. With several streams, spare memory saved
 * nothing in trials. */
enum { EXTRA_PART = 20 };

static uint64_t bytes_before_moves(const struct tarn__pool *pool, uint64_t need)
{
    uint64_t allocated = pool->heap.allocated_bytes;

    if (tarn__heap_streams(&pool->heap) > 1 || pool->options.growth_bytes > 0 ||
        is_half_full(pool))
        return 0;
    return allocated + allocated / EXTRA_PART + need;
}

/* Return, in whole handles, the bytes to add to `fresh` so that the pool has that. */
static uint64_t extra_bytes(const struct tarn__pool *pool, uint64_t need,
                            uint64_t new_bytes)
{
    uint64_t has = tarn__pages_reserved(pool->pages) + new_bytes,
             most = bytes_before_moves(pool, need);
    uint64_t handle = tarn__handle_size(pool->pages, 0);

    return most > has ? (most - has) / handle * handle : 0;
}

/* Decide how much is new, and whether the limit allows it. */
static bool plan_new(const struct tarn__pool *pool, const struct tarn__site *site,
                     struct plan *plan)
{
    uint64_t need = tarn__pages_round_up(site->bytes ? site->bytes : 1);
    uint64_t moved = moved_bytes(plan);
    uint64_t range = tarn__node_bytes(tarn__node(&pool->heap.nodes, site->range));
    uint64_t available = range > moved ? range - moved : 0;
    uint64_t most = tarn__budget_headroom(pool);

    plan->least = need > moved ? need - moved : 0;
    plan->new_bytes = 0;
    if (plan->least == 0)
        return moved <= range;
    most = most < available ? most : available;
    plan->new_bytes = tarn__handle_size_step(pool->pages, plan->least, most);
    uint64_t more = plan->new_bytes ? extra_bytes(pool, need, plan->new_bytes) : 0;
    if (more <= most - plan->new_bytes)
        plan->new_bytes += more;
    return plan->new_bytes > 0;
}

static void cancel(struct tarn__pool *pool, const struct plan *plan)
{
    if (plan->reclaimable)
        tarn__reclaimable_put_back(plan->reclaimable, 0);
    if (plan->moved_node)
        tarn__ranges_make_unmapped(&pool->heap, plan->moved_node);
    if (plan->new_node)
        tarn__ranges_make_unmapped(&pool->heap, plan->new_node);
}

/* Split `bytes` at `at` off the unmapped range that begins there. */
static tarn__index split_unmapped(struct tarn__heap *heap, uint64_t at, uint64_t bytes)
{
    tarn__index range = tarn__ranges_unmapped_at(heap, at);

    return range ? tarn__take_range(heap, range, at, bytes) : 0;
}

/* Take all that the plan needs. Returns false without host memory; then nothing is
 * taken. */
static bool take_nodes(struct tarn__pool *pool, struct plan *plan)
{
    struct tarn__heap *heap = &pool->heap;
    uint64_t moved = moved_bytes(plan);

    if (plan->reclaimable)
        tarn__reclaimable_split(plan->reclaimable);
    bool all = moved == moved_bytes(plan);
    if (all && moved > 0)
        all = (plan->moved_node = split_unmapped(heap, plan->at, moved)) != 0;
    if (all && plan->new_bytes > 0)
        all = (plan->new_node =
                   split_unmapped(heap, plan->at + moved, plan->new_bytes)) != 0;
    if (!all)
        cancel(pool, plan);
    return all;
}

/* Find large handles first: completed ones, then fenced ones. */
static void find_reclaimable(const struct tarn__caller *caller, uint64_t need,
                             const struct tarn__site *site, struct plan *plan)
{
    tarn__reclaimable_find(caller->pool, need,
                           (struct tarn__span){site->from, site->address - site->from},
                           plan->reclaimable);
    tarn__reclaimable_find_fenced(caller, plan->reclaimable);
}

/* Find a site with enough addresses for the moved memory in whole handles, where the
 * range still has such an unmapped range. */
static struct tarn__site find_site(const struct tarn__caller *caller,
                                   const struct tarn__request *request)
{
    const struct tarn__heap *heap = &caller->pool->heap;
    struct tarn__site site = tarn__ranges_find_site(heap, caller->stream_state, request,
                                                    TARN__HANDLE_BYTES_MAX);

    return site.range ? site
                      : tarn__ranges_find_site(heap, caller->stream_state, request, 0);
}

/* Plan to move all the memory that is needed, or nearly all. */
static bool plan_placement(struct tarn__caller *caller,
                           const struct tarn__request *request,
                           struct tarn__reclaimable *found, struct plan *allocated)
{
    tarn__pool_assert_locked(caller->pool);

    struct tarn__placement placement;

    if (!tarn__placement_find(caller, request, found, &placement))
        return false;
    *allocated = (struct plan){.at = placement.at,
                               .reclaimable = found,
                               .new_bytes = placement.new_bytes,
                               .least = placement.least};
    return take_nodes(caller->pool, allocated);
}

/* Plan new memory at the range's end, behind the moved memory. `lock` held. */
static tarn_status plan_end(struct tarn__caller *caller,
                            const struct tarn__request *request,
                            struct tarn__reclaimable *found, struct plan *allocated)
{
    tarn__pool_assert_locked(caller->pool);

    struct tarn__pool *pool = caller->pool;
    struct tarn__site site = find_site(caller, request);
    uint64_t need = tarn__pages_round_up(site.bytes ? site.bytes : 1);

    *allocated = (struct plan){.at = site.address};
    if (!site.range)
        return tarn__budget_fail(pool, (uint64_t)request->quanta << TARN__QUANTUM_SHIFT);
    if (found) {
        allocated->reclaimable = found;
        find_reclaimable(caller, need, &site, allocated);
    }
    if (!plan_new(pool, &site, allocated))
        return tarn__budget_fail(pool, need);
    if (!take_nodes(pool, allocated))
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to grow");
    return TARN_OK;
}

/* Map the new memory; without enough for the step, only what is needed. */
static tarn_status map_new(struct tarn__pool *pool, struct plan *plan)
{
    uint64_t at = plan->at + moved_bytes(plan);
    struct tarn__span span;
    tarn_status status =
        tarn__pages_grow(pool->pages, at, plan->new_bytes, TARN_STREAM_NONE, &span);

    if (status != TARN_OUT_OF_MEMORY || plan->least == plan->new_bytes)
        return status;
    tarn__pool_lock(pool);
    tarn__ranges_make_unmapped(&pool->heap, plan->new_node);
    plan->new_bytes = plan->least;
    plan->new_node = plan->least ? split_unmapped(&pool->heap, at, plan->least) : 0;
    tarn__pool_unlock(pool);
    if (plan->least == 0)
        return TARN_OK;
    if (!plan->new_node)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to grow");
    return tarn__pages_grow(pool->pages, at, plan->least, TARN_STREAM_NONE, &span);
}

/* Publish the moved memory at its new place: as completed, or, where the stream waited
 * for some of it, in the order of the caller's stream. `lock` held. */
static void publish_moved(struct tarn__caller *caller, struct plan *plan)
{
    tarn__pool_assert_locked(caller->pool);

    struct tarn__pool *pool = caller->pool;
    bool is_completed = plan->reclaimable->completed == plan->reclaimable->count ||
                        TARN_MUTATION(moved_taken_as_completed);

    tarn__reclaimable_retire(plan->reclaimable, plan->reclaimable->count);
    tarn__heap_put(&pool->heap, plan->moved_node,
                   is_completed ? NULL : caller->stream_state);
    plan->reclaimable = NULL;
    plan->moved_node = 0;
    pool->counters.moves++;
    pool->generation++;
}

static void publish_new(struct tarn__pool *pool, struct plan *plan)
{
    if (!TARN_MUTATION(growth_published_before_mapped))
        tarn__heap_put(&pool->heap, plan->new_node, NULL);
    plan->new_node = 0;
    pool->counters.growths++;
    tarn__budget_note_peaks(pool);
}

static tarn_status move(const struct tarn__caller *caller, const struct plan *plan)
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

/* Execute the plan. On failure, moved memory stays at its new place. `*moved_out`: the
 * move, if there was one, has not failed. */
static tarn_status carry_out(struct tarn__caller *caller, struct plan *plan,
                             bool *moved_out)
{
    struct tarn__pool *pool = caller->pool;
    uint64_t moved = moved_bytes(plan);
    tarn_status status = TARN_OK;

    if (TARN_MUTATION(growth_published_before_mapped) && plan->new_node) {
        tarn__pool_lock(pool);
        tarn__heap_put(&pool->heap, plan->new_node, NULL);
        tarn__pool_unlock(pool);
    }
    if (moved > 0)
        status = move(caller, plan);
    *moved_out = status == TARN_OK;
    if (status == TARN_OK && plan->new_bytes > 0)
        status = map_new(pool, plan);

    tarn__pool_lock(pool);
    if (*moved_out && moved > 0)
        publish_moved(caller, plan);
    if (status == TARN_OK && plan->new_bytes > 0)
        publish_new(pool, plan);
    cancel(pool, plan);
    tarn__pool_unlock(pool);
    return status;
}

/* Assemble handles from pieces of several streams for the caller: then one may fit, or
 * they can move. */
static bool assembled(struct tarn__caller *caller, const struct tarn__request *request,
                      tarn__index *allocated)
{
    if (!tarn__assemble(caller, request))
        return false;
    tarn__fence_same_stream(caller);
    tarn__pool_lock(caller->pool);
    *allocated = tarn__caller_take(caller, request);
    tarn__pool_unlock(caller->pool);
    return true;
}

static bool find_placement(struct tarn__caller *caller,
                           const struct tarn__request *request,
                           struct tarn__reclaimable *found, struct plan *allocated)
{
    tarn__pool_lock(caller->pool);
    bool is_there = plan_placement(caller, request, found, allocated);
    tarn__pool_unlock(caller->pool);
    return is_there;
}

/* Make the plan. `found` NULL: nothing moves. `*out`: the block, if no growth is needed
 * after all. */
static tarn_status make_plan(struct tarn__caller *caller,
                             const struct tarn__request *request,
                             struct tarn__reclaimable *found, struct plan *plan_out,
                             tarn__index *allocated)
{
    struct tarn__pool *pool = caller->pool;

    if (found && (find_placement(caller, request, found, plan_out) ||
                  (assembled(caller, request, allocated) &&
                   (*allocated || find_placement(caller, request, found, plan_out)))))
        return TARN_OK;
    tarn__pool_lock(pool);
    tarn_status status = plan_end(caller, request, found, plan_out);
    tarn__pool_unlock(pool);
    return status;
}

static tarn_status grow(struct tarn__caller *caller, const struct tarn__request *request,
                        struct tarn__reclaimable *found, bool *moved_out,
                        tarn__index *allocated)
{
    struct tarn__pool *pool = caller->pool;
    struct plan plan;

    *moved_out = true;
    tarn_status status = make_plan(caller, request, found, &plan, allocated);
    if (status != TARN_OK || *allocated)
        return status;
    bool is_growth = plan.new_bytes > 0;
    status = carry_out(caller, &plan, moved_out);
    tarn__pool_lock(pool);
    if (status == TARN_OK)
        *allocated = tarn__runs_take_block(&pool->heap, caller->stream_state, request);
    pool->counters.grown += *allocated != 0 && is_growth;
    tarn__pool_unlock(pool);
    return status;
}

/* Return true if the pool has less than that, with the request included. Then nothing
 * moves. */
static bool is_below_extra(struct tarn__pool *pool, const struct tarn__request *request)
{
    uint64_t need = (uint64_t)request->quanta << TARN__QUANTUM_SHIFT;

    tarn__pool_lock(pool);
    bool is = tarn__pages_reserved(pool->pages) + need <= bytes_before_moves(pool, need);
    tarn__pool_unlock(pool);
    return is;
}

tarn_status tarn__grow_vmm(struct tarn__caller *caller,
                           const struct tarn__request *request, tarn__index *allocated)
{
    tarn__pool_assert_growth(caller->pool);

    bool moved;

    tarn__retired_unmap_completed(caller->pool);
    if (is_below_extra(caller->pool, request) &&
        grow(caller, request, NULL, &moved, allocated) == TARN_OK)
        return TARN_OK;
    struct tarn__reclaimable *found =
        malloc(sizeof *found); /* without it nothing moves */
    tarn_status status = grow(caller, request, found, &moved, allocated);

    /* The driver does not move it: then all of it must be new. */
    if (status != TARN_OK && !moved)
        status = grow(caller, request, NULL, &moved, allocated);
    free(found);
    return status;
}
