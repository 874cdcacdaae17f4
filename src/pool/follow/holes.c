/* holes.c -- free memory between blocks that stay. */
#include "pool/follow/holes.h"
#include "pool/follow/record.h"
#include "pool/pool.h"

/* Return the smallest hole of at least `quanta` quanta; NULL: there is none. */
static uint32_t *smallest(struct tarn__holes *holes, uint32_t quanta)
{
    uint32_t *found = NULL;

    for (uint32_t i = 0; i < holes->count; i++)
        if (holes->quanta[i] >= quanta && (!found || holes->quanta[i] < *found))
            found = &holes->quanta[i];
    return found;
}

void tarn__holes_add(struct tarn__holes *holes, uint64_t quanta)
{
    uint32_t known = quanta < UINT32_MAX ? (uint32_t)quanta : UINT32_MAX;

    if (quanta == 0)
        return;
    if (holes->count < TARN__HOLES_MOST) {
        holes->quanta[holes->count++] = known;
        return;
    }
    uint32_t *least = smallest(holes, 0);
    if (*least < known)
        *least = known;
}

bool tarn__holes_take(struct tarn__holes *holes, uint32_t quanta)
{
    uint32_t *hole = smallest(holes, quanta);

    if (!hole)
        return false;
    *hole -= quanta;
    return true;
}

/* --- where they are --- */

/* Blocks that are looked at for holes. */
enum { HOLES_LOOKS = 1 << 14 };

/* Return true if the node is a block that was live during the whole step. */
static bool stays(const struct tarn__record *record, const struct tarn__node *node)
{
    return tarn__node_state(node) == TARN__LIVE && !tarn__record_has(record, node);
}

/* List the holes of a segment from its first node on. Returns how many nodes there are, at
 * most `looks`. */
static unsigned add_holes(const struct tarn__pool *pool,
                          const struct tarn__record *record, tarn__index first,
                          unsigned looks, struct tarn__holes *out)
    TARN__REQUIRES(pool_lock)
{
    uint64_t free_from = 0, reserved_to = 0; /* behind the last block that stays */
    unsigned seen = 0;

    for (tarn__index i = first; i && seen < looks; seen++) {
        const struct tarn__node *node = tarn__node(&pool->heap.nodes, i);
        uint64_t address = node->address, end = tarn__node_end(node);
        bool stays_there = stays(record, node);
        i = node->after;
        if (!stays_there)
            continue;
        uint64_t begin = tarn__pages_handle_at(pool->pages, address).address;
        struct tarn__span last = tarn__pages_handle_at(pool->pages, end - 1);
        if (begin > reserved_to) {
            tarn__holes_add(out, (reserved_to - free_from) / TARN__QUANTUM);
            free_from = begin;
        }
        tarn__holes_add(out, (address - free_from) / TARN__QUANTUM);
        free_from = end;
        reserved_to = last.address + last.bytes;
    }
    tarn__holes_add(out, (reserved_to - free_from) / TARN__QUANTUM);
    return seen;
}

struct tarn__holes tarn__holes_find(const struct tarn__pool *pool,
                                    const struct tarn__record *record)
{
    const struct tarn__heap *heap = &pool->heap;
    struct tarn__holes holes = {0};
    unsigned looks = HOLES_LOOKS;

    tarn__assert_held(&pool->lock);
    for (size_t segment = 0; segment < heap->segments && looks > 0; segment++)
        looks -= add_holes(pool, record, tarn__heap_find(heap, heap->starts[segment]),
                           looks, &holes);
    return looks > 0 ? holes : (struct tarn__holes){0};
}
