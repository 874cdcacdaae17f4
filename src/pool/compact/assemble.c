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

/* Bounds: streams considered; blocks considered of each, those in one hold of the lock,
 * and those kept; pieces to either side of a block; handles assembled at once. */
enum { STREAMS_MAX = 64, LOOKS = 512, HOLD = 32, FOUND = 64, REACH = 64, HANDLES = 64 };

/* A handle that begins in the block `first` and ends in another one. */
struct split_handle {
    tarn__index first;
    struct tarn__span span;
};

struct assembly {
    struct tarn__caller *caller;
    struct tarn__heap *heap;
    uint64_t wanted; /* bytes of handles still needed */
    tarn__index found[FOUND];
    unsigned found_count, looks;
    struct tarn__run handles[HANDLES]; /* the pieces of each handle */
    unsigned count;
    tarn__index rest; /* the block behind the last piece taken */
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

/* Count the pieces of a handle; `first` has its start. 0: one is not usable, or they are
 * too many. */
static unsigned pieces(const struct assembly *assembly, tarn__index first,
                       struct tarn__span handle) TARN__REQUIRES(pool_lock)
{
    const struct tarn__heap *heap = assembly->heap;

    for (unsigned count = 1; count <= TARN__RUN_MAX && is_usable(assembly, first);
         count++, first = NODE(first)->after)
        if (tarn__node_end(NODE(first)) >= handle.address + handle.bytes)
            return count;
    return 0;
}

/* Take the pieces, and pin the event fences that cover them. Returns false without host
 * memory. */
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
        assembly->rest = NODE(i)->after;
    }
    tarn__wait_set_add(&assembly->wait_set, assembly->caller, run);
    tarn__wait_set_pin(&assembly->wait_set, assembly->caller->pool);
    assembly->count++;
    assembly->wanted -= assembly->wanted < handle.bytes ? assembly->wanted : handle.bytes;
    return true;
}

static bool contains(const struct assembly *assembly, tarn__index index, uint64_t address)
{
    const struct tarn__heap *heap = assembly->heap;

    return NODE(index)->address <= address && address < tarn__node_end(NODE(index));
}

/* Take a handle, if it still has several usable pieces. Its first piece is in `first`, or
 * in what the last handle left over of that. Returns false if no more are needed. */
static bool take_handle(struct assembly *assembly, const struct split_handle *split)
    TARN__REQUIRES(pool_lock)
{
    tarn__index first = split->first;

    if (!contains(assembly, first, split->span.address))
        first = assembly->rest;
    if (!contains(assembly, first, split->span.address))
        return true;
    unsigned count = pieces(assembly, first, split->span);
    if (count < 2 || count > TARN__RUN_MAX - assembly->wait_set.count)
        return true;
    return assembly->count < HANDLES && take(assembly, first, split->span) &&
           assembly->wanted > 0;
}

/* List the handles near a block that begin in one usable block and end in another one. A
 * handle within one block can move as it is. */
static unsigned list_around(const struct assembly *assembly, tarn__index index,
                            struct split_handle *out) TARN__REQUIRES(pool_lock)
{
    const struct tarn__heap *heap = assembly->heap;
    unsigned count = 0, reach = REACH + 1; /* blocks from the first one on */
    uint64_t end = 0;

    for (; reach <= 2 * REACH && is_usable(assembly, NODE(index)->before); reach++)
        index = NODE(index)->before;
    uint64_t seen = NODE(index)->address;
    for (; reach > 0 && is_usable(assembly, index); reach--) {
        end = tarn__node_end(NODE(index));
        if (end > seen) {
            struct tarn__span last =
                tarn__pages_handle_at(assembly->caller->pool->pages, end - 1);
            seen = last.address + last.bytes;
            if (NODE(index)->address <= last.address && end < seen)
                out[count++] = (struct split_handle){index, last};
        }
        index = NODE(index)->after;
    }
    return count > 0 && seen > end ? count - 1 : count; /* the last one may end beyond */
}

/* Take the handles near a block. Returns false if no more are needed. `lock` held; it is
 * released before each handle. */
static bool take_around(struct assembly *assembly, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__pool *pool = assembly->caller->pool;
    struct split_handle handles[2 * REACH + 1];

    tarn__assert_held(&pool->lock);
    tarn__pool_relock(pool);
    unsigned count =
        is_usable(assembly, index) ? list_around(assembly, index, handles) : 0;
    for (unsigned i = 0; i < count; i++) {
        tarn__pool_relock(pool);
        if (!take_handle(assembly, &handles[i]))
            return false;
    }
    return true;
}

/* Take handles around the blocks of one stream. */
static bool take_from(struct assembly *assembly, const struct tarn__bins *bins)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__pool *pool = assembly->caller->pool;
    struct tarn__bins_cursor cursor = tarn__bins_begin();

    assembly->found_count = assembly->looks = 0;
    do
        tarn__pool_relock(pool);
    while (
        tarn__bins_visit_part(bins, &pool->heap.nodes, 1, &cursor, HOLD, note, assembly));
    for (unsigned i = 0; i < assembly->found_count; i++)
        if (!take_around(assembly, assembly->found[i]))
            return false;
    return true;
}

/* Return the bytes missing once everything moves that can move as it is. */
static uint64_t missing(struct assembly *assembly, const struct tarn__request *request)
    TARN__REQUIRES(growth)
{
    uint64_t need = (uint64_t)request->quanta << TARN__QUANTUM_SHIFT;

    tarn__reclaimable_find(assembly->caller->pool, need, UINT64_MAX,
                           (struct tarn__span){0, 0}, &assembly->reclaimable);
    tarn__reclaimable_find_fenced(assembly->caller, &assembly->reclaimable);
    return need > assembly->reclaimable.bytes ? need - assembly->reclaimable.bytes : 0;
}

/* Take handles in pieces, and pin the event fences that cover them. `lock` held; it is
 * released between blocks. */
static void choose(struct assembly *assembly) TARN__REQUIRES(pool_lock)
{
    struct tarn__pool *pool = assembly->caller->pool;
    const struct tarn__stream_state *same_stream = assembly->caller->stream_state,
                                    *stream_state;

    tarn__assert_held(&pool->lock);
    bool more = take_from(assembly, &same_stream->free.bins);
    pool->heap.plan_next = pool->heap.with_fences.first;
    for (unsigned i = 0; i < STREAMS_MAX && more &&
                         (stream_state = tarn__reclaimable_next_state(pool)) != NULL;
         i++)
        if (stream_state != same_stream && !stream_state->is_capture)
            more = take_from(assembly, &stream_state->free.bins);
}

/* Make one block of each handle, or return the pieces if the stream did not wait. `lock`
 * held; it is released between handles. */
static void put(struct assembly *assembly, bool waited) TARN__REQUIRES(pool_lock)
{
    struct tarn__pool *pool = assembly->caller->pool;

    tarn__assert_held(&pool->lock);
    for (unsigned i = 0; i < assembly->count; i++) {
        if (waited)
            tarn__heap_put(&pool->heap,
                           tarn__runs_coalesce(&pool->heap, &assembly->handles[i]),
                           assembly->caller->stream_state);
        else
            tarn__runs_put(&pool->heap, &assembly->handles[i]);
        tarn__pool_relock(pool);
    }
    tarn__wait_set_release(&assembly->wait_set, assembly->caller, waited);
}

static bool wait_and_coalesce(struct assembly *assembly,
                              const struct tarn__request *request) TARN__REQUIRES(growth)
{
    struct tarn__pool *pool = assembly->caller->pool;

    assembly->wanted = missing(assembly, request);
    if (assembly->wanted == 0)
        return false;
    tarn__pool_lock(pool);
    choose(assembly);
    tarn__pool_unlock(pool);
    if (assembly->count == 0)
        return false;
    bool waited = TARN_MUTATION(assembled_without_wait) ||
                  tarn__wait_set_wait(&assembly->wait_set, assembly->caller) ||
                  TARN_MUTATION(wait_failed_taken_as_done);

    tarn__pool_lock(pool);
    put(assembly, waited);
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
    all->rest = 0;
    bool any = wait_and_coalesce(all, request);
    free(all);
    return any;
}
