/* runs.c -- run coalescing: adjacent blocks that are large enough together, where no
 * single block is.
 *
 * Blocks of different streams do not coalesce, since each has another event fence. Large
 * blocks of one stream do not while that would cost them their fence. So memory that is
 * free for a request may lie in adjacent pieces, which are found here. A stream's own and
 * completed pieces coalesce for good. Fenced pieces of any stream coalesce once the
 * caller's stream has waited for all of their streams.
 */
#include "resource/pool/heap.h"
#include "resource/pool/mutations.h"

#define NODE(index) tarn__node(&heap->nodes, (index))

/* A run of adjacent blocks during the search. */
struct look {
    struct tarn__heap *heap;
    const struct tarn__lane *lane;
    const struct tarn__request *request;
    bool fenced_too; /* other streams' frees count, too */
    tarn__index first;
    uint64_t granules; /* 0: none was found */
    unsigned looks;
};

/* Blocks that are tried: enough to find any run of a pool's large pieces, few enough to
 * bound the cost. */
enum { LOOKS = 128 };

static bool is_usable(const struct look *look, const struct tarn__node *node)
{
    return look->fenced_too ? tarn__lane_may_wait_for(look->heap, look->lane, node)
                            : tarn__lane_may_have(look->lane, node);
}

static bool fits(const struct look *look)
{
    const struct tarn__node *first = tarn__node(&look->heap->nodes, look->first);
    struct tarn__node whole = {.address = first->address};

    if (look->granules > UINT32_MAX)
        return false;
    whole.granules = (uint32_t)look->granules;
    return tarn__request_fits(look->request, &whole);
}

/* Extend the run around one block to both sides; returns false, to end the visit, where
 * it fits. */
static bool look_around(void *data, tarn__index index)
{
    struct look *look = data;
    struct tarn__heap *heap = look->heap;
    tarn__index next;

    if (!is_usable(look, NODE(index)))
        return ++look->looks < LOOKS;
    look->first = index;
    for (int i = 1; i < TARN__RUN_MAX / 2 && (next = NODE(look->first)->before) != 0 &&
                    is_usable(look, NODE(next));
         i++)
        look->first = next;
    look->granules = 0;
    next = look->first;
    for (int i = 0; i < TARN__RUN_MAX && next && is_usable(look, NODE(next)); i++) {
        look->granules += NODE(next)->granules;
        if (fits(look))
            return false;
        next = NODE(next)->after;
    }
    look->granules = 0;
    return ++look->looks < LOOKS;
}

static bool look_in(struct look *look, const struct tarn__bins *bins)
{
    look->looks = 0;
    tarn__bins_visit(bins, &look->heap->nodes, look->request->granules / TARN__RUN_MAX,
                     look_around, look);
    return look->granules > 0;
}

/* --- of one stream, for good --- */

bool tarn__heap_join(struct tarn__heap *heap, struct tarn__lane *lane,
                     const struct tarn__request *request)
{
    struct look look = {.heap = heap, .lane = lane, .request = request};

    if (!look_in(&look, &heap->ready) &&
        !(lane && lane->in_order && look_in(&look, &lane->bins)))
        return false;
    tarn__heap_join_neighbours(heap, look.first, (uint32_t)look.granules);
    return true;
}

/* --- of several streams, after the waits --- */

static bool find(struct look *look)
{
    struct tarn__heap *heap = look->heap;

    if (look_in(look, &heap->ready))
        return true;
    for (tarn__index i = heap->with_memory; i; i = tarn__lane(heap, i)->next_with_memory)
        if (look_in(look, &tarn__lane(heap, i)->bins))
            return true;
    return false;
}

/* Take one piece, of at most `granules`. Returns false without host memory. */
static bool take(struct tarn__heap *heap, tarn__index index, uint64_t granules,
                 struct tarn__run *out)
{
    const struct tarn__node *node = NODE(index);
    tarn__index lane = node->lane;
    uint64_t epoch = node->epoch;
    uint64_t bytes = tarn__node_bytes(node), most = granules << TARN__GRANULE_SHIFT;

    index = tarn__heap_carve(heap, index, node->address, bytes < most ? bytes : most);
    if (!index)
        return false;
    out->nodes[out->count] = index;
    out->lanes[out->count] = lane;
    out->epochs[out->count++] = epoch;
    return true;
}

void tarn__heap_take_run(struct tarn__heap *heap, const struct tarn__lane *lane,
                         const struct tarn__request *request, struct tarn__run *out)
{
    struct look look = {
        .heap = heap, .lane = lane, .request = request, .fenced_too = true};
    uint64_t granules = request->granules;

    out->count = 0;
    /* A run begins where a block does, which does not guarantee large alignments. */
    if (request->alignment > TARN__GRANULE || !find(&look))
        return;
    for (tarn__index i = look.first, next; granules > 0; i = next) {
        next = NODE(i)->after;
        if (out->count == TARN__RUN_MAX || !take(heap, i, granules, out)) {
            tarn__heap_put_run(heap, out);
            out->count = 0;
            return;
        }
        granules -= NODE(out->nodes[out->count - 1])->granules;
    }
}

tarn__index tarn__heap_weld(struct tarn__heap *heap, const struct tarn__run *run)
{
    for (size_t i = 1; i < run->count; i++)
        tarn__heap_swallow(heap, run->nodes[0]);
    return run->nodes[0];
}

void tarn__heap_put_run(struct tarn__heap *heap, const struct tarn__run *run)
{
    for (size_t i = 0; i < run->count; i++)
        tarn__heap_put(heap, run->nodes[i],
                       run->lanes[i] ? tarn__lane(heap, run->lanes[i]) : NULL);
}
