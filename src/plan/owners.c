/* owners.c -- for each slot of a plan, the slots that had its addresses before it. */
#include "plan/owners.h"
#include "plan/bits.h"
#include <stdlib.h>

struct sweep {
    const struct tarn__plan_slot *slots;
    uint32_t *borders; /* all begins and ends of slots, sorted, each once */
    size_t border_count;
    struct tarn__bits begins; /* borders at which a piece begins */
    uint32_t *owners;         /* by border: the slot; TARN__PLAN_NO_SLOT: none so far */
    tarn__owners_visit_fn *visit;
    void *data;
};

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void find_borders(struct sweep *sweep, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        sweep->borders[2 * i] = sweep->slots[i].offset;
        sweep->borders[2 * i + 1] = sweep->slots[i].offset + sweep->slots[i].quanta;
    }
    sweep->borders[2 * count] = 0;
    qsort(sweep->borders, 2 * count + 1, sizeof *sweep->borders, compare);
    for (size_t i = 0; i < 2 * count + 1; i++)
        if (i == 0 || sweep->borders[i] != sweep->borders[i - 1])
            sweep->borders[kept++] = sweep->borders[i];
    sweep->border_count = kept;
}

static uint32_t border_of(const struct sweep *sweep, uint32_t offset)
{
    size_t low = 0, high = sweep->border_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (sweep->borders[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* Let a piece begin at a border. */
static void split(struct sweep *sweep, uint32_t border)
{
    uint32_t piece = tarn__bits_previous(&sweep->begins, border);

    if (piece == border)
        return;
    tarn__bits_add(&sweep->begins, border);
    sweep->owners[border] = sweep->owners[piece];
}

/* Visit the owners of a slot's pieces, and make them one piece of the slot. */
static bool take(struct sweep *sweep, uint32_t index)
{
    const struct tarn__plan_slot *slot = &sweep->slots[index];
    uint32_t begin = border_of(sweep, slot->offset);
    uint32_t end = border_of(sweep, slot->offset + slot->quanta);

    split(sweep, begin);
    split(sweep, end);
    for (uint32_t piece = begin; piece < end;
         piece = tarn__bits_next(&sweep->begins, piece + 1)) {
        uint32_t owner = sweep->owners[piece];
        if (owner != TARN__PLAN_NO_SLOT &&
            !sweep->visit(sweep->data, &sweep->slots[owner], slot))
            return false;
        if (piece != begin)
            tarn__bits_remove(&sweep->begins, piece);
    }
    sweep->owners[begin] = index;
    return true;
}

tarn_status tarn__owners_sweep(const struct tarn__plan_slot *slots, size_t count,
                               tarn__owners_visit_fn *visit, void *data, bool *ended_out)
{
    struct sweep sweep = {.slots = slots, .visit = visit, .data = data};
    bool has_memory = false;

    *ended_out = false;
    sweep.borders = malloc((2 * count + 1) * sizeof *sweep.borders);
    sweep.owners = malloc((2 * count + 1) * sizeof *sweep.owners);
    if (sweep.borders && sweep.owners) {
        find_borders(&sweep, count);
        has_memory = tarn__bits_init(&sweep.begins, sweep.border_count);
    }
    if (has_memory) {
        tarn__bits_add(&sweep.begins, 0);
        sweep.owners[0] = TARN__PLAN_NO_SLOT;
        for (size_t i = 0; i < count && !*ended_out; i++)
            *ended_out = !take(&sweep, (uint32_t)i);
        tarn__bits_free(&sweep.begins);
    }
    free(sweep.borders);
    free(sweep.owners);
    return has_memory ? TARN_OK
                      : tarn_error_set(TARN_OUT_OF_MEMORY,
                                       "plan: no host memory to sweep %zu blocks", count);
}
