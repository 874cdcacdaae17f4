/* idle.c -- reclaimable memory: finding it, splitting it off its blocks, releasing it. */
#include "resource/pool/idle.h"
#include <stdlib.h>

/* Note a free block that has whole handles in it, or is a whole segment; of `lane`, NULL
 * where it is completed. */
static bool note(struct tarn__idle *idle, tarn__index index, struct tarn__lane *lane)
{
    const struct tarn__pages *pages = idle->pool->pages;
    const struct tarn__node *node = tarn__node(&idle->pool->heap.nodes, index);
    struct tarn__span span = {node->address, tarn__node_bytes(node)};

    if (tarn__span_has(idle->not_in, node->address))
        return true;
    span = tarn__pages_removable(pages, span);
    if (span.bytes == 0)
        return true;
    idle->parts[idle->count++] = (struct tarn__idle_part){
        index, tarn__pages_count(pages, span), span, lane, node->epoch, NULL};
    return idle->count < TARN__IDLE_MAX;
}

static bool note_ready(void *data, tarn__index index)
{
    return note(data, index, NULL);
}

static bool note_fenced(void *data, tarn__index index)
{
    struct tarn__idle *idle = data;
    const struct tarn__heap *heap = &idle->pool->heap;
    const struct tarn__node *node = tarn__node(&heap->nodes, index);
    struct tarn__lane *lane = tarn__lane(heap, node->lane);

    return !tarn__lane_has_fenced(lane, node) || note(idle, index, lane);
}

static void swap(struct tarn__idle_part *one, struct tarn__idle_part *other)
{
    struct tarn__idle_part kept = *one;

    *one = *other;
    *other = kept;
}

static unsigned largest_of(const struct tarn__idle *idle, unsigned first)
{
    unsigned largest = first;

    for (unsigned i = first + 1; i < idle->count; i++)
        if (tarn__idle_mean_handle(&idle->parts[i]) >
            tarn__idle_mean_handle(&idle->parts[largest]))
            largest = i;
    return largest;
}

/* Keep as many parts from `first` on as are needed; `large`: those of the largest
 * handles. */
static void keep_enough(struct tarn__idle *idle, unsigned first, bool large)
{
    unsigned kept = first;

    for (; kept < idle->count && idle->bytes < idle->wanted; kept++) {
        if (large)
            swap(&idle->parts[kept], &idle->parts[largest_of(idle, kept)]);
        idle->bytes += idle->parts[kept].span.bytes;
    }
    idle->count = kept;
}

/* Trim the last span to as many handles as are needed. */
static void trim_last(struct tarn__idle *idle)
{
    if (idle->bytes <= idle->wanted)
        return;
    struct tarn__idle_part *part = &idle->parts[idle->count - 1];
    struct tarn__span *last = &part->span;
    uint64_t over = idle->bytes - idle->wanted;
    idle->bytes -= last->bytes;
    *last = tarn__pages_first(idle->pool->pages, *last, last->bytes - over);
    part->handles = tarn__pages_count(idle->pool->pages, *last);
    idle->bytes += last->bytes;
}

/* Return the size in granules of the smallest block that may have a whole handle in it,
 * or be a segment. */
static uint32_t least_granules(const struct tarn__pool *pool)
{
    return tarn__pages_is_vmm(pool->pages) ? TARN__PAGE_BYTES >> TARN__GRANULE_SHIFT : 1;
}

/* Find all completed memory, in the largest blocks. */
static void find(struct tarn__pool *pool, uint64_t wanted, struct tarn__span not_in,
                 struct tarn__idle *out)
{
    out->pool = pool;
    out->count = out->ready = 0;
    out->bytes = 0;
    out->wanted = wanted;
    out->not_in = not_in;
    if (wanted == 0)
        return;
    tarn__bins_visit(&pool->heap.ready, &pool->heap.nodes, least_granules(pool),
                     note_ready, out);
    if (TARN_MUTATION(unmapped_with_fence_pending))
        for (tarn__index i = pool->heap.with_memory; i && out->count < TARN__IDLE_MAX;
             i = tarn__lane(&pool->heap, i)->next_with_memory)
            tarn__bins_visit(&tarn__lane(&pool->heap, i)->bins, &pool->heap.nodes,
                             least_granules(pool), note_ready, out);
}

void tarn__idle_find(struct tarn__pool *pool, uint64_t wanted, struct tarn__span not_in,
                     struct tarn__idle *out)
{
    find(pool, wanted, not_in, out);
    keep_enough(out, 0, true);
    out->ready = out->count;
    trim_last(out);
}

/* --- handles that lie in pieces --- */

/* Blocks of a lane that have a neighbour of the same lane, or a completed one. */
enum { PIECES = 64, PIECE_LOOKS = 512 };

struct pieces {
    const struct tarn__idle *idle;
    const struct tarn__lane *lane;
    tarn__index found[PIECES];
    unsigned count, looks;
};

static bool is_piece(const struct pieces *pieces, tarn__index index)
{
    const struct tarn__node *node = tarn__node(&pieces->idle->pool->heap.nodes, index);

    if (!index || tarn__node_state(node) != TARN__FREE ||
        tarn__span_has(pieces->idle->not_in, node->address))
        return false;
    if (node->lane == pieces->lane->index)
        return tarn__lane_has_fenced(pieces->lane, node);
    struct tarn__span span = {node->address, tarn__node_bytes(node)};
    return node->lane == 0 && /* a block with whole handles was chosen already */
           tarn__pages_removable(pieces->idle->pool->pages, span).bytes == 0;
}

static bool note_piece(void *data, tarn__index index)
{
    struct pieces *pieces = data;
    const struct tarn__node *node = tarn__node(&pieces->idle->pool->heap.nodes, index);

    if (is_piece(pieces, index) &&
        (is_piece(pieces, node->before) || is_piece(pieces, node->after)))
        pieces->found[pieces->count++] = index;
    return pieces->count < PIECES && ++pieces->looks < PIECE_LOOKS;
}

/* Coalesce all pieces that touch this one, if it still exists. Each is behind an event
 * fence of the lane, and the youngest fence covers all. */
static void join_around(struct pieces *pieces, tarn__index index)
{
    struct tarn__heap *heap = &pieces->idle->pool->heap;
    struct tarn__nodes *nodes = &heap->nodes;
    unsigned count = 1;

    if (!is_piece(pieces, index))
        return;
    for (; count < PIECES && is_piece(pieces, tarn__node(nodes, index)->before); count++)
        index = tarn__node(nodes, index)->before;
    uint64_t granules = tarn__node(nodes, index)->granules;
    count = 1;
    for (tarn__index i = tarn__node(nodes, index)->after;
         count < PIECES && is_piece(pieces, i); i = tarn__node(nodes, i)->after, count++)
        granules += tarn__node(nodes, i)->granules;
    if (count > 1 && granules <= UINT32_MAX)
        tarn__heap_join_neighbours(heap, index, (uint32_t)granules);
}

static void join_pieces(const struct tarn__idle *idle, const struct tarn__lane *lane)
{
    struct pieces pieces = {.idle = idle, .lane = lane};

    tarn__bins_visit(&lane->bins, &idle->pool->heap.nodes, 1, note_piece, &pieces);
    for (unsigned i = 0; i < pieces.count; i++)
        join_around(&pieces, pieces.found[i]);
}

/* --- memory behind event fences --- */

static bool wants_more(const struct tarn__idle *idle)
{
    return idle->count < TARN__IDLE_MAX && idle->bytes < idle->wanted;
}

/* Note memory lane by lane: each lane that is not the caller's costs one more wait. */
static void note_lane(struct tarn__idle *idle, struct tarn__lane *lane)
{
    unsigned first = idle->count;

    join_pieces(idle, lane);
    tarn__bins_visit(&lane->bins, &idle->pool->heap.nodes, least_granules(idle->pool),
                     note_fenced, idle);
    keep_enough(idle, first, true);
}

void tarn__idle_find_fenced(const struct tarn__caller *caller, struct tarn__idle *idle)
{
    struct tarn__pool *pool = caller->pool;
    struct tarn__heap *heap = &pool->heap;
    struct tarn__lane *own = caller->lane;

    if (!caller->may_record || caller->capturing || !own->in_order || !wants_more(idle) ||
        !tarn__old_reserve(pool, TARN__IDLE_MAX))
        return;
    note_lane(idle, own);
    for (tarn__index i = heap->with_memory, after;
         i && wants_more(idle) && !pool->options.grow_first; i = after) {
        after = tarn__lane(heap, i)->next_with_memory;
        if (i != own->index && !tarn__lane(heap, i)->is_capture)
            note_lane(idle, tarn__lane(heap, i));
    }
    trim_last(idle);
}

/* Return true if no span of the same lane is younger. */
static bool is_youngest(const struct tarn__idle *idle, unsigned which)
{
    const struct tarn__idle_part *part = &idle->parts[which], *other;

    for (unsigned i = idle->ready; i < idle->count; i++) {
        other = &idle->parts[i];
        if (other->lane == part->lane &&
            (other->epoch > part->epoch || (other->epoch == part->epoch && i < which)))
            return false;
    }
    return true;
}

bool tarn__idle_wait(const struct tarn__caller *caller, const struct tarn__idle *idle)
{
    uint64_t waits = 0;
    bool waited = true;

    for (unsigned i = idle->ready; waited && i < idle->count; i++) {
        const struct tarn__idle_part *part = &idle->parts[i];
        if (part->lane == caller->lane || !is_youngest(idle, i))
            continue;
        waits++;
        if (!TARN_MUTATION(moved_without_wait))
            waited = caller->scope.calls->stream_wait_event(caller->handle, part->event,
                                                            0) == CUDA_SUCCESS_;
    }
    tarn__pool_lock(caller->pool);
    caller->pool->waits += waits;
    tarn__pool_unlock(caller->pool);
    return waited;
}

/* Split off a span. A segment's span may begin and end outside of its only block, which
 * starts at a multiple of the granule. */
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

/* Return the block there that other parts left over. */
static tarn__index around(const struct tarn__heap *heap, tarn__index index,
                          uint64_t address)
{
    while (tarn__node_end(tarn__node(&heap->nodes, index)) <= address)
        index = tarn__node(&heap->nodes, index)->after;
    while (tarn__node(&heap->nodes, index)->address > address &&
           tarn__node(&heap->nodes, index)->before)
        index = tarn__node(&heap->nodes, index)->before;
    return index;
}

/* Pin the event fence that covers a span's last use. */
static CUevent_ pin(struct tarn__lane *lane, uint64_t epoch)
{
    return tarn__lane_pin(lane, &lane->fences[tarn__lane_fence_for(lane, epoch)]);
}

void tarn__idle_carve(struct tarn__idle *idle)
{
    unsigned kept = 0, count = idle->count;

    idle->bytes = idle->count = idle->ready = 0;
    for (unsigned i = 0; i < count; i++) {
        struct tarn__idle_part part = idle->parts[i];
        if (part.lane) /* before its last block goes */
            part.event = pin(part.lane, part.epoch);
        part.node = around(&idle->pool->heap, part.node, part.span.address);
        tarn__index cut = carve_span(&idle->pool->heap, part.node, part.span);
        if (!cut && part.lane)
            tarn__lane_unpin(part.lane, part.event);
        if (!cut)
            continue;
        part.node = cut;
        idle->parts[kept++] = part;
        idle->bytes += part.span.bytes;
        idle->ready += part.lane == NULL;
    }
    idle->count = kept;
}

void tarn__idle_put_back(const struct tarn__idle *idle, unsigned first)
{
    for (unsigned i = first; i < idle->count; i++) {
        const struct tarn__idle_part *part = &idle->parts[i];
        tarn__heap_put(&idle->pool->heap, part->node, part->lane);
        if (part->lane)
            tarn__lane_unpin(part->lane, part->event);
    }
}

/* Retire the addresses of a span; a segment's are dropped. */
void tarn__idle_retire(const struct tarn__idle *idle, unsigned count)
{
    struct tarn__heap *heap = &idle->pool->heap;

    for (unsigned i = 0; i < count; i++) {
        const struct tarn__idle_part *part = &idle->parts[i];
        if (part->lane)
            tarn__old_add(idle->pool, part->node, part->lane, part->epoch, part->event);
        else if (tarn__pages_is_vmm(idle->pool->pages))
            tarn__heap_make_hole(heap, part->node);
        else
            tarn__heap_drop_segment(heap, part->node);
    }
}

/* --- releasing --- */

/* Unmap and release spans, as far as the driver does; returns how many. The others are
 * free again, and `*status_out` has the driver's status. */
static unsigned give_back(struct tarn__idle *idle, tarn_status *status_out)
{
    struct tarn__pool *pool = idle->pool;
    unsigned removed = 0;

    *status_out = TARN_OK;
    while (removed < idle->count && *status_out == TARN_OK) {
        *status_out = tarn__pages_remove(pool->pages, idle->parts[removed].span);
        removed += *status_out == TARN_OK;
    }
    tarn__pool_lock(pool);
    tarn__idle_retire(idle, removed);
    tarn__idle_put_back(idle, removed);
    pool->generation += removed > 0;
    tarn__pool_unlock(pool);
    idle->count = idle->ready = 0;
    return removed;
}

/* Trim to at most `most` bytes; the excess of the last one stays. */
static void trim_to(struct tarn__idle *idle, uint64_t most)
{
    while (idle->count > 0 && idle->bytes > most) {
        struct tarn__span *last = &idle->parts[idle->count - 1].span;
        idle->bytes -= last->bytes;
        last->bytes = most > idle->bytes ? most - idle->bytes : 0;
        *last = tarn__pages_removable(idle->pool->pages, *last);
        idle->bytes += last->bytes;
        idle->count -= last->bytes == 0;
    }
}

/* Release one round of reclaimable memory. Returns false if there was none, or a call
 * failed. */
static bool shrink_once(struct tarn__pool *pool, uint64_t keep, struct tarn__idle *idle,
                        uint64_t *released, tarn_status *status)
{
    tarn__pool_lock(pool);
    uint64_t over = pool->heap.free_bytes > keep ? pool->heap.free_bytes - keep : 0;
    find(pool, over, (struct tarn__span){0, 0}, idle);
    keep_enough(idle, 0, false);
    idle->ready = idle->count;
    trim_to(idle, over);
    tarn__idle_carve(idle);
    tarn__pool_unlock(pool);

    uint64_t before = tarn__pages_reserved(pool->pages);
    unsigned removed = give_back(idle, status);
    *released += before - tarn__pages_reserved(pool->pages);
    tarn__pool_lock(pool);
    pool->shrinks += removed;
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
    tarn__old_leave(pool); /* else their memory stays */
    while (shrink_once(pool, keep, idle, &released, &status))
        continue;
    free(idle);
    *released_out = released;
    return status;
}
