/* bins.c -- free blocks by size. */
#include "resource/pool/bins.h"

/* Candidates looked at in one class: all of them, in what was measured, and a bound. */
enum { LOOKS = 32 };

struct place {
    unsigned power, part;
};

static struct place place_of(uint32_t granules)
{
    if (granules < TARN__BIN_PARTS)
        return (struct place){0, granules};
    unsigned log = tarn__bins_log2(granules);
    return (struct place){log - TARN__BIN_PARTS_LOG + 1,
                          (granules >> (log - TARN__BIN_PARTS_LOG)) - TARN__BIN_PARTS};
}

void tarn__bins_add(struct tarn__bins *bins, const struct tarn__nodes *nodes,
                    tarn__index index)
{
    struct tarn__node *node = tarn__node(nodes, index);
    struct place place = place_of(node->granules);
    tarn__index *head = &bins->heads[place.power][place.part];

    node->previous = 0;
    node->next = *head;
    if (*head)
        tarn__node(nodes, *head)->previous = index;
    *head = index;
    bins->parts[place.power] |= 1u << place.part;
    bins->powers |= 1u << place.power;
}

void tarn__bins_remove(struct tarn__bins *bins, const struct tarn__nodes *nodes,
                       tarn__index index)
{
    struct tarn__node *node = tarn__node(nodes, index);
    struct place place = place_of(node->granules);
    tarn__index *head = &bins->heads[place.power][place.part];

    if (node->next)
        tarn__node(nodes, node->next)->previous = node->previous;
    if (node->previous)
        tarn__node(nodes, node->previous)->next = node->next;
    else
        *head = node->next;
    node->next = node->previous = 0;
    if (*head)
        return;
    bins->parts[place.power] &= ~(1u << place.part);
    if (bins->parts[place.power] == 0)
        bins->powers &= ~(1u << place.power);
}

/* Of two blocks that fit, the smaller one; of two of one size, the lower one, so that the
 * upper end becomes free. */
static bool is_better(const struct tarn__node *node, const struct tarn__node *than)
{
    return !than || node->granules < than->granules ||
           (node->granules == than->granules && node->address < than->address);
}

static tarn__index find_in(const struct tarn__bins *bins, const struct tarn__nodes *nodes,
                           struct place place, uint32_t granules, tarn__fits fits,
                           const void *request)
{
    const struct tarn__node *best = NULL;
    tarn__index found = 0, next;
    int looks = 0;

    for (tarn__index i = bins->heads[place.power][place.part]; i && looks < LOOKS;
         i = next, looks++) {
        const struct tarn__node *node = tarn__node(nodes, i);
        next = node->next;
        if (node->granules < granules || !is_better(node, best) ||
            (fits && !fits(request, node)))
            continue;
        best = node;
        found = i;
        if (node->granules == granules && looks >= LOOKS / 4)
            break;
    }
    return found;
}

/* The next class after `place` that has blocks. False: there is none. */
static bool next_place(const struct tarn__bins *bins, struct place *place)
{
    uint32_t parts = place->part + 1 < TARN__BIN_PARTS
                         ? bins->parts[place->power] & (~0u << (place->part + 1))
                         : 0;

    if (parts) {
        place->part = (unsigned)__builtin_ctz(parts);
        return true;
    }
    uint32_t powers =
        place->power + 1 < 32 ? bins->powers & (~0u << (place->power + 1)) : 0;
    if (!powers)
        return false;
    place->power = (unsigned)__builtin_ctz(powers);
    place->part = (unsigned)__builtin_ctz(bins->parts[place->power]);
    return true;
}

tarn__index tarn__bins_find(const struct tarn__bins *bins,
                            const struct tarn__nodes *nodes, uint32_t granules,
                            tarn__fits fits, const void *request)
{
    struct place place = place_of(granules);

    do {
        tarn__index found = find_in(bins, nodes, place, granules, fits, request);
        if (found)
            return found;
    } while (next_place(bins, &place));
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
    struct place least = place_of(granules ? granules : 1);
    uint32_t powers = bins->powers & (~0u << least.power);

    while (powers) {
        unsigned power = tarn__bins_log2(powers);
        uint32_t parts = bins->parts[power];
        if (power == least.power)
            parts &= ~0u << least.part;
        powers &= ~(1u << power);
        while (parts) {
            unsigned part = tarn__bins_log2(parts);
            parts &= ~(1u << part);
            if (!visit_class(nodes, bins->heads[power][part], granules, visit, data))
                return;
        }
    }
}

uint32_t tarn__bins_largest(const struct tarn__bins *bins,
                            const struct tarn__nodes *nodes)
{
    uint32_t largest = 0;

    if (bins->powers == 0)
        return 0;
    unsigned power = tarn__bins_log2(bins->powers);
    unsigned part = tarn__bins_log2(bins->parts[power]);
    for (tarn__index i = bins->heads[power][part]; i; i = tarn__node(nodes, i)->next)
        if (tarn__node(nodes, i)->granules > largest)
            largest = tarn__node(nodes, i)->granules;
    return largest;
}
