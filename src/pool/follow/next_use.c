/* next_use.c -- when a plan needs its addresses again. */
#include "pool/follow/next_use.h"
#include <stdlib.h>

enum { ENTRIES_A_SLOT = 2 };

bool tarn__next_uses_init(struct tarn__next_uses *uses, const tarn_plan *plan,
                          uint32_t *times)
{
    uses->times = times;
    uses->slots = (uint32_t)plan->count;
    if (tarn__page_uses_init(&uses->pages, plan, (uint64_t)plan->count * ENTRIES_A_SLOT))
        return true;
    tarn__next_uses_free(uses);
    return false;
}

void tarn__next_uses_free(struct tarn__next_uses *uses)
{
    tarn__page_uses_free(&uses->pages);
    free(uses->times);
    uses->times = NULL;
}

size_t tarn__next_uses_bytes(const struct tarn__next_uses *uses)
{
    const struct tarn__page_uses *pages = &uses->pages;

    if (pages->count == 0)
        return 0;
    return ((size_t)pages->count + uses->slots + pages->ends[pages->count - 1]) *
           sizeof *pages->slots;
}

/* Return the distance of the next slot of one page. */
static uint32_t distance_of(const struct tarn__next_uses *uses, uint32_t page,
                            uint32_t now)
{
    const uint32_t *slots = uses->pages.slots;
    uint32_t begin = tarn__page_uses_begin(&uses->pages, page),
             end = uses->pages.ends[page], low = begin, high = end;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (slots[middle] < now)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < end)
        return slots[low] - now;
    return begin < end ? slots[begin] + uses->slots - now : UINT32_MAX;
}

uint32_t tarn__next_uses_distance(const struct tarn__next_uses *uses, uint64_t offset,
                                  uint64_t quanta, uint32_t now)
{
    unsigned shift = uses->pages.shift;
    uint64_t last = (offset + quanta - 1) >> shift;
    uint32_t least = UINT32_MAX;

    for (uint64_t i = offset >> shift; i <= last && i < uses->pages.count; i++) {
        uint32_t distance = distance_of(uses, (uint32_t)i, now);
        least = distance < least ? distance : least;
    }
    return least;
}
