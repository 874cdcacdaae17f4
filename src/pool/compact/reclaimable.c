/* reclaimable.c -- reclaimable memory: finding it, splitting it off its blocks, releasing
 * it. */
#include "pool/compact/reclaimable.h"
#include "pool/blocks/ranges.h"
#include "pool/blocks/take.h"
#include "pool/compact/pieces.h"
#include "pool/compact/retired.h"
#include "pool/order/events.h"
#include "pool/order/wait_set.h"
#include <stdlib.h>
#include <string.h>

/* The blocks that one hold of the lock looks at, or changes: each costs up to a few
 * hundred nanoseconds where the processor's caches do not have it. */
enum { LOOKS = 64, CHANGES = 32 };

/* A visit of the free blocks of `stream_state`; NULL: of completed blocks. */
struct visit {
    struct tarn__reclaimable *reclaimable;
    struct tarn__stream_state *stream_state;
};

/* Return how many of the first bytes have addresses of a followed plan, in whole handles. */
static uint64_t planned_bytes(const struct tarn__pool *pool, struct tarn__span span)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__heap *heap = &pool->heap;
    uint64_t end = heap->area_ranges[0] + heap->planned_bytes;

    if (span.bytes == 0 || !tarn__heap_is_planned(heap, span.address))
        return 0;
    if (span.address + span.bytes <= end)
        return span.bytes;
    struct tarn__span last = tarn__pages_handle_at(pool->pages, end - 1);
    return last.address + last.bytes - span.address;
}

/* Note a part of a free block: whole handles. */
static bool note_part(const struct visit *visit, tarn__index index,
                      struct tarn__span span, bool is_planned) TARN__REQUIRES(pool_lock)
{
    struct tarn__reclaimable *reclaimable = visit->reclaimable;
    const struct tarn__pages *pages = reclaimable->pool->pages;
    const struct tarn__node *node = tarn__node(&reclaimable->pool->heap.nodes, index);

    if (span.bytes == 0 || (reclaimable->room < UINT64_MAX &&
                            tarn__pages_first(pages, span, 1).bytes > reclaimable->room))
        return true;
    reclaimable->parts[reclaimable->count++] =
        (struct tarn__reclaimable_part){index,
                                        tarn__pages_count(pages, span),
                                        is_planned,
                                        span,
                                        visit->stream_state,
                                        node->epoch,
                                        NULL};
    return reclaimable->count < TARN__RECLAIMABLE_MAX;
}

/* Return true if a free block is behind an event fence of the stream state, or completed if
 * that is NULL. The area has the blocks of all streams. */
static bool is_of(const struct tarn__stream_state *stream_state,
                  const struct tarn__node *node) TARN__REQUIRES(pool_lock)
{
    if (!stream_state)
        return node->stream_state == 0 || TARN_MUTATION(unmapped_with_fence_pending);
    return node->stream_state == stream_state->index &&
           tarn__stream_state_has_fenced(stream_state, node);
}

/* Note a free block that has whole handles in it, or is a whole segment, and that is
 * completed or behind an event fence. Returns false if no more can be noted. */
static bool note(void *data, tarn__index index) TARN__REQUIRES(pool_lock)
{
    const struct visit *visit = data;
    struct tarn__reclaimable *reclaimable = visit->reclaimable;
    const struct tarn__pages *pages = reclaimable->pool->pages;
    const struct tarn__node *node = tarn__node(&reclaimable->pool->heap.nodes, index);
    struct tarn__span span = {node->address, tarn__node_bytes(node)};

    if (tarn__pages_span_has(reclaimable->excluded, node->address) ||
        !is_of(visit->stream_state, node))
        return true;
    span = tarn__pages_removable(pages, span);
    uint64_t planned = planned_bytes(reclaimable->pool, span);
    return note_part(visit, index, (struct tarn__span){span.address, planned}, true) &&
           note_part(visit, index,
                     (struct tarn__span){span.address + planned, span.bytes - planned},
                     false);
}

/* Return the size in quanta of the smallest block that may have a whole handle in it,
 * or be a segment. */
static uint32_t least_quanta(const struct tarn__pool *pool)
{
    return tarn__pages_is_vmm(pool->pages) ? TARN__PAGE_BYTES >> TARN__QUANTUM_SHIFT : 1;
}

/* Note the blocks in these bins: completed ones if `stream_state` is NULL, else those of
 * `stream_state`. */
static void note_blocks(struct tarn__reclaimable *reclaimable,
                        const struct tarn__bins *bins,
                        struct tarn__stream_state *stream_state)
{
    struct tarn__pool *pool = reclaimable->pool;
    struct visit visit = {reclaimable, stream_state};
    struct tarn__bins_cursor cursor = tarn__bins_begin();

    tarn__pool_lock(pool);
    while (tarn__bins_visit_part(bins, &pool->heap.nodes, least_quanta(pool), &cursor,
                                 LOOKS, note, &visit))
        tarn__pool_relock(pool);
    tarn__pool_unlock(pool);
}

/* Drop the part with the fewest bytes, from `first` on. */
static void drop_smallest(struct tarn__reclaimable *reclaimable, unsigned first)
{
    unsigned smallest = first;

    for (unsigned i = first + 1; i < reclaimable->count; i++)
        if (reclaimable->parts[i].span.bytes < reclaimable->parts[smallest].span.bytes)
            smallest = i;
    reclaimable->parts[smallest] = reclaimable->parts[--reclaimable->count];
}

/* Let other threads have the lock. Returns the node again; 0: it is another one's by now. */
static tarn__index let_others_at(struct tarn__pool *pool, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *node = tarn__node(&pool->heap.nodes, index);
    uint64_t address = node->address;

    tarn__pool_relock(pool);
    return tarn__node_state(node) != TARN__UNUSED && node->address == address ? index : 0;
}

/* Note blocks of a range of the area, from its first address on, as parts from `first` on.
 * They are in no bins, so the walk passes all its blocks. */
static void note_range(struct visit *visit, uint64_t address, unsigned first)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__pool *pool = visit->reclaimable->pool;
    tarn__index i = tarn__heap_find(&pool->heap, address);

    for (unsigned looks = 1; i; looks++) {
        const struct tarn__node *node = tarn__node(&pool->heap.nodes, i);
        if (tarn__node_state(node) == TARN__FREE && node->quanta >= least_quanta(pool) &&
            !note(visit, i))
            drop_smallest(visit->reclaimable, first);
        i = node->after;
        if (i && looks % LOOKS == 0)
            i = let_others_at(pool, i);
    }
}

/* Note the blocks of the area: completed ones if `stream_state` is NULL, else those of
 * `stream_state`. Where it is shared, the bins have them. */
static void note_area(struct tarn__reclaimable *reclaimable,
                      struct tarn__stream_state *stream_state)
{
    struct tarn__pool *pool = reclaimable->pool;
    struct visit visit = {reclaimable, stream_state};
    unsigned first = reclaimable->count;

    if (first == TARN__RECLAIMABLE_MAX)
        return;
    tarn__pool_lock(pool);
    for (unsigned i = 0; i < pool->heap.area_range_count && pool->heap.area_bytes > 0;
         i++)
        note_range(&visit, pool->heap.area_ranges[i], first);
    tarn__pool_unlock(pool);
}

/* Begin to visit the stream states that have free blocks and event fences. */
static void begin_stream_states(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    pool->heap.plan_next = pool->heap.with_fences.first;
    tarn__pool_unlock(pool);
}

static struct tarn__stream_state *next_stream_state(struct tarn__pool *pool)
{
    tarn__pool_lock(pool);
    struct tarn__stream_state *next = tarn__reclaimable_next_state(pool);
    tarn__pool_unlock(pool);
    return next;
}

static void swap(struct tarn__reclaimable_part *one, struct tarn__reclaimable_part *other)
{
    struct tarn__reclaimable_part kept = *one;

    *one = *other;
    *other = kept;
}

/* Return true if a part is to be taken before another: one that no followed plan has, then one
 * of larger handles. */
static bool is_before(const struct tarn__reclaimable_part *part,
                      const struct tarn__reclaimable_part *other)
{
    if (part->is_planned != other->is_planned)
        return other->is_planned;
    return tarn__reclaimable_mean_handle(part) > tarn__reclaimable_mean_handle(other);
}

static unsigned best_of(const struct tarn__reclaimable *reclaimable, unsigned first)
{
    unsigned best = first;

    for (unsigned i = first + 1; i < reclaimable->count; i++)
        if (is_before(&reclaimable->parts[i], &reclaimable->parts[best]))
            best = i;
    return best;
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
                 &reclaimable->parts[best_of(reclaimable, kept)]);
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

/* Find all completed memory, in the largest blocks. */
static void find(struct tarn__pool *pool, uint64_t wanted, uint64_t room,
                 struct tarn__span excluded, struct tarn__reclaimable *out)
{
    out->pool = pool;
    out->count = out->completed = 0;
    out->bytes = 0;
    out->wanted = wanted;
    out->room = room;
    out->excluded = excluded;
    if (wanted == 0)
        return;
    note_blocks(out, &pool->heap.completed, NULL);
    note_area(out, NULL);
    if (!TARN_MUTATION(unmapped_with_fence_pending))
        return;
    for (tarn__index i = 1; i < pool->heap.states_made; i++)
        if (out->count < TARN__RECLAIMABLE_MAX)
            note_blocks(out, &tarn__heap_state(&pool->heap, i)->free.bins, NULL);
}

void tarn__reclaimable_find(struct tarn__pool *pool, uint64_t wanted, uint64_t room,
                            struct tarn__span excluded, struct tarn__reclaimable *out)
{
    tarn__assert_held(&pool->growth);

    find(pool, wanted, room, excluded, out);
    keep_enough(out, 0, true);
    out->completed = out->count;
    trim_last(out);
}

/* --- memory behind event fences --- */

/* Return true if memory may move that is not completed. */
static bool may_move_fenced(const struct tarn__caller *caller) TARN__REQUIRES(growth)
{
    return caller->may_record && !caller->capturing && caller->stream_state->in_order &&
           tarn__retired_reserve(caller->pool, TARN__RECLAIMABLE_MAX);
}

static bool wants_more(const struct tarn__reclaimable *reclaimable)
{
    return reclaimable->count < TARN__RECLAIMABLE_MAX &&
           reclaimable->bytes < reclaimable->wanted;
}

/* Note the memory of one stream state. */
static void note_stream(struct tarn__reclaimable *reclaimable,
                        struct tarn__stream_state *stream_state) TARN__REQUIRES(growth)
{
    tarn__pieces_coalesce(reclaimable->pool, stream_state, reclaimable->excluded);
    note_blocks(reclaimable, &stream_state->free.bins, stream_state);
    note_area(reclaimable, stream_state);
}

static uint64_t next_use_of(const struct tarn__pool *pool, struct tarn__span handles)
    TARN__REQUIRES(pool_lock)
{
    return pool->next_use ? pool->next_use(pool, handles) : TARN__NEXT_STEP;
}

/* Return true if handles of a part may move, of which the plan has this next use. Behind an
 * event fence their old addresses stay in use, so it may not be in the present step. */
static bool may_go(const struct tarn__reclaimable_part *part, uint64_t next_use)
{
    return !part->is_planned || !part->stream_state || next_use >= TARN__NEXT_STEP;
}

/* Find the memory of one stream state, as much as is still wanted. Each one that is not the
 * caller's costs one more wait. */
static void find_stream(struct tarn__reclaimable *reclaimable,
                        struct tarn__stream_state *stream_state) TARN__REQUIRES(growth)
{
    struct tarn__pool *pool = reclaimable->pool;
    unsigned first = reclaimable->count, kept = first;

    note_stream(reclaimable, stream_state);
    tarn__pool_lock(pool);
    for (unsigned i = first; i < reclaimable->count; i++) {
        const struct tarn__reclaimable_part *part = &reclaimable->parts[i];
        if (may_go(part, next_use_of(pool, part->span)))
            reclaimable->parts[kept++] = *part;
    }
    tarn__pool_unlock(pool);
    reclaimable->count = kept;
    keep_enough(reclaimable, first, true);
}

struct tarn__stream_state *tarn__reclaimable_next_state(struct tarn__pool *pool)
{
    tarn__assert_held(&pool->lock);

    struct tarn__heap *heap = &pool->heap;

    if (!heap->plan_next)
        return NULL;
    struct tarn__stream_state *stream_state = tarn__heap_state(heap, heap->plan_next);
    heap->plan_next = stream_state->with_fences.next;
    return stream_state;
}

/* Find the memory of other streams, as much as is still wanted, and no more handles of the last
 * part than that. */
static void find_other_streams(const struct tarn__caller *caller,
                               struct tarn__reclaimable *reclaimable)
    TARN__REQUIRES(growth)
{
    struct tarn__pool *pool = caller->pool;
    struct tarn__stream_state *stream_state;

    begin_stream_states(pool);
    while (wants_more(reclaimable) && !pool->options.grow_first &&
           (stream_state = next_stream_state(pool)) != NULL)
        if (stream_state != caller->stream_state)
            find_stream(reclaimable, stream_state);
    trim_last(reclaimable);
}

void tarn__reclaimable_find_fenced(const struct tarn__caller *caller,
                                   struct tarn__reclaimable *reclaimable)
{
    tarn__assert_held(&caller->pool->growth);

    if (!wants_more(reclaimable) || !may_move_fenced(caller))
        return;
    find_stream(reclaimable, caller->stream_state);
    find_other_streams(caller, reclaimable);
}

/* --- the handles that are needed last --- */

struct handle {
    struct tarn__span span;
    uint64_t next_use;
    unsigned part;
};

/* The handles that are needed last, the last one first: no more than are wanted. */
struct last_needed {
    struct handle handles[TARN__RECLAIMABLE_MAX];
    unsigned count;
    uint64_t bytes, wanted;
    struct tarn__reclaimable_part parts[TARN__RECLAIMABLE_MAX]; /* all that were found */
};

/* Enter a handle, if it is among the last ones. */
static void enter(struct last_needed *last, struct handle handle)
{
    unsigned at = last->count;

    while (at > 0 && last->handles[at - 1].next_use < handle.next_use)
        at--;
    if (at == TARN__RECLAIMABLE_MAX || (at == last->count && last->bytes >= last->wanted))
        return;
    if (last->count == TARN__RECLAIMABLE_MAX)
        last->bytes -= last->handles[--last->count].span.bytes;
    memmove(&last->handles[at + 1], &last->handles[at],
            (last->count++ - at) * sizeof *last->handles);
    last->handles[at] = handle;
    last->bytes += handle.span.bytes;
    while (last->bytes - last->handles[last->count - 1].span.bytes >= last->wanted)
        last->bytes -= last->handles[--last->count].span.bytes;
}

/* Enter the handles of all parts. */
static void enter_parts(const struct tarn__reclaimable *reclaimable,
                        struct last_needed *last)
{
    struct tarn__pool *pool = reclaimable->pool;
    unsigned looks = 0;

    last->count = 0;
    last->bytes = 0;
    last->wanted = reclaimable->wanted;
    memcpy(last->parts, reclaimable->parts,
           reclaimable->count * sizeof *reclaimable->parts);
    tarn__pool_lock(pool);
    for (unsigned i = 0; i < reclaimable->count; i++) {
        struct tarn__span span = reclaimable->parts[i].span;
        for (uint64_t at = span.address; at < span.address + span.bytes;) {
            struct handle handle = {.span = tarn__pages_handle_at(pool->pages, at),
                                    .part = i};
            handle.next_use = next_use_of(pool, handle.span);
            if (may_go(&reclaimable->parts[i], handle.next_use))
                enter(last, handle);
            at += handle.span.bytes;
            if (++looks % LOOKS == 0)
                tarn__pool_relock(pool);
        }
    }
    tarn__pool_unlock(pool);
}

/* Choose the handles that were entered: completed ones, or others. */
static void choose(const struct last_needed *last, bool is_completed,
                   struct tarn__reclaimable *out)
{
    for (unsigned i = 0; i < last->count; i++) {
        const struct tarn__reclaimable_part *part = &last->parts[last->handles[i].part];
        if ((part->stream_state == NULL) != is_completed)
            continue;
        out->parts[out->count] = *part;
        out->parts[out->count].span = last->handles[i].span;
        out->parts[out->count++].handles = 1;
    }
}

void tarn__reclaimable_find_last_needed(const struct tarn__caller *caller,
                                        uint64_t wanted, uint64_t room,
                                        struct tarn__span excluded,
                                        struct tarn__reclaimable *out)
{
    struct tarn__pool *pool = caller->pool;
    struct last_needed *last = malloc(sizeof *last);

    tarn__assert_held(&pool->growth);
    if (!last) {
        tarn__reclaimable_find(pool, wanted, room, excluded, out);
        tarn__reclaimable_find_fenced(caller, out);
        return;
    }
    find(pool, wanted, room, excluded, out);
    bool has_fenced = may_move_fenced(caller);
    if (has_fenced)
        note_stream(out, caller->stream_state);
    enter_parts(out, last);
    out->count = 0;
    choose(last, true, out);
    out->completed = out->count;
    choose(last, false, out);
    out->bytes = last->bytes;
    free(last);
    if (has_fenced && wants_more(out))
        find_other_streams(caller, out);
}

void tarn__reclaimable_fit(struct tarn__reclaimable *reclaimable)
{
    tarn__assert_held(&reclaimable->pool->growth);

    const struct tarn__pages *pages = reclaimable->pool->pages;
    unsigned count = 0;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < reclaimable->count; i++) {
        struct tarn__reclaimable_part part = reclaimable->parts[i];
        uint64_t left = reclaimable->room - bytes;
        if (part.span.bytes > left) {
            part.span.bytes =
                tarn__pages_handle_at(pages, part.span.address + left).address -
                part.span.address;
            part.handles = tarn__pages_count(pages, part.span);
        }
        if (part.span.bytes == 0)
            continue;
        bytes += part.span.bytes;
        reclaimable->parts[count++] = part;
    }
    reclaimable->count = count;
    reclaimable->bytes = bytes;
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

/* Return true if the block is free, of the part's stream state and behind an event fence,
 * and still has the span in it. Other threads use blocks between the plan and here. */
static bool is_unchanged(const struct tarn__reclaimable *reclaimable,
                         const struct tarn__reclaimable_part *part)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__heap *heap = &reclaimable->pool->heap;
    const struct tarn__node *node = tarn__node(&heap->nodes, part->node);

    if (tarn__node_state(node) != TARN__FREE)
        return false;
    struct tarn__span span =
        tarn__pages_removable(reclaimable->pool->pages,
                              (struct tarn__span){node->address, tarn__node_bytes(node)});
    return part->span.address >= span.address &&
           part->span.address + part->span.bytes <= span.address + span.bytes &&
           is_of(part->stream_state, node);
}

/* Pin the event fence that covers a span's last use. */
static CUevent_ pin(struct tarn__stream_state *stream_state, uint64_t epoch)
    TARN__REQUIRES(pool_lock)
{
    return tarn__events_pin(
        stream_state, &stream_state->fences[tarn__events_fence_for(stream_state, epoch)]);
}

/* Split one span off its block. Returns false if the block has changed, or without host
 * memory. */
static bool split(struct tarn__reclaimable *reclaimable,
                  struct tarn__reclaimable_part *part) TARN__REQUIRES(pool_lock)
{
    struct tarn__heap *heap = &reclaimable->pool->heap;

    if (!is_unchanged(reclaimable, part) && !TARN_MUTATION(plan_not_checked))
        return false;
    if (part->stream_state) { /* before its last block goes */
        part->epoch = tarn__node(&heap->nodes, part->node)->epoch;
        part->event = pin(part->stream_state, part->epoch);
    }
    part->node = split_span(heap, part->node, part->span);
    if (!part->node && part->stream_state)
        tarn__events_unpin(part->stream_state, part->event);
    return part->node != 0;
}

/* A part and where its span begins. */
struct place {
    uint64_t address;
    unsigned part;
};

/* Sort the last span of a block first: what is left before it keeps the block's node. */
static int last_first(const void *one, const void *other)
{
    const struct place *a = one, *b = other;

    return a->address < b->address ? 1 : a->address > b->address ? -1 : 0;
}

/* Drop the parts that have no node, and sum up the others. */
static void keep_split(struct tarn__reclaimable *reclaimable, unsigned count)
{
    reclaimable->bytes = reclaimable->count = reclaimable->completed = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct tarn__reclaimable_part *part = &reclaimable->parts[i];
        if (!part->node)
            continue;
        reclaimable->bytes += part->span.bytes;
        reclaimable->completed += part->stream_state == NULL;
        reclaimable->parts[reclaimable->count++] = *part;
    }
}

/* Let other threads have the lock after every few spans. */
static void let_others(struct tarn__pool *pool, unsigned changes)
    TARN__REQUIRES(pool_lock)
{
    if (changes % CHANGES == CHANGES - 1)
        tarn__pool_relock(pool);
}

bool tarn__reclaimable_split(struct tarn__reclaimable *reclaimable)
{
    struct tarn__pool *pool = reclaimable->pool;
    struct place places[TARN__RECLAIMABLE_MAX];
    unsigned count = reclaimable->count;

    tarn__assert_held(&pool->growth);
    for (unsigned i = 0; i < count; i++)
        places[i] = (struct place){reclaimable->parts[i].span.address, i};
    qsort(places, count, sizeof *places, last_first);
    TARN_WINDOW(true);
    tarn__pool_lock(pool);
    for (unsigned i = 0; i < count; i++) {
        struct tarn__reclaimable_part *part = &reclaimable->parts[places[i].part];
        if (!split(reclaimable, part))
            part->node = 0;
        let_others(pool, i);
    }
    tarn__pool_unlock(pool);
    keep_split(reclaimable, count);
    return reclaimable->count == count;
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
        let_others(reclaimable->pool, i);
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
        let_others(reclaimable->pool, i);
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
    tarn__pool_unlock(pool);
    find(pool, over, UINT64_MAX, (struct tarn__span){0, 0}, reclaimable);
    keep_enough(reclaimable, 0, false);
    reclaimable->completed = reclaimable->count;
    trim_to(reclaimable, over);
    bool any = reclaimable->count > 0;
    tarn__reclaimable_split(reclaimable);

    uint64_t before = tarn__pages_reserved(pool->pages);
    unsigned removed = release_spans(reclaimable, status);
    *released += before - tarn__pages_reserved(pool->pages);
    tarn__pool_lock(pool);
    pool->counters.shrinks += removed;
    tarn__pool_unlock(pool);
    return any && *status == TARN_OK;
}

/* Rounds in which other threads took all the blocks that were found. */
enum { EMPTY_ROUNDS_MAX = 4 };

tarn_status tarn__reclaimable_shrink(struct tarn__pool *pool, uint64_t keep,
                                     uint64_t *released_out)
{
    tarn__assert_held(&pool->growth);

    struct tarn__reclaimable *reclaimable = malloc(sizeof *reclaimable);
    uint64_t released = 0, before = 0;
    unsigned empty = 0;
    tarn_status status = TARN_OK;

    if (!reclaimable)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "pool: no host memory to trim");
    tarn__retired_unmap_completed(pool); /* else their memory stays */
    while (empty < EMPTY_ROUNDS_MAX &&
           shrink_once(pool, keep, reclaimable, &released, &status)) {
        empty = released > before ? 0 : empty + 1;
        before = released;
    }
    free(reclaimable);
    *released_out = released;
    return status;
}
