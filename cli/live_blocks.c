/* live_blocks.c -- the live blocks of a log, by address, for conversions. */
#include "convert.h"
#include <stdlib.h>

enum { BLOCKS_MAX = 16 * 1024 * 1024 };

static size_t home_of(const struct live_blocks *blocks, uint64_t address)
{
    return (size_t)(address * 0x9e3779b97f4a7c15u >> 20) & (blocks->capacity - 1);
}

/* The slot of an address, or the empty one where it belongs. */
static size_t slot_of(const struct live_blocks *blocks, uint64_t address)
{
    size_t at = home_of(blocks, address);

    while (blocks->slots[at].id != 0 && blocks->slots[at].address != address)
        at = (at + 1) & (blocks->capacity - 1);
    return at;
}

static bool reserve(struct live_blocks *blocks)
{
    struct live_blocks grown = {.capacity =
                                    blocks->capacity ? 2 * blocks->capacity : 1024,
                                .count = blocks->count};

    if (blocks->count < blocks->capacity / 2)
        return true;
    if (blocks->count >= BLOCKS_MAX)
        return false;
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < blocks->capacity; i++)
        if (blocks->slots[i].id != 0)
            grown.slots[slot_of(&grown, blocks->slots[i].address)] = blocks->slots[i];
    free(blocks->slots);
    *blocks = grown;
    return true;
}

tarn_status live_blocks_add(struct live_blocks *blocks, const struct live_block *block,
                            struct live_block *old)
{
    if (!reserve(blocks))
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "more than %zu live blocks, or no host memory",
                              blocks->count);
    size_t at = slot_of(blocks, block->address);
    *old = blocks->slots[at];
    blocks->count += old->id == 0;
    blocks->slots[at] = *block;
    return TARN_OK;
}

struct live_block live_blocks_take(struct live_blocks *blocks, uint64_t address)
{
    struct live_block none = {.id = 0};
    size_t mask = blocks->capacity - 1;

    if (blocks->capacity == 0)
        return none;
    size_t at = slot_of(blocks, address), next = at;
    struct live_block taken = blocks->slots[at];
    if (taken.id == 0)
        return none;
    blocks->count--;
    blocks->slots[at] = none;
    /* Move those back that an empty slot would hide. */
    while (blocks->slots[next = (next + 1) & mask].id != 0) {
        size_t home = home_of(blocks, blocks->slots[next].address);
        if (((next - home) & mask) < ((next - at) & mask))
            continue;
        blocks->slots[at] = blocks->slots[next];
        blocks->slots[next] = none;
        at = next;
    }
    return taken;
}

void live_blocks_free(struct live_blocks *blocks)
{
    free(blocks->slots);
    *blocks = (struct live_blocks){.slots = NULL};
}

tarn_stack place_of(const tarn_trace_event *event)
{
    tarn_stack_frame frame = {.function = "", .file = event->location};
    uint32_t number;

    if (!event->location || !*event->location)
        return TARN_STACK_UNKNOWN;
    number = tarn_stack_add_frame(&frame);
    return number ? tarn_stack_add(&number, 1) : TARN_STACK_UNKNOWN;
}

const char *place_text(tarn_stack place)
{
    tarn_stack_frame frame;

    return tarn_stack_frames(place, 1, &frame) ? frame.file : "";
}
