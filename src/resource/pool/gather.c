/* gather.c -- cross-stream assembly: handles in pieces of several streams become one
 * stream's.
 *
 * A free handle can move to where it is needed. But where the device is far behind the
 * host, no free memory is completed. It is then split among the streams that freed it,
 * each piece behind its own event fence. No block has a whole handle in it, and the pool
 * would grow although memory is free. Here the caller's stream waits for every stream
 * whose pieces make up a handle. From then on the pieces are one block, in the caller's
 * order, and it moves like the stream's own memory.
 */
#include "resource/pool/idle.h"
#include "resource/pool/steal.h"
#include <stdlib.h>

#define NODE(index) tarn__node(&heap->nodes, (index))

/* Bounds: streams considered; blocks considered of each, and those kept; pieces to either
 * side of a block; handles assembled at once. */
enum { LANES = 64, LOOKS = 512, FOUND = 64, REACH = 64, HANDLES = 64 };

struct gather {
    struct tarn__caller *caller;
    struct tarn__heap *heap;
    uint64_t wanted; /* bytes of handles still needed */
    tarn__index found[FOUND];
    unsigned found_count, looks;
    struct tarn__run handles[HANDLES]; /* the pieces of each handle */
    unsigned count;
    struct tarn__covers covers;
    struct tarn__idle idle; /* memory that can move as it is */
};

static bool is_usable(const struct gather *gather, tarn__index index)
{
    const struct tarn__heap *heap = gather->heap;

    return index && tarn__lane_may_wait_for(heap, gather->caller->lane, NODE(index));
}

/* Keep a block that can form a part of a handle with a neighbour. */
static bool note(void *data, tarn__index index)
{
    struct gather *gather = data;
    struct tarn__heap *heap = gather->heap;

    if (is_usable(gather, index) &&
        (is_usable(gather, NODE(index)->before) || is_usable(gather, NODE(index)->after)))
        gather->found[gather->found_count++] = index;
    return gather->found_count < FOUND && ++gather->looks < LOOKS;
}

/* Find the pieces of a handle; `first` has its start. */
static unsigned pieces(const struct tarn__heap *heap, tarn__index first,
                       struct tarn__span handle)
{
    unsigned count = 1;

    for (; tarn__node_end(NODE(first)) < handle.address + handle.bytes; count++)
        first = NODE(first)->after;
    return count;
}

/* Take the pieces. Returns false without host memory. */
static bool take(struct gather *gather, tarn__index first, struct tarn__span handle)
{
    struct tarn__heap *heap = gather->heap;
    struct tarn__run *run = &gather->handles[gather->count];
    uint64_t at = handle.address, end = handle.address + handle.bytes;

    run->count = 0;
    for (tarn__index i = first; at < end; i = NODE(i)->after) {
        tarn__index lane = NODE(i)->lane;
        uint64_t epoch = NODE(i)->epoch;
        uint64_t upto = tarn__node_end(NODE(i)) < end ? tarn__node_end(NODE(i)) : end;
        i = tarn__heap_carve(heap, i, at, upto - at);
        if (!i) {
            tarn__heap_put_run(heap, run);
            return false;
        }
        run->nodes[run->count] = i;
        run->lanes[run->count] = lane;
        run->epochs[run->count++] = epoch;
        at = upto;
    }
    tarn__covers_add(&gather->covers, gather->caller, run);
    gather->count++;
    gather->wanted -= gather->wanted < handle.bytes ? gather->wanted : handle.bytes;
    return true;
}

/* Take the whole handles in the pieces that touch `index`, but not those within one
 * piece, which can move as they are. Returns false if no more are needed. */
static bool take_around(struct gather *gather, tarn__index index)
{
    struct tarn__heap *heap = gather->heap;
    const struct tarn__pages *pages = gather->caller->pool->pages;
    tarn__index first = index, last = index;

    if (!is_usable(gather, index))
        return true;
    for (int i = 0; i < REACH && is_usable(gather, NODE(first)->before); i++)
        first = NODE(first)->before;
    for (int i = 0; i < REACH && is_usable(gather, NODE(last)->after); i++)
        last = NODE(last)->after;
    uint64_t start = NODE(first)->address, end = tarn__node_end(NODE(last));
    struct tarn__span span =
        tarn__pages_removable(pages, (struct tarn__span){start, end - start});
    while (span.bytes > 0 && gather->wanted > 0) {
        struct tarn__span handle = tarn__pages_first(pages, span, 1);
        while (tarn__node_end(NODE(first)) <= handle.address)
            first = NODE(first)->after;
        unsigned count = pieces(heap, first, handle);
        if (count > 1 && count <= TARN__RUN_MAX - gather->covers.count) {
            if (gather->count == HANDLES || !take(gather, first, handle))
                return false;
            first = gather->handles[gather->count - 1].nodes[0];
        }
        span.address += handle.bytes;
        span.bytes -= handle.bytes;
    }
    return gather->wanted > 0;
}

/* Take handles around the blocks of one stream, or around completed ones. */
static bool take_from(struct gather *gather, const struct tarn__bins *bins)
{
    gather->found_count = gather->looks = 0;
    tarn__bins_visit(bins, &gather->heap->nodes, 1, note, gather);
    for (unsigned i = 0; i < gather->found_count; i++)
        if (!take_around(gather, gather->found[i]))
            return false;
    return true;
}

/* Return the bytes missing once everything moves that can move as it is. `lock` held. */
static uint64_t missing(struct gather *gather, const struct tarn__request *request)
{
    uint64_t need = (uint64_t)request->granules << TARN__GRANULE_SHIFT;

    tarn__idle_find(gather->caller->pool, need, (struct tarn__span){0, 0}, &gather->idle);
    tarn__idle_find_fenced(gather->caller, &gather->idle);
    return need > gather->idle.bytes ? need - gather->idle.bytes : 0;
}

/* Take handles in pieces, and the event fences that cover them. `lock` held. */
static void choose(struct gather *gather, const struct tarn__request *request)
{
    struct tarn__heap *heap = gather->heap;

    gather->wanted = missing(gather, request);
    if (gather->wanted == 0)
        return;
    bool more = take_from(gather, &gather->caller->lane->bins);
    unsigned lanes = 0;
    for (tarn__index i = heap->with_memory, after; i && more && lanes < LANES;
         i = after) {
        lanes++;
        after = tarn__lane(heap, i)->next_with_memory;
        if (i != gather->caller->lane->index && !tarn__lane(heap, i)->is_capture)
            more = take_from(gather, &tarn__lane(heap, i)->bins);
    }
    tarn__covers_pin(&gather->covers, gather->caller->pool);
}

static bool wait_and_weld(struct gather *gather, const struct tarn__request *request)
{
    struct tarn__caller *caller = gather->caller;
    struct tarn__pool *pool = caller->pool;

    tarn__pool_lock(pool);
    choose(gather, request);
    tarn__pool_unlock(pool);
    if (gather->count == 0)
        return false;
    bool waited = TARN_MUTATION(gathered_without_wait) ||
                  tarn__covers_wait(&gather->covers, caller) ||
                  TARN_MUTATION(wait_failed_taken_as_done);

    tarn__pool_lock(pool);
    for (unsigned i = 0; i < gather->count; i++)
        if (waited)
            tarn__heap_put(&pool->heap, tarn__heap_weld(&pool->heap, &gather->handles[i]),
                           caller->lane);
        else
            tarn__heap_put_run(&pool->heap, &gather->handles[i]);
    tarn__covers_let_go(&gather->covers, &pool->heap);
    tarn__pool_unlock(pool);
    return waited;
}

bool tarn__gather(struct tarn__caller *caller, const struct tarn__request *request)
{
    struct tarn__pool *pool = caller->pool;

    if (!caller->may_record || caller->capturing || !caller->lane->in_order ||
        pool->options.grow_first || !tarn__pages_is_vmm(pool->pages))
        return false;
    struct gather *all = malloc(sizeof *all); /* without it the pool grows */
    if (!all)
        return false;
    all->caller = caller;
    all->heap = &pool->heap;
    all->count = all->covers.count = 0;
    bool any = wait_and_weld(all, request);
    free(all);
    return any;
}
