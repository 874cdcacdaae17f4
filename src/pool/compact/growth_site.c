/* growth_site.c -- where the pool grows if nothing moves, or what moves is not enough. */
#include "pool/compact/growth_site.h"
#include "pool/blocks/runs.h"

#define NODE(index) tarn__node(&heap->nodes, (index))

/* The unmapped ranges considered, in all and in one hold of the lock. */
enum { LOOKS = 128, HOLD = 4 };

struct site_search {
    const struct tarn__caller *caller;
    const struct tarn__request *request;
    uint64_t extra_bytes;
    struct tarn__growth_site best;
    unsigned looks;
};

/* Return how much of an unmapped range the request needs, given the memory before it. */
static struct tarn__growth_site site_in(const struct site_search *search,
                                        tarn__index index) TARN__REQUIRES(pool_lock)
{
    const struct tarn__heap *heap = &search->caller->pool->heap;
    const struct tarn__node *range = NODE(index);
    uint64_t alignment = search->request->alignment;
    struct tarn__growth_site site = {
        index, range->address, 0,
        tarn__runs_begin(heap, search->caller->stream_state, index)};

    uint64_t start = (site.from + alignment - 1) & ~(alignment - 1);
    uint64_t end = start + ((uint64_t)search->request->quanta << TARN__QUANTUM_SHIFT);
    site.bytes = end > range->address ? end - range->address : 0;
    return site;
}

/* Return true if another unmapped range ends where this one begins: together they have
 * more quanta than a node can have. */
static bool is_behind_unmapped(const struct tarn__heap *heap, tarn__index index)
{
    tarn__index before = NODE(index)->before;

    return before && tarn__node_state(NODE(before)) == TARN__UNMAPPED;
}

/* Return true if less is needed at `site`, or as much, and the pool stays in one piece:
 * untouched nodes of a large range are used in the order of their addresses. */
static bool is_better(const struct tarn__heap *heap, const struct tarn__growth_site *site,
                      const struct tarn__growth_site *best)
{
    if (!best->range || site->bytes != best->bytes)
        return !best->range || site->bytes < best->bytes;
    if (!is_behind_unmapped(heap, best->range))
        return false;
    return !is_behind_unmapped(heap, site->range) || site->address < best->address;
}

static bool visit_unmapped(void *data, tarn__index index) TARN__REQUIRES(pool_lock)
{
    struct site_search *search = data;
    struct tarn__pool *pool = search->caller->pool;
    const struct tarn__node *range = tarn__node(&pool->heap.nodes, index);
    struct tarn__growth_site site = site_in(search, index);

    /* The page that maps it has to be in the unmapped range as well. */
    if (tarn__heap_may_serve(&pool->heap, range, search->request->quanta) &&
        site.bytes + search->extra_bytes <= tarn__node_bytes(range) &&
        is_better(&pool->heap, &site, &search->best))
        search->best = site;
    if (++search->looks % HOLD == 0)
        tarn__pool_relock(pool);
    return search->looks < LOOKS;
}

static void visit_all(struct site_search *search) TARN__REQUIRES(pool_lock)
{
    struct tarn__heap *heap = &search->caller->pool->heap;

    tarn__bins_visit(&heap->unmapped, &heap->nodes, 1, visit_unmapped, search);
}

struct tarn__growth_site tarn__growth_site_find(const struct tarn__caller *caller,
                                                const struct tarn__request *request,
                                                uint64_t extra_bytes)
{
    tarn__assert_held(&caller->pool->growth);

    struct tarn__pool *pool = caller->pool;
    struct site_search search = {
        .caller = caller, .request = request, .extra_bytes = extra_bytes};

    tarn__pool_lock(pool);
    visit_all(&search);
    tarn__pool_unlock(pool);
    return search.best;
}
