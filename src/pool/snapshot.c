/* snapshot.c -- a copy of every block of a pool, made slice by slice.
 *
 * A pool may have millions of blocks, and every miss needs the heap's lock. So the copy
 * holds the lock for one slice at a time, and allocates host memory between the slices.
 * The heap may change there. The copy continues at the address where it stopped. The last
 * copied node leads there, as long as its block is the same; the address table does not
 * hold free nodes.
 *
 * The owner of a block writes the requested bytes without the lock, and its state after
 * that.
 */
#include "pool/snapshot.h"
#include "pool/pool.h"
#include <stdlib.h>
#include <string.h>

static tarn_pool_block_state state_of(const struct tarn__heap *heap,
                                      const struct tarn__node *node,
                                      enum tarn__node_state state)
    TARN__REQUIRES(pool_lock)
{
    switch (state) {
    case TARN__LIVE:
        return TARN_POOL_LIVE;
    case TARN__THREAD_CACHED:
        return TARN_POOL_THREAD_CACHED;
    case TARN__UNMAPPED:
    case TARN__RETIRED:
        return TARN_POOL_UNMAPPED;
    case TARN__FREE:
        break;
    default:
        return TARN_POOL_IN_TRANSIT;
    }
    if (node->stream_state == 0)
        return TARN_POOL_COMPLETED;
    const struct tarn__stream_state *stream_state =
        tarn__heap_state(heap, node->stream_state);
    if (stream_state->is_capture)
        return TARN_POOL_CAPTURED;
    return node->epoch <= stream_state->fenced_epoch ? TARN_POOL_FENCED
                                                     : TARN_POOL_UNFENCED;
}

/* The requested bytes belong to a live block if it is still live after the read. */
static tarn_pool_block describe(const struct tarn__heap *heap,
                                const struct tarn__node *node, uint64_t segment)
    TARN__REQUIRES(pool_lock)
{
    tarn_pool_block block = {
        .address = node->address, .bytes = tarn__node_bytes(node), .segment = segment};
    uint64_t requested = 0;

    if (atomic_load_explicit(&node->state, memory_order_acquire) == TARN__LIVE)
        requested = tarn__node_requested(node);
    enum tarn__node_state state = tarn__node_state(node);
    block.state = state_of(heap, node, state);
    if (state == TARN__LIVE)
        block.requested_bytes = requested;
    if (state == TARN__FREE && node->stream_state &&
        tarn__heap_state(heap, node->stream_state)->in_order)
        block.stream_id = tarn__heap_state(heap, node->stream_state)->identity.key;
    return block;
}

/* --- continuing after the last slice --- */

/* Return the last segment that begins at or before `address`; 0: none does. */
static uint64_t segment_around(const struct tarn__heap *heap, uint64_t address)
{
    uint64_t last = 0;

    for (size_t i = 0; i < heap->segments; i++)
        if (heap->starts[i] <= address && heap->starts[i] > last)
            last = heap->starts[i];
    return last;
}

/* Return the first segment that begins behind `address`; 0: none does. */
static uint64_t segment_behind(const struct tarn__heap *heap, uint64_t address)
{
    uint64_t first = 0;

    for (size_t i = 0; i < heap->segments; i++)
        if (heap->starts[i] > address && (first == 0 || heap->starts[i] < first))
            first = heap->starts[i];
    return first;
}

/* Return a node of the segment at `start`: of the nodes of the last slice that are still
 * in place, the one nearest to the end of the copy. Everything between `start` and that
 * node is of that segment. */
static tarn__index near_end(const struct tarn__heap *heap,
                            const struct tarn__snapshot *copy, uint64_t start)
    TARN__REQUIRES(pool_lock)
{
    for (size_t i = copy->count; i > 0 && copy->count - i < TARN__SLICE; i--) {
        uint64_t address = copy->blocks[i - 1].address;
        const struct tarn__node *node = tarn__node(&heap->nodes, copy->nodes[i - 1]);
        if (address < start)
            break;
        if (tarn__node_state(node) != TARN__UNUSED && node->address == address)
            return copy->nodes[i - 1];
    }
    return tarn__heap_find(heap, start);
}

/* Return the first block that ends behind the copied part, and its segment; 0: there is
 * none. */
static tarn__index next_block(const struct tarn__heap *heap,
                              const struct tarn__snapshot *copy, uint64_t *segment)
    TARN__REQUIRES(pool_lock)
{
    tarn__index index = 0;

    *segment = segment_around(heap, copy->end);
    if (*segment)
        index = near_end(heap, copy, *segment);
    while (index && tarn__node_end(tarn__node(&heap->nodes, index)) <= copy->end)
        index = tarn__node(&heap->nodes, index)->after;
    if (index)
        return index;
    *segment = segment_behind(heap, copy->end);
    return *segment ? tarn__heap_find(heap, *segment) : 0;
}

/* --- copying --- */

/* Append a block; the capacity is there. A block that was made where a part was copied
 * already is cut: its state at that moment is unknown. */
static void add(const struct tarn__heap *heap, struct tarn__snapshot *copy,
                tarn__index index, uint64_t segment) TARN__REQUIRES(pool_lock)
{
    tarn_pool_block block = describe(heap, tarn__node(&heap->nodes, index), segment);
    uint64_t end = block.address + block.bytes;

    if (block.address < copy->end)
        block = (tarn_pool_block){.address = copy->end,
                                  .bytes = end - copy->end,
                                  .state = TARN_POOL_IN_TRANSIT,
                                  .segment = segment};
    copy->blocks[copy->count] = block;
    copy->nodes[copy->count++] = index;
    copy->end = end;
}

/* Finding a segment among many takes as long as copying several blocks. */
enum { STARTS_A_BLOCK = 64 };

/* Copy a slice; returns true if there may be more. `lock` held. */
static bool copy_slice(const struct tarn__pool *pool, struct tarn__snapshot *copy)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__heap *heap = &pool->heap;
    size_t left = TARN__SLICE, looking = heap->segments / STARTS_A_BLOCK;
    uint64_t segment;

    tarn__assert_held(&pool->lock);
    while (left > 0) {
        tarn__index index = next_block(heap, copy, &segment);
        if (!index)
            return false;
        left = left > looking ? left - looking : 1;
        for (; index && left > 0; index = tarn__node(&heap->nodes, index)->after, left--)
            add(heap, copy, index, segment);
    }
    return true;
}

/* Reserve host memory for one more slice. */
static bool reserve(struct tarn__snapshot *copy)
{
    size_t room = copy->room ? 2 * copy->room : TARN__SLICE;

    if (copy->room - copy->count >= TARN__SLICE)
        return true;
    tarn_pool_block *blocks = realloc(copy->blocks, room * sizeof *blocks);
    if (blocks)
        copy->blocks = blocks;
    tarn__index *nodes = realloc(copy->nodes, room * sizeof *nodes);
    if (nodes)
        copy->nodes = nodes;
    if (!blocks || !nodes)
        return false;
    copy->room = room;
    return true;
}

tarn_status tarn__snapshot_copy(struct tarn__pool *pool, struct tarn__snapshot *copy,
                                bool *more_out)
{
    if (!reserve(copy))
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: no host memory for a snapshot of more than %zu "
                              "blocks",
                              copy->count);
    /* The system provides the pages here, and not while the lock is held. */
    memset(&copy->blocks[copy->count], 0, TARN__SLICE * sizeof *copy->blocks);
    memset(&copy->nodes[copy->count], 0, TARN__SLICE * sizeof *copy->nodes);
    tarn__pool_lock(pool);
    *more_out = copy_slice(pool, copy);
    tarn__pool_unlock(pool);
    return TARN_OK;
}

void tarn__snapshot_free(struct tarn__snapshot *copy)
{
    free(copy->blocks);
    free(copy->nodes);
}

tarn_status tarn_pool_snapshot(tarn_resource *resource, tarn_pool_block_fn visit,
                               void *data)
{
    struct tarn__snapshot copy = {0};
    struct tarn__pool *pool;
    bool more = true;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status == TARN_OK && !visit)
        status =
            tarn_error_set(TARN_INVALID_ARGUMENT, "pool: snapshot: the callback is NULL");
    if (status == TARN_OK && tarn__driver_gone()) /* a lock may be held forever */
        status = tarn_error_set(
            TARN_DRIVER_FAILURE,
            "pool: this process is exiting or is a forked child: no snapshot");
    while (status == TARN_OK && more)
        status = tarn__snapshot_copy(pool, &copy, &more);
    for (size_t i = 0; status == TARN_OK && i < copy.count; i++)
        if (!visit(data, &copy.blocks[i]))
            break;
    tarn__snapshot_free(&copy);
    return status;
}
