/* idle.c -- idle memory: found, taken out of its blocks, given back. */
#include "resource/pool/idle.h"
#include <stdlib.h>

static bool is_in(struct tarn__span span, uint64_t address)
{
    return address - span.address < span.bytes;
}

/* A ready block that has whole handles in it, or is a whole segment. */
static bool note(void *data, tarn__index index)
{
    struct tarn__idle *idle = data;
    const struct tarn__node *node = tarn__node(&idle->pool->heap.nodes, index);
    struct tarn__span span = {node->address, tarn__node_bytes(node)};

    if (is_in(idle->not_in, node->address))
        return true;
    span = tarn__pages_removable(idle->pool->pages, span);
    if (span.bytes == 0)
        return true;
    idle->nodes[idle->count] = index;
    idle->spans[idle->count++] = span;
    idle->bytes += span.bytes;
    return idle->count < TARN__IDLE_MAX && idle->bytes < idle->wanted;
}

/* Of the last span, only as many handles as it takes. */
static void trim_last(struct tarn__idle *idle)
{
    if (idle->bytes <= idle->wanted)
        return;
    struct tarn__span *last = &idle->spans[idle->count - 1];
    uint64_t over = idle->bytes - idle->wanted;
    idle->bytes -= last->bytes;
    *last = tarn__pages_first(idle->pool->pages, *last, last->bytes - over);
    idle->bytes += last->bytes;
}

void tarn__idle_find(struct tarn__pool *pool, uint64_t wanted, struct tarn__span not_in,
                     struct tarn__idle *out)
{
    out->pool = pool;
    out->count = 0;
    out->bytes = 0;
    out->wanted = wanted;
    out->not_in = not_in;
    if (wanted == 0)
        return;
    tarn__bins_visit(&pool->heap.ready, &pool->heap.nodes, 1, note, out);
    if (TARN_MUTATION(unmapped_with_fence_pending))
        for (tarn__index i = pool->heap.with_memory; i && out->count < TARN__IDLE_MAX;
             i = tarn__lane(&pool->heap, i)->next_with_memory)
            tarn__bins_visit(&tarn__lane(&pool->heap, i)->bins, &pool->heap.nodes, 1,
                             note, out);
    trim_last(out);
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

void tarn__idle_carve(struct tarn__idle *idle)
{
    unsigned kept = 0;

    idle->bytes = 0;
    for (unsigned i = 0; i < idle->count; i++) {
        tarn__index cut = carve_span(&idle->pool->heap, idle->nodes[i], idle->spans[i]);
        if (!cut)
            continue;
        idle->nodes[kept] = cut;
        idle->spans[kept++] = idle->spans[i];
        idle->bytes += idle->spans[i].bytes;
    }
    idle->count = kept;
}

void tarn__idle_put_back(const struct tarn__idle *idle, unsigned first)
{
    for (unsigned i = first; i < idle->count; i++)
        tarn__heap_put(&idle->pool->heap, idle->nodes[i], NULL);
}

/* Where its addresses end up: nowhere for a segment. */
void tarn__idle_retire(const struct tarn__idle *idle, unsigned count)
{
    struct tarn__heap *heap = &idle->pool->heap;

    for (unsigned i = 0; i < count; i++)
        if (tarn__pages_is_vmm(idle->pool->pages))
            tarn__heap_make_hole(heap, idle->nodes[i]);
        else
            tarn__heap_drop_segment(heap, idle->nodes[i]);
}

/* --- given back --- */

/* Never below what is to be kept: of the last one, what is over. */
static void trim_to(struct tarn__idle *idle, uint64_t most)
{
    while (idle->count > 0 && idle->bytes > most) {
        struct tarn__span *last = &idle->spans[idle->count - 1];
        idle->bytes -= last->bytes;
        last->bytes = most > idle->bytes ? most - idle->bytes : 0;
        *last = tarn__pages_removable(idle->pool->pages, *last);
        idle->bytes += last->bytes;
        idle->count -= last->bytes == 0;
    }
}

/* Give one round of idle memory back. False: there was none, or a call failed. */
static bool shrink_once(struct tarn__pool *pool, uint64_t keep, struct tarn__idle *idle,
                        uint64_t *released, tarn_status *status)
{
    unsigned removed = 0;

    tarn__pool_lock(pool);
    uint64_t over = pool->heap.free_bytes > keep ? pool->heap.free_bytes - keep : 0;
    tarn__idle_find(pool, over, (struct tarn__span){0, 0}, idle);
    trim_to(idle, over);
    tarn__idle_carve(idle);
    tarn__pool_unlock(pool);

    *status = TARN_OK;
    while (removed < idle->count && *status == TARN_OK) {
        *status = tarn__pages_remove(pool->pages, idle->spans[removed]);
        if (*status == TARN_OK)
            *released += idle->spans[removed++].bytes;
    }
    tarn__pool_lock(pool);
    tarn__idle_retire(idle, removed);
    tarn__idle_put_back(idle, removed);
    pool->shrinks += removed;
    pool->generation += removed > 0;
    tarn__pool_unlock(pool);
    return removed > 0 && *status == TARN_OK;
}

tarn_status tarn__shrink(struct tarn__pool *pool, uint64_t keep, uint64_t *released_out)
{
    struct tarn__idle *idle = malloc(sizeof *idle);
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
