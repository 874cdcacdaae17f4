/* bins.c -- free blocks by size. */
#include "pool/blocks/bins.h"

/* Return the largest class below `class` that has blocks; UINT_MAX: none has. */
static unsigned class_below(const struct tarn__bins *bins, unsigned class)
{
    unsigned power = class / TARN__BIN_PARTS, part = class % TARN__BIN_PARTS;
    uint32_t parts = part ? bins->parts[power] & ((1u << part) - 1) : 0;

    if (!parts) {
        uint32_t powers = bins->powers & ((1u << power) - 1);
        if (!powers)
            return UINT_MAX;
        power = tarn__bins_log2(powers);
        parts = bins->parts[power];
    }
    return power * TARN__BIN_PARTS + tarn__bins_log2(parts);
}

/* Return true if the next block is still in its class. */
static bool is_there(const struct tarn__nodes *nodes,
                     const struct tarn__bins_cursor *cursor)
{
    const struct tarn__node *node = tarn__node(nodes, cursor->next);

    return tarn__node_state(node) == TARN__FREE &&
           node->stream_state == cursor->stream_state &&
           tarn__bins_class(node->quanta) == cursor->class;
}

bool tarn__bins_visit_part(const struct tarn__bins *bins, const struct tarn__nodes *nodes,
                           uint32_t quanta, struct tarn__bins_cursor *cursor,
                           unsigned looks, bool (*visit)(void *data, tarn__index index),
                           void *data)
{
    unsigned least = tarn__bins_class(quanta ? quanta : 1);

    if (cursor->next && !is_there(nodes, cursor))
        cursor->next = 0;
    for (; looks > 0; looks--) {
        if (!cursor->next) {
            unsigned class = class_below(bins, cursor->class);
            if (class == UINT_MAX || class < least)
                return false;
            cursor->class = class;
            cursor->next = bins->heads[class];
        }
        tarn__index index = cursor->next;
        cursor->next = tarn__node(nodes, index)->next;
        if (tarn__node(nodes, index)->quanta >= quanta && !visit(data, index))
            return false;
    }
    cursor->stream_state = tarn__node(nodes, cursor->next)->stream_state;
    return true;
}

void tarn__bins_visit(const struct tarn__bins *bins, const struct tarn__nodes *nodes,
                      uint32_t quanta, bool (*visit)(void *data, tarn__index index),
                      void *data)
{
    struct tarn__bins_cursor cursor = tarn__bins_begin();

    tarn__bins_visit_part(bins, nodes, quanta, &cursor, UINT_MAX, visit, data);
}

uint32_t tarn__bins_largest(const struct tarn__bins *bins,
                            const struct tarn__nodes *nodes)
{
    uint32_t largest = 0;
    tarn__index next;
    int looks = 0;

    if (bins->powers == 0)
        return 0;
    unsigned power = tarn__bins_log2(bins->powers);
    unsigned class = power * TARN__BIN_PARTS + tarn__bins_log2(bins->parts[power]);
    for (tarn__index i = bins->heads[class]; i && looks < TARN__LARGEST_LOOKS;
         i = next, looks++) {
        next = tarn__node(nodes, i)->next;
        if (tarn__node(nodes, i)->quanta > largest)
            largest = tarn__node(nodes, i)->quanta;
    }
    return largest;
}
