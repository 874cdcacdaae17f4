/* page_uses.c -- the slots of a plan that use each page of its addresses. */
#include "plan/page_uses.h"
#include <stdlib.h>

/* Of a page, in quanta. */
enum { LEAST_SHIFT = 12, MOST_SHIFT = 30 };

static uint64_t count_entries(const struct tarn__page_uses *uses, const tarn_plan *plan)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < plan->count; i++)
        if (plan->slots[i].offset < plan->height)
            sum += tarn__page_uses_last(uses, &plan->slots[i]) -
                   tarn__page_uses_first(uses, &plan->slots[i]) + 1;
    return sum;
}

/* Count the slots of each page in `ends`, and then have that be where they begin. */
static void find_begins(struct tarn__page_uses *uses, const tarn_plan *plan)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < plan->count; i++)
        if (plan->slots[i].offset < plan->height)
            for (uint32_t page = tarn__page_uses_first(uses, &plan->slots[i]);
                 page <= tarn__page_uses_last(uses, &plan->slots[i]); page++)
                uses->ends[page]++;
    for (uint32_t page = 0; page < uses->count; page++) {
        uint32_t slots = uses->ends[page];
        uses->ends[page] = sum;
        sum += slots;
    }
}

bool tarn__page_uses_init(struct tarn__page_uses *uses, const tarn_plan *plan,
                          uint64_t most)
{
    uint64_t entries;

    *uses = (struct tarn__page_uses){.shift = LEAST_SHIFT};
    while ((entries = count_entries(uses, plan)) > most && uses->shift < MOST_SHIFT)
        uses->shift++;
    uint32_t count = (plan->height >> uses->shift) + 1;
    uses->ends = calloc(count, sizeof *uses->ends);
    uses->slots = malloc((size_t)(entries + 1) * sizeof *uses->slots);
    if (!uses->ends || !uses->slots) {
        tarn__page_uses_free(uses);
        return false;
    }
    uses->count = count;
    find_begins(uses, plan);
    for (size_t i = 0; i < plan->count; i++)
        if (plan->slots[i].offset < plan->height)
            for (uint32_t page = tarn__page_uses_first(uses, &plan->slots[i]);
                 page <= tarn__page_uses_last(uses, &plan->slots[i]); page++)
                uses->slots[uses->ends[page]++] = (uint32_t)i;
    return true;
}

void tarn__page_uses_free(struct tarn__page_uses *uses)
{
    free(uses->ends);
    free(uses->slots);
    *uses = (struct tarn__page_uses){.count = 0};
}
