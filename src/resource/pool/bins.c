/* bins.c -- free blocks by size. */
#include "resource/pool/bins.h"

/* As tarn__bins_find_any(), but each candidate is asked for. */
static tarn__index find_in(const struct tarn__nodes *nodes, tarn__index head,
                           uint32_t granules, tarn__fits fits, const void *request)
{
    const struct tarn__node *best = NULL;
    tarn__index found = 0, next;
    int looks = 0;

    for (tarn__index i = head; i && looks < TARN__BIN_LOOKS; i = next, looks++) {
        const struct tarn__node *node = tarn__node(nodes, i);
        next = node->next;
        if (node->granules < granules || !tarn__bins_is_better(node, best) ||
            !fits(request, node))
            continue;
        best = node;
        found = i;
        if (node->granules == granules && looks >= TARN__BIN_LOOKS / 4)
            break;
    }
    return found;
}

tarn__index tarn__bins_find(const struct tarn__bins *bins,
                            const struct tarn__nodes *nodes, uint32_t granules,
                            uint32_t most, tarn__fits fits, const void *request)
{
    unsigned class = tarn__bins_class(granules), last = tarn__bins_class(most);

    while ((class = tarn__bins_next(bins, class)) <= last) {
        tarn__index found = find_in(nodes, bins->heads[class], granules, fits, request);
        if (found)
            return found;
        class ++;
    }
    return 0;
}

/* Visit one class. False: no more is wanted. */
static bool visit_class(const struct tarn__nodes *nodes, tarn__index head,
                        uint32_t granules, bool (*visit)(void *data, tarn__index index),
                        void *data)
{
    tarn__index next;

    for (tarn__index i = head; i; i = next) {
        next = tarn__node(nodes, i)->next;
        if (tarn__node(nodes, i)->granules >= granules && !visit(data, i))
            return false;
    }
    return true;
}

void tarn__bins_visit(const struct tarn__bins *bins, const struct tarn__nodes *nodes,
                      uint32_t granules, bool (*visit)(void *data, tarn__index index),
                      void *data)
{
    unsigned least = tarn__bins_class(granules ? granules : 1);
    uint32_t powers = bins->powers & (~0u << least / TARN__BIN_PARTS);

    while (powers) {
        unsigned power = tarn__bins_log2(powers);
        uint32_t parts = bins->parts[power];
        if (power == least / TARN__BIN_PARTS)
            parts &= ~0u << least % TARN__BIN_PARTS;
        powers &= ~(1u << power);
        while (parts) {
            unsigned part = tarn__bins_log2(parts);
            parts &= ~(1u << part);
            if (!visit_class(nodes, bins->heads[power * TARN__BIN_PARTS + part], granules,
                             visit, data))
                return;
        }
    }
}

uint32_t tarn__bins_largest(const struct tarn__bins *bins,
                            const struct tarn__nodes *nodes)
{
    uint32_t largest = 0;
    tarn__index next;

    if (bins->powers == 0)
        return 0;
    unsigned power = tarn__bins_log2(bins->powers);
    unsigned class = power * TARN__BIN_PARTS + tarn__bins_log2(bins->parts[power]);
    for (tarn__index i = bins->heads[class]; i; i = next) {
        next = tarn__node(nodes, i)->next;
        if (tarn__node(nodes, i)->granules > largest)
            largest = tarn__node(nodes, i)->granules;
    }
    return largest;
}
