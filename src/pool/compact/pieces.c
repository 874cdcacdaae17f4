/* pieces.c -- handles of which several free blocks of one stream have a piece each. */
#include "pool/compact/pieces.h"

/* Bounds: the blocks that have a neighbour of the same stream state, or a completed one;
 * the blocks looked at; those in one hold of the lock. */
enum { PIECES = 64, LOOKS = 512, HOLD = 32 };

struct pieces {
    struct tarn__pool *pool;
    const struct tarn__stream_state *stream_state;
    struct tarn__span excluded;
    tarn__index found[PIECES];
    unsigned count, looks;
};

static bool is_piece(const struct pieces *pieces, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    const struct tarn__node *node = tarn__node(&pieces->pool->heap.nodes, index);

    if (!index || tarn__node_state(node) != TARN__FREE ||
        tarn__pages_span_has(pieces->excluded, node->address))
        return false;
    if (node->stream_state == pieces->stream_state->index)
        return tarn__stream_state_has_fenced(pieces->stream_state, node);
    struct tarn__span span = {node->address, tarn__node_bytes(node)};
    return node->stream_state == 0 && /* a block with whole handles was chosen already */
           tarn__pages_removable(pieces->pool->pages, span).bytes == 0;
}

static bool note_piece(void *data, tarn__index index) TARN__REQUIRES(pool_lock)
{
    struct pieces *pieces = data;
    const struct tarn__node *node = tarn__node(&pieces->pool->heap.nodes, index);

    if (is_piece(pieces, index) &&
        (is_piece(pieces, node->before) || is_piece(pieces, node->after)))
        pieces->found[pieces->count++] = index;
    return pieces->count < PIECES && ++pieces->looks < LOOKS;
}

/* Coalesce all pieces that touch this one, if it still exists. Each is behind an event
 * fence of the stream state, and the youngest fence covers all. */
static void coalesce_around(struct pieces *pieces, tarn__index index)
    TARN__REQUIRES(pool_lock)
{
    struct tarn__heap *heap = &pieces->pool->heap;
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

void tarn__pieces_coalesce(struct tarn__pool *pool,
                           const struct tarn__stream_state *stream_state,
                           struct tarn__span excluded)
{
    struct pieces pieces = {
        .pool = pool, .stream_state = stream_state, .excluded = excluded};
    struct tarn__bins_cursor cursor = tarn__bins_begin();

    tarn__assert_held(&pool->growth);
    tarn__pool_lock(pool);
    while (tarn__bins_visit_part(&stream_state->free.bins, &pool->heap.nodes, 1, &cursor,
                                 HOLD, note_piece, &pieces))
        tarn__pool_relock(pool);
    for (unsigned i = 0; i < pieces.count; i++) {
        tarn__pool_relock(pool);
        coalesce_around(&pieces, pieces.found[i]);
    }
    tarn__pool_unlock(pool);
}
