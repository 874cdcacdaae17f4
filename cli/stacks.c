/* stacks.c -- the call stacks of a log, in the table of this process.
 *
 * The table (tarn/stack.h) has each string and frame once, and has a bound. So a log
 * needs a map of its numbers alone.
 */
#include "tool.h"
#include <stdlib.h>

/* A slot of the map; `log` is 0 in an empty one. */
struct stack_pair {
    tarn_stack log, own;
};

/* The slot of a number, or the empty one where it belongs. */
static struct stack_pair *slot_of(const struct stacks *stacks, tarn_stack stack)
{
    size_t at = (stack * 2654435769u) & (stacks->capacity - 1);

    while (stacks->pairs[at].log != 0 && stacks->pairs[at].log != stack)
        at = (at + 1) & (stacks->capacity - 1);
    return &stacks->pairs[at];
}

static bool reserve(struct stacks *stacks)
{
    struct stacks grown = {.capacity = stacks->capacity ? 2 * stacks->capacity : 256,
                           .count = stacks->count};

    if (stacks->count < stacks->capacity / 2)
        return true;
    grown.pairs = calloc(grown.capacity, sizeof *grown.pairs);
    if (!grown.pairs)
        return false;
    for (size_t i = 0; i < stacks->capacity; i++)
        if (stacks->pairs[i].log != 0)
            *slot_of(&grown, stacks->pairs[i].log) = stacks->pairs[i];
    free(stacks->pairs);
    *stacks = grown;
    return true;
}

bool stacks_put(struct stacks *stacks, uint32_t key, uint32_t value)
{
    if (!reserve(stacks))
        return false;
    struct stack_pair *pair = slot_of(stacks, key);
    stacks->count += pair->log == 0;
    *pair = (struct stack_pair){key, value};
    return true;
}

tarn_status stacks_add(struct stacks *stacks, tarn_stack stack,
                       const tarn_stack_frame *frames, size_t count)
{
    uint32_t numbers[TARN_STACK_DEPTH_MAX];

    for (size_t i = 0; i < count; i++) {
        tarn_stack_frame frame = frames[i];
        numbers[i] = tarn_stack_add_frame(&frame);
    }
    return stacks_put(stacks, stack, tarn_stack_add(numbers, count))
               ? TARN_OK
               : tarn_error_set(TARN_OUT_OF_MEMORY, "no host memory for stacks");
}

tarn_stack stacks_find(const struct stacks *stacks, tarn_stack stack)
{
    return stack && stacks->capacity ? slot_of(stacks, stack)->own : TARN_STACK_UNKNOWN;
}

void stacks_free(struct stacks *stacks)
{
    free(stacks->pairs);
    *stacks = (struct stacks){.pairs = NULL};
}
