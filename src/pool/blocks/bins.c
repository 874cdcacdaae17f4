/* bins.c -- free blocks by size. */
#include "pool/blocks/bins.h"

/* Visit one class. Returns false if `visit` wants no more. */
static bool visit_class(const struct tarn__nodes *nodes, tarn__index head,
                        uint32_t quanta, bool (*visit)(void *data, tarn__index index),
                        void *data)
{
    tarn__index next;

    for (tarn__index i = head; i; i = next) {
        next = tarn__node(nodes, i)->next;
        if (tarn__node(nodes, i)->quanta >= quanta && !visit(data, i))
            return false;
    }
    return true;
}

void tarn__bins_visit(const struct tarn__bins *bins, const struct tarn__nodes *nodes,
                      uint32_t quanta, bool (*visit)(void *data, tarn__index index),
                      void *data)
{
    unsigned least = tarn__bins_class(quanta ? quanta : 1);
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
            if (!visit_class(nodes, bins->heads[power * TARN__BIN_PARTS + part], quanta,
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
