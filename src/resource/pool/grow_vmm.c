/* grow_vmm.c -- growth of a VMM pool: reclaimable handles move to where they are needed,
 * and only the missing part is new.
 *
 * Every allocation that fits nowhere ends here. This file therefore decides how much
 * memory a pool reserves beyond the live blocks. Free memory in whole handles is never a
 * reason to grow. The pool maps it beside the memory that the request can use already
 * (gap.c). Where it is not enough, new memory comes behind it, usually at the end of the
 * range.
 *
 * A pool without spare memory would have to move memory for nearly every large request,
 * and moving a handle costs about as much as a new one. So where one stream has all of
 * the memory, the pool grows and moves nothing until it exceeds the live bytes by a
 * twentieth. When it grows, it takes as much at once, unless it has half of what it may
 * have.
 *
 * A move costs per handle, so large ones move first.
 */
#include "resource/pool/idle.h"
#include <stdlib.h>

/* One growth: at `at`, `idle->bytes` move there, and `fresh` new bytes follow. */
struct plan {
    struct tarn__idle *idle; /* NULL: nothing moves */
    uint64_t at;
    uint64_t fresh, least; /* by the step of growth; the least needed */
    /* nodes in transit (MOVING); 0 where there are no bytes */
    tarn__index moved_room, fresh_room;
};

static uint64_t moved_bytes(const struct plan *plan)
{
    return plan->idle ? plan->idle->bytes : 0;
}

/* Return true if the pool has half of what it may have, of its limit or of the device.
 * Then it takes no more than it needs. */
static bool is_half_full(const struct tarn__pool *pool)
{
    return tarn__pages_reserved(pool->pages) > tarn__capacity(pool) / 2;
}

/* The bytes that the pool may have before it moves memory, once `need` more are live; 0
 * where it is to have as little as possible. With several streams, spare memory saved
 * nothing in trials. */
enum { SPARE_PART = 20 };

static uint64_t roomy(const struct tarn__pool *pool, uint64_t need)
{
    uint64_t out = pool->heap.out_bytes;

    if (tarn__heap_streams(&pool->heap) > 1 || pool->options.growth_bytes > 0 ||
        is_half_full(pool))
        return 0;
    return out + out / SPARE_PART + need;
}

/* Return, in whole handles, the bytes to add to `fresh` so that the pool has that. */
static uint64_t spare(const struct tarn__pool *pool, uint64_t need, uint64_t fresh)
{
    uint64_t has = tarn__pages_reserved(pool->pages) + fresh, most = roomy(pool, need);
    uint64_t handle = tarn__pages_handle(pool->pages, 0);

    return most > has ? (most - has) / handle * handle : 0;
}

/* Decide how much is new, and whether the limit allows it. */
static bool plan_fresh(const struct tarn__pool *pool, const struct tarn__site *site,
                       struct plan *plan)
{
    uint64_t need = tarn__to_pages(site->bytes ? site->bytes : 1);
    uint64_t moved = moved_bytes(plan);
    uint64_t hole = tarn__node_bytes(tarn__node(&pool->heap.nodes, site->hole));
    uint64_t room = hole > moved ? hole - moved : 0;
    uint64_t most = tarn__allowance(pool);

    plan->least = need > moved ? need - moved : 0;
    plan->fresh = 0;
    if (plan->least == 0)
        return moved <= hole;
    most = most < room ? most : room;
    plan->fresh = tarn__pages_step(pool->pages, plan->least, most);
    uint64_t more = plan->fresh ? spare(pool, need, plan->fresh) : 0;
    if (more <= most - plan->fresh)
        plan->fresh += more;
    return plan->fresh > 0;
}

static void cancel(struct tarn__pool *pool, const struct plan *plan)
{
    if (plan->idle)
        tarn__idle_put_back(plan->idle, 0);
    if (plan->moved_room)
        tarn__heap_make_hole(&pool->heap, plan->moved_room);
    if (plan->fresh_room)
        tarn__heap_make_hole(&pool->heap, plan->fresh_room);
}

/* Split `bytes` at `at` off the unmapped range (the hole) that begins there. */
static tarn__index carve_hole(struct tarn__heap *heap, uint64_t at, uint64_t bytes)
{
    tarn__index hole = tarn__heap_hole_at(heap, at);

    return hole ? tarn__heap_carve(heap, hole, at, bytes) : 0;
}

/* Take all that the plan needs. Returns false without host memory; then nothing is
 * taken. */
static bool carve(struct tarn__pool *pool, struct plan *plan)
{
    struct tarn__heap *heap = &pool->heap;
    uint64_t moved = moved_bytes(plan);

    if (plan->idle)
        tarn__idle_carve(plan->idle);
    bool all = moved == moved_bytes(plan);
    if (all && moved > 0)
        all = (plan->moved_room = carve_hole(heap, plan->at, moved)) != 0;
    if (all && plan->fresh > 0)
        all = (plan->fresh_room = carve_hole(heap, plan->at + moved, plan->fresh)) != 0;
    if (!all)
        cancel(pool, plan);
    return all;
}

/* Find large handles first: completed ones, then fenced ones. */
static void find_idle(const struct tarn__caller *caller, uint64_t need,
                      const struct tarn__site *site, struct plan *plan)
{
    tarn__idle_find(caller->pool, need,
                    (struct tarn__span){site->from, site->address - site->from},
                    plan->idle);
    tarn__idle_find_fenced(caller, plan->idle);
}

/* Find a site with enough addresses for the moved memory in whole handles, where the
 * range still has such an unmapped range. */
static struct tarn__site find_site(const struct tarn__caller *caller,
                                   const struct tarn__request *request)
{
    const struct tarn__heap *heap = &caller->pool->heap;
    struct tarn__site site =
        tarn__heap_find_site(heap, caller->lane, request, TARN__HANDLE_BYTES_MAX);

    return site.hole ? site : tarn__heap_find_site(heap, caller->lane, request, 0);
}

/* Plan to move all the memory that is needed, or nearly all. */
static bool plan_gap(struct tarn__caller *caller, const struct tarn__request *request,
                     struct tarn__idle *found, struct plan *out)
{
    struct tarn__gap gap;

    if (!tarn__gap_find(caller, request, found, &gap))
        return false;
    *out = (struct plan){
        .at = gap.at, .idle = found, .fresh = gap.fresh, .least = gap.least};
    return carve(caller->pool, out);
}

/* Plan new memory at the range's end, behind the moved memory. `lock` held. */
static tarn_status plan_end(struct tarn__caller *caller,
                            const struct tarn__request *request, struct tarn__idle *found,
                            struct plan *out)
{
    struct tarn__pool *pool = caller->pool;
    struct tarn__site site = find_site(caller, request);
    uint64_t need = tarn__to_pages(site.bytes ? site.bytes : 1);

    *out = (struct plan){.at = site.address};
    if (!site.hole)
        return tarn__over_limit(pool, (uint64_t)request->granules << TARN__GRANULE_SHIFT);
    if (found) {
        out->idle = found;
        find_idle(caller, need, &site, out);
    }
    if (!plan_fresh(pool, &site, out))
        return tarn__over_limit(pool, need);
    if (!carve(pool, out))
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to grow");
    return TARN_OK;
}

/* Map the new memory; without enough for the step, only what is needed. */
static tarn_status map_fresh(struct tarn__pool *pool, struct plan *plan)
{
    uint64_t at = plan->at + moved_bytes(plan);
    struct tarn__span span;
    tarn_status status =
        tarn__pages_grow(pool->pages, at, plan->fresh, TARN_STREAM_NONE, &span);

    if (status != TARN_OUT_OF_MEMORY || plan->least == plan->fresh)
        return status;
    tarn__pool_lock(pool);
    tarn__heap_make_hole(&pool->heap, plan->fresh_room);
    plan->fresh = plan->least;
    plan->fresh_room = plan->least ? carve_hole(&pool->heap, at, plan->least) : 0;
    tarn__pool_unlock(pool);
    if (plan->least == 0)
        return TARN_OK;
    if (!plan->fresh_room)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to grow");
    return tarn__pages_grow(pool->pages, at, plan->least, TARN_STREAM_NONE, &span);
}

/* Publish the moved memory at its new place: as completed, or, where the stream waited
 * for some of it, in the order of the caller's stream. `lock` held. */
static void publish_moved(struct tarn__caller *caller, struct plan *plan)
{
    struct tarn__pool *pool = caller->pool;
    bool is_ready =
        plan->idle->ready == plan->idle->count || TARN_MUTATION(moved_taken_as_ready);

    tarn__idle_retire(plan->idle, plan->idle->count);
    tarn__heap_put(&pool->heap, plan->moved_room, is_ready ? NULL : caller->lane);
    plan->idle = NULL;
    plan->moved_room = 0;
    pool->moves++;
    pool->generation++;
}

static void publish_fresh(struct tarn__pool *pool, struct plan *plan)
{
    if (!TARN_MUTATION(growth_published_before_mapped))
        tarn__heap_put(&pool->heap, plan->fresh_room, NULL);
    plan->fresh_room = 0;
    pool->growths++;
    tarn__note_peaks(pool);
}

static tarn_status move(const struct tarn__caller *caller, const struct plan *plan)
{
    const struct tarn__idle *idle = plan->idle;
    struct tarn__span spans[TARN__IDLE_MAX];

    if (!tarn__idle_wait(caller, idle))
        return tarn_error_set(
            TARN_DRIVER_FAILURE,
            "pool: the driver failed to wait for the event fences of %llu bytes",
            (unsigned long long)idle->bytes);
    for (unsigned i = 0; i < idle->count; i++)
        spans[i] = idle->parts[i].span;
    return tarn__pages_move(caller->pool->pages, spans, idle->count, idle->ready,
                            plan->at);
}

/* Execute the plan. On failure, moved memory stays at its new place. `*moved_out`: the
 * move, if there was one, has not failed. */
static tarn_status carry_out(struct tarn__caller *caller, struct plan *plan,
                             bool *moved_out)
{
    struct tarn__pool *pool = caller->pool;
    uint64_t moved = moved_bytes(plan);
    tarn_status status = TARN_OK;

    if (TARN_MUTATION(growth_published_before_mapped) && plan->fresh_room) {
        tarn__pool_lock(pool);
        tarn__heap_put(&pool->heap, plan->fresh_room, NULL);
        tarn__pool_unlock(pool);
    }
    if (moved > 0)
        status = move(caller, plan);
    *moved_out = status == TARN_OK;
    if (status == TARN_OK && plan->fresh > 0)
        status = map_fresh(pool, plan);

    tarn__pool_lock(pool);
    if (*moved_out && moved > 0)
        publish_moved(caller, plan);
    if (status == TARN_OK && plan->fresh > 0)
        publish_fresh(pool, plan);
    cancel(pool, plan);
    tarn__pool_unlock(pool);
    return status;
}

/* Assemble handles from pieces of several streams for the caller: then one may fit, or
 * they can move. */
static bool gathered(struct tarn__caller *caller, const struct tarn__request *request,
                     tarn__index *out)
{
    if (!tarn__gather(caller, request))
        return false;
    tarn__fence_own(caller);
    tarn__pool_lock(caller->pool);
    *out = tarn__search_at_hand(caller, request);
    tarn__pool_unlock(caller->pool);
    return true;
}

static bool find_gap(struct tarn__caller *caller, const struct tarn__request *request,
                     struct tarn__idle *found, struct plan *out)
{
    tarn__pool_lock(caller->pool);
    bool is_there = plan_gap(caller, request, found, out);
    tarn__pool_unlock(caller->pool);
    return is_there;
}

/* Make the plan. `found` NULL: nothing moves. `*out`: the block, if no growth is needed
 * after all. */
static tarn_status make_plan(struct tarn__caller *caller,
                             const struct tarn__request *request,
                             struct tarn__idle *found, struct plan *plan_out,
                             tarn__index *out)
{
    struct tarn__pool *pool = caller->pool;

    if (found && (find_gap(caller, request, found, plan_out) ||
                  (gathered(caller, request, out) &&
                   (*out || find_gap(caller, request, found, plan_out)))))
        return TARN_OK;
    tarn__pool_lock(pool);
    tarn_status status = plan_end(caller, request, found, plan_out);
    tarn__pool_unlock(pool);
    return status;
}

static tarn_status grow(struct tarn__caller *caller, const struct tarn__request *request,
                        struct tarn__idle *found, bool *moved_out, tarn__index *out)
{
    struct tarn__pool *pool = caller->pool;
    struct plan plan;

    *moved_out = true;
    tarn_status status = make_plan(caller, request, found, &plan, out);
    if (status != TARN_OK || *out)
        return status;
    bool is_growth = plan.fresh > 0;
    status = carry_out(caller, &plan, moved_out);
    tarn__pool_lock(pool);
    if (status == TARN_OK)
        *out = tarn__take_fresh(caller, request);
    pool->grown += *out != 0 && is_growth;
    tarn__pool_unlock(pool);
    return status;
}

/* Return true if the pool has less than that, with the request included. Then nothing
 * moves. */
static bool is_tight(struct tarn__pool *pool, const struct tarn__request *request)
{
    uint64_t need = (uint64_t)request->granules << TARN__GRANULE_SHIFT;

    tarn__pool_lock(pool);
    bool is = tarn__pages_reserved(pool->pages) + need <= roomy(pool, need);
    tarn__pool_unlock(pool);
    return is;
}

tarn_status tarn__grow_vmm(struct tarn__caller *caller,
                           const struct tarn__request *request, tarn__index *out)
{
    bool moved;

    tarn__old_leave(caller->pool);
    if (is_tight(caller->pool, request) &&
        grow(caller, request, NULL, &moved, out) == TARN_OK)
        return TARN_OK;
    struct tarn__idle *found = malloc(sizeof *found); /* without it nothing moves */
    tarn_status status = grow(caller, request, found, &moved, out);

    /* The driver does not move it: then all of it must be new. */
    if (status != TARN_OK && !moved)
        status = grow(caller, request, NULL, &moved, out);
    free(found);
    return status;
}
