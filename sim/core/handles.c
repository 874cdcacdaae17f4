/* handles.c -- slots in blocks that are never freed, and a stack of free slots. */
#include "sim/core/handles.h"
#include <stdlib.h>

enum { SLOTS_AT_ONCE = 64, SLOT_BYTES = 64 };

struct sim_slots {
    struct sim_slots *next;
    _Alignas(16) char slots[SLOTS_AT_ONCE][SLOT_BYTES];
};

/* Add slots, and capacity on the stack for all of them. */
static bool grow(struct sim_handles *handles)
{
    size_t count = handles->slots + SLOTS_AT_ONCE;
    void **stack = realloc(handles->free, count * sizeof *stack);
    struct sim_slots *more;

    if (!stack)
        return false;
    handles->free = stack;
    more = calloc(1, sizeof *more);
    if (!more)
        return false;
    more->next = handles->blocks;
    handles->blocks = more;
    for (size_t i = SLOTS_AT_ONCE; i-- > 0;) /* the lowest on top */
        handles->free[handles->free_count++] = more->slots[i];
    handles->slots = count;
    return true;
}

void *sim_handles_create(struct sim_handles *handles, void *object)
{
    void *handle;

    if (handles->free_count == 0 && !grow(handles))
        return NULL;
    handle = handles->free[handles->free_count - 1];
    if (!tarn__map_put(&handles->objects, (uintptr_t)handle, &object))
        return NULL;
    handles->free_count--;
    return handle;
}

void *sim_handles_find(const struct sim_handles *handles, const void *handle)
{
    void **object = tarn__map_get(&handles->objects, (uintptr_t)handle);

    return object ? *object : NULL;
}

static bool has_slot(const struct sim_slots *block, const void *handle)
{
    return (uintptr_t)handle - (uintptr_t)block->slots < sizeof block->slots;
}

bool sim_handles_is_known(const struct sim_handles *handles, const void *handle)
{
    const struct sim_slots *block = handles->blocks;

    while (block && !has_slot(block, handle))
        block = block->next;
    return block && ((uintptr_t)handle - (uintptr_t)block->slots) % SLOT_BYTES == 0;
}

void sim_handles_close(struct sim_handles *handles, void *handle)
{
    tarn__map_take(&handles->objects, (uintptr_t)handle, NULL);
}

void sim_handles_reuse(struct sim_handles *handles, void *handle)
{
    handles->free[handles->free_count++] = handle;
}

void sim_handles_release(struct sim_handles *handles, void *handle)
{
    sim_handles_close(handles, handle);
    sim_handles_reuse(handles, handle);
}
