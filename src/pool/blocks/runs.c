/* runs.c -- run coalescing: adjacent blocks that are large enough together, where no
 * single block is.
 *
 * Blocks of different streams do not coalesce, since each has another event fence. Large
 * blocks of one stream do not while that would cost them their fence. So memory that is
 * free for a request may lie in adjacent pieces, which are found here. A stream's own and
 * completed pieces coalesce for good. Fenced pieces of any stream coalesce once the
 * caller's stream has waited for all of their streams.
 */
#include "pool/blocks/runs.h"
#include "pool/blocks/take.h"
#include "pool/mutations.h"

#define NODE(index) tarn__node(&heap->nodes, (index))

/* A run of adjacent blocks during the search. */
struct look {
    struct tarn__heap *heap;
    const struct tarn__stream_state *stream_state;
    const struct tarn__request *request;
    bool fenced_too; /* other streams' frees count, too */
    tarn__index first;
    uint64_t quanta; /* 0: none was found */
    unsigned looks;
};

/* Blocks that are tried: enough to find any run of a pool's large pieces, few enough to
 * bound the cost. */
enum { LOOKS = 128 };
/* The blocks that are tried in the bins of all streams together, and after how many of
 * them a part of the search ends. */
enum { LOOKS_OF_STREAMS = 2 * LOOKS, LOOKS_OF_PART = LOOKS / 4 };

static bool is_usable(const struct look *look, const struct tarn__node *node)
    TARN__REQUIRES(pool_lock)
{
    return look->fenced_too
               ? tarn__heap_may_use_after_wait(look->heap, look->stream_state, node)
               : tarn__stream_state_may_use(look->stream_state, node);
}

static bool fits(const struct look *look)
{
    const struct tarn__node *first = tarn__node(&look->heap->nodes, look->first);
    struct tarn__node whole = {.address = first->address};

    if (look->quanta > UINT32_MAX)
        return false;
    whole.quanta = (uint32_t)look->quanta;
    return tarn__take_fits(look->heap, look->request, &whole);
}

/* Extend the run around one block to both sides; returns false, to end the visit, where
 * it fits. */
static bool look_around(void *data, tarn__index index) TARN__REQUIRES(pool_lock)
{
    struct look *look = data;
    struct tarn__heap *heap = look->heap;
    tarn__index next;

    if (!is_usable(look, NODE(index)))
        return ++look->looks < LOOKS;
    look->first = index;
    for (int i = 0; i < TARN__RUN_SIDE && (next = NODE(look->first)->before) != 0 &&
                    is_usable(look, NODE(next));
         i++)
        look->first = next;
    look->quanta = 0;
    next = look->first;
    for (int i = 0; i < TARN__RUN_MAX && next && is_usable(look, NODE(next)); i++) {
        look->quanta += NODE(next)->quanta;
        if (fits(look))
            return false;
        next = NODE(next)->after;
    }
    look->quanta = 0;
    return ++look->looks < LOOKS;
}

static bool look_in(struct look *look, const struct tarn__bins *bins)
{
    look->looks = 0;
    tarn__bins_visit(bins, &look->heap->nodes, look->request->quanta / TARN__RUN_MAX,
                     look_around, look);
    return look->quanta > 0;
}

/* --- of one stream, for good --- */

uint64_t tarn__runs_begin(const struct tarn__heap *heap,
                          const struct tarn__stream_state *stream_state,
                          tarn__index index)
{
    tarn__index next;

    for (int i = 0; i < TARN__RUN_SIDE && (next = NODE(index)->before) != 0 &&
                    tarn__stream_state_may_use(stream_state, NODE(next));
         i++)
        index = next;
    return NODE(index)->address;
}

uint64_t tarn__runs_end(const struct tarn__heap *heap,
                        const struct tarn__stream_state *stream_state, tarn__index index)
{
    tarn__index next;

    for (int i = 0; i < TARN__RUN_SIDE && (next = NODE(index)->after) != 0 &&
                    tarn__stream_state_may_use(stream_state, NODE(next));
         i++)
        index = next;
    return tarn__node_end(NODE(index));
}

bool tarn__runs_coalesce_for(struct tarn__heap *heap,
                             struct tarn__stream_state *stream_state,
                             const struct tarn__request *request)
{
    struct look look = {.heap = heap, .stream_state = stream_state, .request = request};

    if (!look_in(&look, &heap->completed) && !(stream_state && stream_state->in_order &&
                                               look_in(&look, &stream_state->free.bins)))
        return false;
    tarn__heap_coalesce_neighbours(heap, look.first, (uint32_t)look.quanta);
    return true;
}

/* --- of several streams, after the waits --- */

/* Return the next stream state to look in, or NULL. If it has no free memory any more, its
 * place in the list is lost, and the list begins anew. */
static const struct tarn__stream_state *next_state(const struct tarn__heap *heap,
                                                   struct tarn__runs_cursor *cursor)
{
    if (cursor->next && tarn__heap_state(heap, cursor->next)->free.oldest == 0)
        cursor->next = heap->with_memory.first;
    if (!cursor->next || cursor->looks >= LOOKS_OF_STREAMS)
        return NULL;
    const struct tarn__stream_state *state = tarn__heap_state(heap, cursor->next);
    cursor->next = state->with_memory.next;
    return state;
}

/* Look in completed memory, or, in a later part, in that of some streams. */
static bool find(struct look *look, struct tarn__runs_cursor *cursor)
{
    const struct tarn__stream_state *state;

    if (!cursor->has_begun) {
        cursor->has_begun = true;
        cursor->next = look->heap->with_memory.first;
        return look_in(look, &look->heap->completed);
    }
    for (unsigned end = cursor->looks + LOOKS_OF_PART;
         cursor->looks < end && (state = next_state(look->heap, cursor)) != NULL;
         cursor->looks += look->looks + 1)
        if (look_in(look, &state->free.bins))
            return true;
    return false;
}

/* Take one piece, from `address` on, of at most `most` bytes. Returns false without host
 * memory. */
static bool take(struct tarn__heap *heap, tarn__index index, uint64_t address,
                 uint64_t most, struct tarn__run *out) TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *node = NODE(index);
    tarn__index stream_state = node->stream_state;
    uint64_t epoch = node->epoch;
    uint64_t bytes = tarn__node_end(node) - address;

    index = tarn__take_range(heap, index, address, bytes < most ? bytes : most);
    if (!index)
        return false;
    out->nodes[out->count] = index;
    out->stream_states[out->count] = stream_state;
    out->epochs[out->count++] = epoch;
    return true;
}

void tarn__runs_take_range(struct tarn__heap *heap, tarn__index first, uint64_t address,
                           uint64_t bytes, struct tarn__run *out)
{
    out->count = 0;
    for (tarn__index i = first, next; bytes > 0; i = next) {
        next = NODE(i)->after;
        if (out->count == TARN__RUN_MAX || !take(heap, i, address, bytes, out)) {
            tarn__runs_put(heap, out);
            out->count = 0;
            return;
        }
        bytes -= tarn__node_bytes(NODE(out->nodes[out->count - 1]));
        address = tarn__node_end(NODE(out->nodes[out->count - 1]));
    }
}

bool tarn__runs_take_part(struct tarn__heap *heap,
                          const struct tarn__stream_state *stream_state,
                          const struct tarn__request *request,
                          struct tarn__runs_cursor *cursor, struct tarn__run *out)
{
    struct look look = {.heap = heap,
                        .stream_state = stream_state,
                        .request = request,
                        .fenced_too = true};

    out->count = 0;
    /* A run begins where a block does, which does not guarantee large alignments. */
    if (request->alignment > TARN__QUANTUM)
        return false;
    if (!find(&look, cursor))
        return cursor->next != 0 && cursor->looks < LOOKS_OF_STREAMS;
    tarn__runs_take_range(heap, look.first, NODE(look.first)->address,
                          (uint64_t)request->quanta << TARN__QUANTUM_SHIFT, out);
    return false;
}

tarn__index tarn__runs_coalesce(struct tarn__heap *heap, const struct tarn__run *run)
{
    for (size_t i = 1; i < run->count; i++)
        tarn__heap_absorb_live(heap, run->nodes[0]);
    return run->nodes[0];
}

void tarn__runs_put(struct tarn__heap *heap, const struct tarn__run *run)
{
    for (size_t i = 0; i < run->count; i++)
        tarn__heap_put(
            heap, run->nodes[i],
            run->stream_states[i] ? tarn__heap_state(heap, run->stream_states[i]) : NULL);
}

tarn__index tarn__runs_take_block(struct tarn__heap *heap,
                                  struct tarn__stream_state *stream_state,
                                  const struct tarn__request *request)
{
    bool was_completed, no_memory;
    tarn__index index =
        tarn__take_block(heap, stream_state, request, &was_completed, &no_memory);

    if (!index && tarn__runs_coalesce_for(heap, stream_state, request))
        index = tarn__take_block(heap, stream_state, request, &was_completed, &no_memory);
    return index;
}
