/* assemble.c -- cross-stream assembly: handles in pieces of several streams become one
 * stream's.
 *
 * A free handle can move to where it is needed. But where the device is far behind the
 * host, no free memory is completed. It is then split among the streams that freed it,
 * each piece behind its own event fence. No block has a whole handle in it, and the pool
 * would grow although memory is free. Here the caller's stream waits for every stream
 * whose pieces make up a handle. From then on the pieces are one block, in the caller's
 * order, and it moves like the stream's own memory.
 */
#include "pool/compact/assemble.h"
#include "pool/blocks/runs.h"
#include "pool/blocks/take.h"
#include "pool/compact/reclaimable.h"
#include "pool/order/wait_set.h"
#include <stdlib.h>

#define NODE(index) tarn__node(&heap->nodes, (index))

/* Bounds: streams considered; blocks considered of each, and those kept; pieces to either
 * side of a block; handles assembled at once. */
enum { STREAMS_MAX = 64, LOOKS = 512, FOUND = 64, REACH = 64, HANDLES = 64 };

struct assembly {
    struct tarn__caller *caller;
    struct tarn__heap *heap;
    uint64_t wanted; /* bytes of handles still needed */
    tarn__index found[FOUND];
    unsigned found_count, looks;
    struct tarn__run handles[HANDLES]; /* the pieces of each handle */
    unsigned count;
    struct tarn__wait_set wait_set;
    struct tarn__reclaimable reclaimable; /* memory that can move as it is */
};

static bool is_usable(const struct assembly *assembly, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__heap *heap = assembly->heap;

    return index && tarn__heap_may_use_after_wait(heap, assembly->caller->stream_state,
                                                  NODE(index));
}

/* Keep a block that can form a part of a handle with a neighbour. */
static bool note(void *data, tarn__index index) TARN__REQUIRES(pool_lock)
{
    struct assembly *assembly = data;
    struct tarn__heap *heap = assembly->heap;

    if (is_usable(assembly, index) && (is_usable(assembly, NODE(index)->before) ||
                                       is_usable(assembly, NODE(index)->after)))
        assembly->found[assembly->found_count++] = index;
    return assembly->found_count < FOUND && ++assembly->looks < LOOKS;
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
static bool take(struct assembly *assembly, tarn__index first, struct tarn__span handle)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__heap *heap = assembly->heap;
    struct tarn__run *run = &assembly->handles[assembly->count];
    uint64_t at = handle.address, end = handle.address + handle.bytes;

    run->count = 0;
    for (tarn__index i = first; at < end; i = NODE(i)->after) {
        tarn__index stream_state = NODE(i)->stream_state;
        uint64_t epoch = NODE(i)->epoch;
        uint64_t upto = tarn__node_end(NODE(i)) < end ? tarn__node_end(NODE(i)) : end;
        i = tarn__take_range(heap, i, at, upto - at);
        if (!i) {
            tarn__runs_put(heap, run);
            return false;
        }
        run->nodes[run->count] = i;
        run->stream_states[run->count] = stream_state;
        run->epochs[run->count++] = epoch;
        at = upto;
    }
    tarn__wait_set_add(&assembly->wait_set, assembly->caller, run);
    assembly->count++;
    assembly->wanted -= assembly->wanted < handle.bytes ? assembly->wanted : handle.bytes;
    return true;
}

/* Take the whole handles in the pieces that touch `index`, but not those within one
 * piece, which can move as they are. Returns false if no more are needed. */
static bool take_around(struct assembly *assembly, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__heap *heap = assembly->heap;
    const struct tarn__pages *pages = assembly->caller->pool->pages;
    tarn__index first = index, last = index;

    if (!is_usable(assembly, index))
        return true;
    for (int i = 0; i < REACH && is_usable(assembly, NODE(first)->before); i++)
        first = NODE(first)->before;
    for (int i = 0; i < REACH && is_usable(assembly, NODE(last)->after); i++)
        last = NODE(last)->after;
    uint64_t start = NODE(first)->address, end = tarn__node_end(NODE(last));
    struct tarn__span span =
        tarn__pages_removable(pages, (struct tarn__span){start, end - start});
    while (span.bytes > 0 && assembly->wanted > 0) {
        struct tarn__span handle = tarn__pages_first(pages, span, 1);
        while (tarn__node_end(NODE(first)) <= handle.address)
            first = NODE(first)->after;
        unsigned count = pieces(heap, first, handle);
        if (count > 1 && count <= TARN__RUN_MAX - assembly->wait_set.count) {
            if (assembly->count == HANDLES || !take(assembly, first, handle))
                return false;
            first = assembly->handles[assembly->count - 1].nodes[0];
        }
        span.address += handle.bytes;
        span.bytes -= handle.bytes;
    }
    return assembly->wanted > 0;
}

/* Take handles around the blocks of one stream, or around completed ones. */
static bool take_from(struct assembly *assembly, const struct tarn__bins *bins)
    TARN__REQUIRES(pool_lock)
{
    assembly->found_count = assembly->looks = 0;
    tarn__bins_visit(bins, &assembly->heap->nodes, 1, note, assembly);
    for (unsigned i = 0; i < assembly->found_count; i++)
        if (!take_around(assembly, assembly->found[i]))
            return false;
    return true;
}

/* Return the bytes missing once everything moves that can move as it is. `lock` held. */
static uint64_t missing(struct assembly *assembly, const struct tarn__request *request)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&assembly->caller->pool->lock);

    uint64_t need = (uint64_t)request->quanta << TARN__QUANTUM_SHIFT;

    tarn__reclaimable_find(assembly->caller->pool, need, (struct tarn__span){0, 0},
                           &assembly->reclaimable);
    tarn__reclaimable_find_fenced(assembly->caller, &assembly->reclaimable);
    return need > assembly->reclaimable.bytes ? need - assembly->reclaimable.bytes : 0;
}

/* Take handles in pieces, and the event fences that cover them. `lock` held. */
static void choose(struct assembly *assembly, const struct tarn__request *request)
    TARN__REQUIRES(pool_lock)
{
    tarn__assert_held(&assembly->caller->pool->lock);

    struct tarn__heap *heap = assembly->heap;

    assembly->wanted = missing(assembly, request);
    if (assembly->wanted == 0)
        return;
    bool more = take_from(assembly, &assembly->caller->stream_state->free.bins);
    unsigned stream_states = 0;
    for (tarn__index i = heap->with_memory, after;
         i && more && stream_states < STREAMS_MAX; i = after) {
        stream_states++;
        after = tarn__heap_state(heap, i)->next_with_memory;
        if (i != assembly->caller->stream_state->index &&
            !tarn__heap_state(heap, i)->is_capture)
            more = take_from(assembly, &tarn__heap_state(heap, i)->free.bins);
    }
    tarn__wait_set_pin(&assembly->wait_set, assembly->caller->pool);
}

static bool wait_and_coalesce(struct assembly *assembly,
                              const struct tarn__request *request)
{
    struct tarn__caller *caller = assembly->caller;
    struct tarn__pool *pool = caller->pool;

    tarn__pool_lock(pool);
    choose(assembly, request);
    tarn__pool_unlock(pool);
    if (assembly->count == 0)
        return false;
    bool waited = TARN_MUTATION(assembled_without_wait) ||
                  tarn__wait_set_wait(&assembly->wait_set, caller) ||
                  TARN_MUTATION(wait_failed_taken_as_done);

    tarn__pool_lock(pool);
    for (unsigned i = 0; i < assembly->count; i++)
        if (waited)
            tarn__heap_put(&pool->heap,
                           tarn__runs_coalesce(&pool->heap, &assembly->handles[i]),
                           caller->stream_state);
        else
            tarn__runs_put(&pool->heap, &assembly->handles[i]);
    tarn__wait_set_release(&assembly->wait_set, caller, waited);
    tarn__pool_unlock(pool);
    return waited;
}

bool tarn__assemble(struct tarn__caller *caller, const struct tarn__request *request)
{
    tarn__assert_held(&caller->pool->growth);

    struct tarn__pool *pool = caller->pool;

    if (!caller->may_record || caller->capturing || !caller->stream_state->in_order ||
        pool->options.grow_first || !tarn__pages_is_vmm(pool->pages))
        return false;
    struct assembly *all = malloc(sizeof *all); /* without it the pool grows */
    if (!all)
        return false;
    all->caller = caller;
    all->heap = &pool->heap;
    all->count = all->wait_set.count = 0;
    bool any = wait_and_coalesce(all, request);
    free(all);
    return any;
}
