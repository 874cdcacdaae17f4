/* grow.c -- more memory, idle memory moved, idle memory given back.
 *
 * All of it is done under the growth lock, one at a time: a second thread that misses waits
 * for this growth instead of growing as well. The heap's lock is held only to choose and to
 * publish; between, the pages that change are in nobody's hands but ours.
 */
#include "resource/pool/pool.h"
#include <stdlib.h>

static uint64_t round_to_pages(uint64_t bytes)
{
    return (bytes + TARN__PAGE_BYTES - 1) & ~((uint64_t)TARN__PAGE_BYTES - 1);
}

/* What a free may take in of neighbours that have a fence or need none, as a part of the
 * pool: tried on traces/, less keeps memory in pieces, more leaves too much of it unfenced. */
enum { ABSORB_PART = 8 };

void tarn__note_peaks(struct tarn__pool *pool)
{
    uint64_t reserved = tarn__pages_reserved(pool->pages);

    if (pool->peak_reserved < reserved)
        pool->peak_reserved = reserved;
    pool->heap.absorb_bytes = reserved / ABSORB_PART;
}

static tarn_status over_limit(const struct tarn__pool *pool, uint64_t bytes)
{
    return tarn_error_set(TARN_OUT_OF_MEMORY,
                          "pool: %llu bytes more are over the limit, %zu of %llu are "
                          "reserved",
                          (unsigned long long)bytes, tarn__pages_reserved(pool->pages),
                          (unsigned long long)pool->limit);
}

/* What the limit leaves. */
static uint64_t allowance(const struct tarn__pool *pool)
{
    size_t reserved = tarn__pages_reserved(pool->pages);

    return pool->limit > reserved ? pool->limit - reserved : 0;
}

/* The lane that fresh memory is in the order of; NULL: it is ready. Upstream is not asked on
 * legacy while a blocking stream captures: that would end the capture. */
static struct tarn__lane *fresh_lane(const struct tarn__caller *caller)
{
    bool in_order = tarn__pages_is_ordered(caller->pool->pages) && caller->may_record;

    return in_order ? caller->lane : NULL;
}

/* Take the request out of what just came. `lock` held. */
static tarn__index take_fresh(struct tarn__caller *caller,
                              const struct tarn__request *request)
{
    struct tarn__pool *pool = caller->pool;
    bool was_ready, no_memory;
    tarn__index index =
        tarn__heap_take(&pool->heap, caller->lane, request, &was_ready, &no_memory);

    if (!index && tarn__heap_join(&pool->heap, caller->lane, request))
        index =
            tarn__heap_take(&pool->heap, caller->lane, request, &was_ready, &no_memory);
    return index;
}

/* --- VMM --- */

/* A hole of `*bytes`, carved out; more than was needed where the step of growth says so. */
static tarn__index carve_hole(struct tarn__caller *caller,
                              const struct tarn__request *request, uint64_t *need,
                              uint64_t *bytes)
{
    struct tarn__pool *pool = caller->pool;
    struct tarn__heap *heap = &pool->heap;
    tarn__index hole = tarn__heap_find_hole(heap, caller->lane, request, need);

    if (!hole)
        return 0;
    *need = round_to_pages(*need ? *need : 1);
    uint64_t room = tarn__node_bytes(tarn__node(&heap->nodes, hole));
    uint64_t most = allowance(pool) < room ? allowance(pool) : room;
    *bytes = tarn__pages_step(pool->pages, *need, most);
    if (*bytes == 0)
        return 0;
    return tarn__heap_carve(heap, hole, tarn__node(&heap->nodes, hole)->address, *bytes);
}

/* Map what was carved; where there is not enough for the step, what is needed. */
static tarn_status map_carved(struct tarn__pool *pool, tarn__index *index, uint64_t need,
                              uint64_t bytes)
{
    struct tarn__heap *heap = &pool->heap;
    uint64_t at = tarn__node(&heap->nodes, *index)->address;
    struct tarn__span span;
    tarn_status status =
        tarn__pages_grow(pool->pages, at, bytes, TARN_STREAM_NONE, &span);

    if (status != TARN_OUT_OF_MEMORY || need == bytes)
        return status;
    tarn__pool_lock(pool);
    tarn__heap_make_hole(heap, *index);
    tarn__index hole = tarn__heap_hole_at(heap, at);
    *index = hole ? tarn__heap_carve(heap, hole, at, need) : 0;
    tarn__pool_unlock(pool);
    if (!*index)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to grow");
    return tarn__pages_grow(pool->pages, at, need, TARN_STREAM_NONE, &span);
}

static tarn_status grow_vmm(struct tarn__caller *caller,
                            const struct tarn__request *request, tarn__index *out)
{
    struct tarn__pool *pool = caller->pool;
    uint64_t need = 0, bytes = 0;

    tarn__pool_lock(pool);
    tarn__index fresh = carve_hole(caller, request, &need, &bytes);
    tarn__pool_unlock(pool);
    if (!fresh)
        return over_limit(pool, need);
    if (TARN_MUTATION(growth_published_before_mapped)) {
        tarn__pool_lock(pool);
        tarn__heap_put(&pool->heap, fresh, NULL);
        tarn__pool_unlock(pool);
    }
    tarn_status status = map_carved(pool, &fresh, need, bytes);

    tarn__pool_lock(pool);
    if (status == TARN_OK) {
        if (!TARN_MUTATION(growth_published_before_mapped))
            tarn__heap_put(&pool->heap, fresh, NULL);
        *out = take_fresh(caller, request);
        pool->grown += *out != 0;
        pool->growths++;
        tarn__note_peaks(pool);
    } else if (fresh) {
        tarn__heap_make_hole(&pool->heap, fresh);
    }
    tarn__pool_unlock(pool);
    return status;
}

/* --- segments --- */

/* Memory that is asked for in the order of `lane`; without one it is to be ready, which an
 * upstream that orders by stream need not have made it. */
static tarn_status ask_upstream(struct tarn__pool *pool,
                                const struct tarn__caller *caller,
                                const struct tarn__lane *lane, size_t bytes,
                                struct tarn__span *out)
{
    tarn_stream stream = lane ? (tarn_stream)caller->handle : TARN_STREAM_NONE;
    tarn_status status = tarn__pages_grow(pool->pages, 0, bytes, stream, out);

    if (status != TARN_OK || lane || tarn__pages_are_done(pool->pages) ||
        !tarn__pages_is_ordered(pool->pages))
        return status;
    status = tarn__pages_barrier(pool->pages);
    if (status != TARN_OK) {
        tarn_error why = *tarn_error_last();
        tarn__pages_remove(pool->pages, *out);
        tarn_error_set_native(why.status, why.native, "%s", why.message);
    }
    return status;
}

static tarn_status grow_segment(struct tarn__caller *caller,
                                const struct tarn__request *request, tarn__index *out)
{
    struct tarn__pool *pool = caller->pool;
    uint64_t bytes = (uint64_t)request->granules << TARN__GRANULE_SHIFT;
    uint64_t slack =
        request->alignment > TARN__GRANULE ? request->alignment : TARN__GRANULE;
    struct tarn__span span;

    tarn__pool_lock(pool);
    uint64_t most = allowance(pool);
    tarn__pool_unlock(pool);
    uint64_t step = tarn__pages_step(pool->pages, bytes + slack, most);
    if (step == 0) /* without the slack it may just fit */
        step = tarn__pages_step(pool->pages, bytes, most);
    if (step == 0)
        return over_limit(pool, bytes);
    struct tarn__lane *lane = fresh_lane(caller);
    tarn_status status = ask_upstream(pool, caller, lane, step, &span);
    if (status == TARN_OUT_OF_MEMORY && step > bytes + slack)
        status = ask_upstream(pool, caller, lane, bytes + slack, &span);
    if (status != TARN_OK)
        return status;

    tarn__pool_lock(pool);
    bool added = tarn__heap_add_segment(&pool->heap, span.address, span.bytes, lane);
    if (added) {
        *out = take_fresh(caller, request);
        pool->grown += *out != 0;
        pool->growths++;
        tarn__note_peaks(pool);
    }
    tarn__pool_unlock(pool);
    if (!added) {
        tarn__pages_remove(pool->pages, span);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to grow");
    }
    return TARN_OK;
}

tarn_status tarn__grow(struct tarn__caller *caller, const struct tarn__request *request,
                       tarn__index *out)
{
    return tarn__pages_is_vmm(caller->pool->pages) ? grow_vmm(caller, request, out)
                                                   : grow_segment(caller, request, out);
}

tarn_status tarn__grow_by(struct tarn__pool *pool, uint64_t bytes)
{
    struct tarn__caller caller;
    struct tarn__request request = {.alignment = TARN__GRANULE};
    tarn__index index = 0;
    tarn_status status;

    if (bytes > (uint64_t)INT32_MAX << TARN__GRANULE_SHIFT)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: %llu bytes are more than any pool has",
                              (unsigned long long)bytes);
    request.granules = (uint32_t)((bytes + TARN__GRANULE - 1) >> TARN__GRANULE_SHIFT);
    status = tarn__caller_begin(pool, TARN_STREAM_NONE, &caller);
    if (status != TARN_OK)
        return status;
    pthread_mutex_lock(&pool->growth);
    status = tarn__grow(&caller, &request, &index);
    pthread_mutex_unlock(&pool->growth);
    if (index) {
        tarn__pool_lock(pool);
        tarn__heap_put(&pool->heap, index, NULL);
        tarn__pool_unlock(pool);
    }
    tarn__caller_end(&caller);
    return status;
}

/* --- idle memory: moved, and given back --- */

enum { IDLE_MAX = 256 };

struct idle {
    struct tarn__pool *pool;
    tarn__index nodes[IDLE_MAX];
    struct tarn__span spans[IDLE_MAX]; /* what of each can go */
    unsigned count;
    uint64_t bytes, wanted;
};

/* A ready block that has whole handles in it, or is a whole segment. */
static bool note_idle(void *data, tarn__index index)
{
    struct idle *idle = data;
    const struct tarn__node *node = tarn__node(&idle->pool->heap.nodes, index);
    struct tarn__span span = {node->address, tarn__node_bytes(node)};

    span = tarn__pages_removable(idle->pool->pages, span);
    if (span.bytes == 0)
        return true;
    idle->nodes[idle->count] = index;
    idle->spans[idle->count++] = span;
    idle->bytes += span.bytes;
    return idle->count < IDLE_MAX && idle->bytes < idle->wanted;
}

static void find_idle(struct tarn__pool *pool, uint64_t wanted, struct idle *idle)
{
    *idle = (struct idle){.pool = pool, .wanted = wanted};
    tarn__bins_visit(&pool->heap.ready, &pool->heap.nodes, 1, note_idle, idle);
    if (TARN_MUTATION(unmapped_with_fence_pending))
        for (tarn__index i = pool->heap.with_memory; i && idle->count < IDLE_MAX;
             i = tarn__lane(&pool->heap, i)->next_with_memory)
            tarn__bins_visit(&tarn__lane(&pool->heap, i)->bins, &pool->heap.nodes, 1,
                             note_idle, idle);
}

/* A segment's span may begin and end outside of its only block, which starts at a multiple
 * of the granule. */
static tarn__index carve_span(struct tarn__heap *heap, tarn__index index,
                              struct tarn__span span)
{
    const struct tarn__node *node = tarn__node(&heap->nodes, index);
    uint64_t start = span.address > node->address ? span.address : node->address;
    uint64_t end = span.address + span.bytes < tarn__node_end(node)
                       ? span.address + span.bytes
                       : tarn__node_end(node);

    return tarn__heap_carve(heap, index, start, end - start);
}

/* Take the spans out of their blocks; `nodes` are then exactly these. Where host memory
 * ends, fewer. */
static void carve_idle(struct tarn__pool *pool, struct idle *idle)
{
    unsigned kept = 0;

    idle->bytes = 0;
    for (unsigned i = 0; i < idle->count; i++) {
        tarn__index cut = carve_span(&pool->heap, idle->nodes[i], idle->spans[i]);
        if (!cut)
            continue;
        idle->nodes[kept] = cut;
        idle->spans[kept++] = idle->spans[i];
        idle->bytes += idle->spans[i].bytes;
    }
    idle->count = kept;
}

/* Where its addresses end up: nowhere for a segment. */
static void retire(struct tarn__pool *pool, tarn__index index)
{
    if (tarn__pages_is_vmm(pool->pages))
        tarn__heap_make_hole(&pool->heap, index);
    else
        tarn__heap_drop_segment(&pool->heap, index);
}

static void put_back(struct tarn__pool *pool, const struct idle *idle, unsigned first)
{
    for (unsigned i = first; i < idle->count; i++)
        tarn__heap_put(&pool->heap, idle->nodes[i], NULL);
}

/* Choose idle memory and the hole that it is to fill. `lock` held. */
static tarn__index plan_move(struct tarn__caller *caller,
                             const struct tarn__request *request, struct idle *idle)
{
    struct tarn__pool *pool = caller->pool;
    uint64_t need = 0;
    tarn__index hole = tarn__heap_find_hole(&pool->heap, caller->lane, request, &need);

    if (!hole || need == 0)
        return 0;
    find_idle(pool, round_to_pages(need), idle);
    if (idle->bytes < round_to_pages(need) ||
        idle->bytes > tarn__node_bytes(tarn__node(&pool->heap.nodes, hole)))
        return 0;
    uint64_t at = tarn__node(&pool->heap.nodes, hole)->address;
    uint64_t bytes = idle->bytes;
    carve_idle(pool, idle);
    tarn__index room =
        idle->bytes == bytes ? tarn__heap_carve(&pool->heap, hole, at, bytes) : 0;
    if (!room)
        put_back(pool, idle, 0);
    return room;
}

tarn__index tarn__move(struct tarn__caller *caller, const struct tarn__request *request)
{
    struct tarn__pool *pool = caller->pool;
    struct idle *idle;
    tarn__index index = 0;

    if (!tarn__pages_is_vmm(pool->pages) || (idle = malloc(sizeof *idle)) == NULL)
        return 0;
    tarn__pool_lock(pool);
    tarn__index room = plan_move(caller, request, idle);
    tarn__pool_unlock(pool);
    if (!room) {
        free(idle);
        return 0;
    }
    uint64_t at = tarn__node(&pool->heap.nodes, room)->address;
    tarn_status status = tarn__pages_move(pool->pages, idle->spans, idle->count, at);

    tarn__pool_lock(pool);
    if (status == TARN_OK) {
        for (unsigned i = 0; i < idle->count; i++)
            retire(pool, idle->nodes[i]);
        tarn__heap_put(&pool->heap, room, NULL);
        index = take_fresh(caller, request);
        pool->moves++;
        pool->generation++;
    } else {
        put_back(pool, idle, 0);
        tarn__heap_make_hole(&pool->heap, room);
    }
    tarn__pool_unlock(pool);
    free(idle);
    return index;
}

/* Give one round of idle memory back. False: there was none, or a call failed. */
static bool shrink_once(struct tarn__pool *pool, uint64_t keep, struct idle *idle,
                        uint64_t *released, tarn_status *status)
{
    unsigned removed = 0;

    tarn__pool_lock(pool);
    uint64_t over = pool->heap.free_bytes > keep ? pool->heap.free_bytes - keep : 0;
    find_idle(pool, over, idle);
    if (over == 0)
        idle->count = 0;
    /* Never below what is to be kept: of the last one, what is over. */
    while (idle->count > 0 && idle->bytes > over) {
        struct tarn__span *last = &idle->spans[idle->count - 1];
        idle->bytes -= last->bytes;
        last->bytes = over > idle->bytes ? over - idle->bytes : 0;
        *last = tarn__pages_removable(pool->pages, *last);
        idle->bytes += last->bytes;
        idle->count -= last->bytes == 0;
    }
    carve_idle(pool, idle);
    tarn__pool_unlock(pool);

    *status = TARN_OK;
    while (removed < idle->count && *status == TARN_OK) {
        *status = tarn__pages_remove(pool->pages, idle->spans[removed]);
        if (*status == TARN_OK)
            *released += idle->spans[removed++].bytes;
    }
    tarn__pool_lock(pool);
    for (unsigned i = 0; i < removed; i++)
        retire(pool, idle->nodes[i]);
    put_back(pool, idle, removed);
    pool->shrinks += removed;
    pool->generation += removed > 0;
    tarn__pool_unlock(pool);
    return removed > 0 && *status == TARN_OK;
}

tarn_status tarn__shrink(struct tarn__pool *pool, uint64_t keep, uint64_t *released_out)
{
    struct idle *idle = malloc(sizeof *idle);
    uint64_t released = 0;
    tarn_status status = TARN_OK;

    if (!idle)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to trim");
    while (shrink_once(pool, keep, idle, &released, &status))
        continue;
    free(idle);
    *released_out = released;
    return status;
}
