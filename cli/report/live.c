/* live.c -- the live blocks of a log, and those that were live at its peak. */
#include "live.h"
#include "memory.h"
#include <stdlib.h>

void live_add(struct live *live, const struct block *block)
{
    uint32_t index;

    if (live->unused_count > 0) {
        index = live->unused[--live->unused_count];
    } else {
        live->blocks = memory_grow(live->blocks, &live->capacity, live->used + 1,
                                   sizeof *live->blocks);
        index = (uint32_t)live->used++;
    }
    live->blocks[index] = *block;
    map_put(&live->by_address, block->address, index);
}

const struct block *live_get(const struct live *live, uint64_t address)
{
    uint32_t index = map_get(&live->by_address, address);

    return index == MAP_NONE ? NULL : &live->blocks[index];
}

bool live_was_at_peak(const struct live *live, const struct block *block)
{
    return block->sequence <= live->peak_sequence;
}

bool live_take(struct live *live, uint64_t address, struct block *out)
{
    uint32_t index = map_take(&live->by_address, address);

    if (index == MAP_NONE)
        return false;
    *out = live->blocks[index];
    live->unused = memory_grow(live->unused, &live->unused_capacity,
                               live->unused_count + 1, sizeof *live->unused);
    live->unused[live->unused_count++] = index;
    if (live_was_at_peak(live, out)) {
        live->gone = memory_grow(live->gone, &live->gone_capacity, live->gone_count + 1,
                                 sizeof *live->gone);
        live->gone[live->gone_count++] = *out;
    }
    return true;
}

void live_note_peak(struct live *live, uint64_t sequence)
{
    live->peak_sequence = sequence;
    live->gone_count = 0;
}

static int by_address(const void *a, const void *b)
{
    const struct block *first = a, *second = b;

    return (first->address > second->address) - (first->address < second->address);
}

struct block *live_list(const struct live *live, bool at_peak, size_t *count)
{
    size_t most = live->by_address.count + (at_peak ? live->gone_count : 0);
    struct block *blocks = memory_new(most, sizeof *blocks);

    *count = 0;
    for (size_t i = 0; i < live->by_address.capacity; i++) {
        if (live->by_address.values[i] == 0)
            continue;
        const struct block *block = &live->blocks[live->by_address.values[i] - 1];
        if (!at_peak || live_was_at_peak(live, block))
            blocks[(*count)++] = *block;
    }
    for (size_t i = 0; at_peak && i < live->gone_count; i++)
        blocks[(*count)++] = live->gone[i];
    qsort(blocks, *count, sizeof *blocks, by_address);
    return blocks;
}

void live_free(struct live *live)
{
    map_free(&live->by_address);
    free(live->blocks);
    free(live->unused);
    free(live->gone);
}
