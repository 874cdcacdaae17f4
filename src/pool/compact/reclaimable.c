/* reclaimable.c -- reclaimable memory: finding it, splitting it off its blocks, releasing
 * it. */
#include "pool/compact/reclaimable.h"
#include "pool/blocks/ranges.h"
#include "pool/blocks/take.h"
#include "pool/compact/retired.h"
#include "pool/order/events.h"
#include "pool/order/wait_set.h"
#include <stdlib.h>

/* Note a free block that has whole handles in it, or is a whole segment; of
 * `stream_state`, NULL where it is completed. */
static bool note(struct tarn__reclaimable *reclaimable, tarn__index index,
                 struct tarn__stream_state *stream_state)
{
    const struct tarn__pages *pages = reclaimable->pool->pages;
    const struct tarn__node *node = tarn__node(&reclaimable->pool->heap.nodes, index);
    struct tarn__span span = {node->address, tarn__node_bytes(node)};

    if (tarn__pages_span_has(reclaimable->excluded, node->address))
        return true;
    span = tarn__pages_removable(pages, span);
    if (span.bytes == 0)
        return true;
    reclaimable->parts[reclaimable->count++] = (struct tarn__reclaimable_part){
        index, tarn__pages_count(pages, span), span, stream_state, node->epoch, NULL};
    return reclaimable->count < TARN__RECLAIMABLE_MAX;
}

static bool note_completed(void *data, tarn__index index)
{
    return note(data, index, NULL);
}

static bool note_fenced(void *data, tarn__index index) TARN__REQUIRES(pool_lock)
{
    struct tarn__reclaimable *reclaimable = data;
    const struct tarn__heap *heap = &reclaimable->pool->heap;
    const struct tarn__node *node = tarn__node(&heap->nodes, index);
    struct tarn__stream_state *stream_state = tarn__heap_state(heap, node->stream_state);

    return !tarn__stream_state_has_fenced(stream_state, node) ||
           note(reclaimable, index, stream_state);
}

static void swap(struct tarn__reclaimable_part *one, struct tarn__reclaimable_part *other)
{
    struct tarn__reclaimable_part kept = *one;

    *one = *other;
    *other = kept;
}

static unsigned largest_of(const struct tarn__reclaimable *reclaimable, unsigned first)
{
    unsigned largest = first;

    for (unsigned i = first + 1; i < reclaimable->count; i++)
        if (tarn__reclaimable_mean_handle(&reclaimable->parts[i]) >
            tarn__reclaimable_mean_handle(&reclaimable->parts[largest]))
            largest = i;
    return largest;
}

/* Keep as many parts from `first` on as are needed; `large`: those of the largest
 * handles. */
static void keep_enough(struct tarn__reclaimable *reclaimable, unsigned first, bool large)
{
    unsigned kept = first;

    for (; kept < reclaimable->count && reclaimable->bytes < reclaimable->wanted;
         kept++) {
        if (large)
            swap(&reclaimable->parts[kept],
                 &reclaimable->parts[largest_of(reclaimable, kept)]);
        reclaimable->bytes += reclaimable->parts[kept].span.bytes;
    }
    reclaimable->count = kept;
}

/* Trim the last span to as many handles as are needed. */
static void trim_last(struct tarn__reclaimable *reclaimable)
{
    if (reclaimable->bytes <= reclaimable->wanted)
        return;
    struct tarn__reclaimable_part *part = &reclaimable->parts[reclaimable->count - 1];
    struct tarn__span *last = &part->span;
    uint64_t over = reclaimable->bytes - reclaimable->wanted;
    reclaimable->bytes -= last->bytes;
    *last = tarn__pages_first(reclaimable->pool->pages, *last, last->bytes - over);
    part->handles = tarn__pages_count(reclaimable->pool->pages, *last);
    reclaimable->bytes += last->bytes;
}

/* Return the size in quanta of the smallest block that may have a whole handle in it,
 * or be a segment. */
static uint32_t least_quanta(const struct tarn__pool *pool)
{
    return tarn__pages_is_vmm(pool->pages) ? TARN__PAGE_BYTES >> TARN__QUANTUM_SHIFT : 1;
}

/* Find all completed memory, in the largest blocks. */
static void find(struct tarn__pool *pool, uint64_t wanted, struct tarn__span excluded,
                 struct tarn__reclaimable *out)
{
    out->pool = pool;
    out->count = out->completed = 0;
    out->bytes = 0;
    out->wanted = wanted;
    out->excluded = excluded;
    if (wanted == 0)
        return;
    tarn__bins_visit(&pool->heap.completed, &pool->heap.nodes, least_quanta(pool),
                     note_completed, out);
    if (TARN_MUTATION(unmapped_with_fence_pending))
        for (tarn__index i = pool->heap.with_memory;
             i && out->count < TARN__RECLAIMABLE_MAX;
             i = tarn__heap_state(&pool->heap, i)->next_with_memory)
            tarn__bins_visit(&tarn__heap_state(&pool->heap, i)->free.bins,
                             &pool->heap.nodes, least_quanta(pool), note_completed, out);
}

void tarn__reclaimable_find(struct tarn__pool *pool, uint64_t wanted,
                            struct tarn__span excluded, struct tarn__reclaimable *out)
{
    tarn__assert_held(&pool->lock);

    find(pool, wanted, excluded, out);
    keep_enough(out, 0, true);
    out->completed = out->count;
    trim_last(out);
}

/* --- handles that lie in pieces --- */

/* Blocks of a stream state that have a neighbour of the same stream state, or a completed
 * one. */
enum { PIECES = 64, PIECE_LOOKS = 512 };

struct pieces {
    const struct tarn__reclaimable *reclaimable;
    const struct tarn__stream_state *stream_state;
    tarn__index found[PIECES];
    unsigned count, looks;
};

static bool is_piece(const struct pieces *pieces, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *node =
        tarn__node(&pieces->reclaimable->pool->heap.nodes, index);

    if (!index || tarn__node_state(node) != TARN__FREE ||
        tarn__pages_span_has(pieces->reclaimable->excluded, node->address))
        return false;
    if (node->stream_state == pieces->stream_state->index)
        return tarn__stream_state_has_fenced(pieces->stream_state, node);
    struct tarn__span span = {node->address, tarn__node_bytes(node)};
    return node->stream_state == 0 && /* a block with whole handles was chosen already */
           tarn__pages_removable(pieces->reclaimable->pool->pages, span).bytes == 0;
}

static bool note_piece(void *data, tarn__index index) TARN__REQUIRES(pool_lock)
{
    struct pieces *pieces = data;
    const struct tarn__node *node =
        tarn__node(&pieces->reclaimable->pool->heap.nodes, index);

    if (is_piece(pieces, index) &&
        (is_piece(pieces, node->before) || is_piece(pieces, node->after)))
        pieces->found[pieces->count++] = index;
    return pieces->count < PIECES && ++pieces->looks < PIECE_LOOKS;
}

/* Coalesce all pieces that touch this one, if it still exists. Each is behind an event
 * fence of the stream state, and the youngest fence covers all. */
static void coalesce_around(struct pieces *pieces, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__heap *heap = &pieces->reclaimable->pool->heap;
    struct tarn__nodes *nodes = &heap->nodes;
    unsigned count = 1;

    if (!is_piece(pieces, index))
        return;
    for (; count < PIECES && is_piece(pieces, tarn__node(nodes, index)->before); count++)
        index = tarn__node(nodes, index)->before;
    uint64_t quanta = tarn__node(nodes, index)->quanta;
    count = 1;
    for (tarn__index i = tarn__node(nodes, index)->after;
         count < PIECES && is_piece(pieces, i); i = tarn__node(nodes, i)->after, count++)
        quanta += tarn__node(nodes, i)->quanta;
    if (count > 1 && quanta <= UINT32_MAX)
        tarn__heap_coalesce_neighbours(heap, index, (uint32_t)quanta);
}

static void coalesce_pieces(const struct tarn__reclaimable *reclaimable,
                            const struct tarn__stream_state *stream_state)
    TARN__REQUIRES(pool_lock)
{
    struct pieces pieces = {.reclaimable = reclaimable, .stream_state = stream_state};

    tarn__bins_visit(&stream_state->free.bins, &reclaimable->pool->heap.nodes, 1,
                     note_piece, &pieces);
    for (unsigned i = 0; i < pieces.count; i++)
        coalesce_around(&pieces, pieces.found[i]);
}

/* --- memory behind event fences --- */

static bool wants_more(const struct tarn__reclaimable *reclaimable)
{
    return reclaimable->count < TARN__RECLAIMABLE_MAX &&
           reclaimable->bytes < reclaimable->wanted;
}

/* Note the memory of one stream state. Each one that is not the caller's costs one more
 * wait. */
static void note_stream(struct tarn__reclaimable *reclaimable,
                        struct tarn__stream_state *stream_state) TARN__REQUIRES(pool_lock)
{
    unsigned first = reclaimable->count;

    coalesce_pieces(reclaimable, stream_state);
    tarn__bins_visit(&stream_state->free.bins, &reclaimable->pool->heap.nodes,
                     least_quanta(reclaimable->pool), note_fenced, reclaimable);
    keep_enough(reclaimable, first, true);
}

void tarn__reclaimable_find_fenced(const struct tarn__caller *caller,
                                   struct tarn__reclaimable *reclaimable)
    TARN__REQUIRES(growth)
{
    tarn__assert_held(&caller->pool->lock);

    struct tarn__pool *pool = caller->pool;
    struct tarn__heap *heap = &pool->heap;
    struct tarn__stream_state *same_stream = caller->stream_state;

    if (!caller->may_record || caller->capturing || !same_stream->in_order ||
        !wants_more(reclaimable) || !tarn__retired_reserve(pool, TARN__RECLAIMABLE_MAX))
        return;
    note_stream(reclaimable, same_stream);
    for (tarn__index i = heap->with_memory, after;
         i && wants_more(reclaimable) && !pool->options.grow_first; i = after) {
        after = tarn__heap_state(heap, i)->next_with_memory;
        if (i != same_stream->index && !tarn__heap_state(heap, i)->is_capture)
            note_stream(reclaimable, tarn__heap_state(heap, i));
    }
    trim_last(reclaimable);
}

/* Return true if no span of the same stream state is younger. */
static bool is_youngest(const struct tarn__reclaimable *reclaimable, unsigned which)
{
    const struct tarn__reclaimable_part *part = &reclaimable->parts[which], *other;

    for (unsigned i = reclaimable->completed; i < reclaimable->count; i++) {
        other = &reclaimable->parts[i];
        if (other->stream_state == part->stream_state &&
            (other->epoch > part->epoch || (other->epoch == part->epoch && i < which)))
            return false;
    }
    return true;
}

bool tarn__reclaimable_wait(const struct tarn__caller *caller,
                            const struct tarn__reclaimable *reclaimable)
{
    bool waited = true;

    for (unsigned i = reclaimable->completed; waited && i < reclaimable->count; i++) {
        const struct tarn__reclaimable_part *part = &reclaimable->parts[i];
        if (part->stream_state == caller->stream_state || !is_youngest(reclaimable, i))
            continue;
        waited = TARN_MUTATION(moved_without_wait) ||
                 tarn__wait_set_wait_once(caller, part->stream_state->index, part->epoch,
                                          part->event);
    }
    return waited;
}

/* Split off a span. A segment's span may begin and end outside of its only block, which
 * starts at a multiple of the quantum. */
static tarn__index split_span(struct tarn__heap *heap, tarn__index index,
                              struct tarn__span span) TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *node = tarn__node(&heap->nodes, index);
    uint64_t start = span.address > node->address ? span.address : node->address;
    uint64_t end = span.address + span.bytes < tarn__node_end(node)
                       ? span.address + span.bytes
                       : tarn__node_end(node);

    return tarn__take_range(heap, index, start, end - start);
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
static CUevent_ pin(struct tarn__stream_state *stream_state, uint64_t epoch)
    TARN__REQUIRES(pool_lock)
{
    return tarn__events_pin(
        stream_state, &stream_state->fences[tarn__events_fence_for(stream_state, epoch)]);
}

void tarn__reclaimable_split(struct tarn__reclaimable *reclaimable)
{
    tarn__assert_held(&reclaimable->pool->lock);

    unsigned kept = 0, count = reclaimable->count;

    reclaimable->bytes = reclaimable->count = reclaimable->completed = 0;
    for (unsigned i = 0; i < count; i++) {
        struct tarn__reclaimable_part part = reclaimable->parts[i];
        if (part.stream_state) /* before its last block goes */
            part.event = pin(part.stream_state, part.epoch);
        part.node = around(&reclaimable->pool->heap, part.node, part.span.address);
        tarn__index new_index =
            split_span(&reclaimable->pool->heap, part.node, part.span);
        if (!new_index && part.stream_state)
            tarn__events_unpin(part.stream_state, part.event);
        if (!new_index)
            continue;
        part.node = new_index;
        reclaimable->parts[kept++] = part;
        reclaimable->bytes += part.span.bytes;
        reclaimable->completed += part.stream_state == NULL;
    }
    reclaimable->count = kept;
}

void tarn__reclaimable_put_back(const struct tarn__reclaimable *reclaimable,
                                unsigned first)
{
    tarn__assert_held(&reclaimable->pool->lock);

    for (unsigned i = first; i < reclaimable->count; i++) {
        const struct tarn__reclaimable_part *part = &reclaimable->parts[i];
        tarn__heap_put(&reclaimable->pool->heap, part->node, part->stream_state);
        if (part->stream_state)
            tarn__events_unpin(part->stream_state, part->event);
    }
}

/* Retire the addresses of a span; a segment's are dropped. */
void tarn__reclaimable_retire(const struct tarn__reclaimable *reclaimable, unsigned count)
{
    tarn__assert_held(&reclaimable->pool->lock);

    struct tarn__heap *heap = &reclaimable->pool->heap;

    for (unsigned i = 0; i < count; i++) {
        const struct tarn__reclaimable_part *part = &reclaimable->parts[i];
        if (part->stream_state)
            tarn__retired_add(reclaimable->pool, part->node, part->stream_state,
                              part->epoch, part->event);
        else if (tarn__pages_is_vmm(reclaimable->pool->pages))
            tarn__ranges_make_unmapped(heap, part->node);
        else
            tarn__ranges_drop_segment(heap, part->node);
    }
}

/* --- releasing --- */

/* Unmap and release spans, as far as the driver does; returns how many. The others are
 * free again, and `*status_out` has the driver's status. */
static unsigned release_spans(struct tarn__reclaimable *reclaimable,
                              tarn_status *status_out) TARN__REQUIRES(growth)
{
    struct tarn__pool *pool = reclaimable->pool;
    unsigned removed = 0;

    *status_out = TARN_OK;
    while (removed < reclaimable->count && *status_out == TARN_OK) {
        *status_out = tarn__pages_remove(pool->pages, reclaimable->parts[removed].span);
        removed += *status_out == TARN_OK;
    }
    tarn__pool_lock(pool);
    tarn__reclaimable_retire(reclaimable, removed);
    tarn__reclaimable_put_back(reclaimable, removed);
    pool->generation += removed > 0;
    tarn__pool_unlock(pool);
    reclaimable->count = reclaimable->completed = 0;
    return removed;
}

/* Trim to at most `most` bytes; the excess of the last one stays. */
static void trim_to(struct tarn__reclaimable *reclaimable, uint64_t most)
{
    while (reclaimable->count > 0 && reclaimable->bytes > most) {
        struct tarn__span *last = &reclaimable->parts[reclaimable->count - 1].span;
        reclaimable->bytes -= last->bytes;
        last->bytes = most > reclaimable->bytes ? most - reclaimable->bytes : 0;
        *last = tarn__pages_removable(reclaimable->pool->pages, *last);
        reclaimable->bytes += last->bytes;
        reclaimable->count -= last->bytes == 0;
    }
}

/* Release one round of reclaimable memory. Returns false if there was none, or a call
 * failed. */
static bool shrink_once(struct tarn__pool *pool, uint64_t keep,
                        struct tarn__reclaimable *reclaimable, uint64_t *released,
                        tarn_status *status) TARN__REQUIRES(growth)
{
    tarn__pool_lock(pool);
    uint64_t over = pool->heap.free_bytes > keep ? pool->heap.free_bytes - keep : 0;
    find(pool, over, (struct tarn__span){0, 0}, reclaimable);
    keep_enough(reclaimable, 0, false);
    reclaimable->completed = reclaimable->count;
    trim_to(reclaimable, over);
    tarn__reclaimable_split(reclaimable);
    tarn__pool_unlock(pool);

    uint64_t before = tarn__pages_reserved(pool->pages);
    unsigned removed = release_spans(reclaimable, status);
    *released += before - tarn__pages_reserved(pool->pages);
    tarn__pool_lock(pool);
    pool->counters.shrinks += removed;
    tarn__pool_unlock(pool);
    return removed > 0 && *status == TARN_OK;
}

tarn_status tarn__reclaimable_shrink(struct tarn__pool *pool, uint64_t keep,
                                     uint64_t *released_out)
{
    tarn__assert_held(&pool->growth);

    struct tarn__reclaimable *reclaimable = malloc(sizeof *reclaimable);
    uint64_t released = 0;
    tarn_status status = TARN_OK;

    if (!reclaimable)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to trim");
    tarn__retired_unmap_completed(pool); /* else their memory stays */
    while (shrink_once(pool, keep, reclaimable, &released, &status))
        continue;
    free(reclaimable);
    *released_out = released;
    return status;
}
