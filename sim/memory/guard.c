/* guard.c -- checks of copies and fills that use mapped memory. */
#include "sim/memory/guard.h"
#include "sim/core/lock.h"
#include <stdio.h>

static struct sim_guard *running;

/* Return true if there is nothing to check: no address of the guard is reserved. */
static bool is_idle(const struct sim_guard *guard)
{
    return guard->touches[0].bytes == 0 && guard->touches[1].bytes == 0;
}

bool sim_guard_set(struct sim_guard *guard, struct sim_context *context,
                   const struct sim_touch touches[2])
{
    guard->context = context;
    guard->context_generation = context->id;
    for (int i = 0; i < 2; i++) {
        if (touches[i].bytes == 0 || !sim_vmm_holds(touches[i].start))
            continue;
        guard->touches[i] = touches[i];
        if (!sim_vmm_is_allowed(context->device, &touches[i]))
            return false;
    }
    return true;
}

/* The first access that is not allowed, or NULL. */
static const struct sim_touch *find_bad(const struct sim_guard *guard)
{
    for (int i = 0; i < 2; i++)
        if (guard->touches[i].bytes > 0 &&
            !sim_vmm_is_allowed(guard->context->device, &guard->touches[i]))
            return &guard->touches[i];
    return NULL;
}

/* Mark the context as lost, unless it was reset since the work was queued. */
static void lose(const struct sim_guard *guard, const struct sim_touch *bad)
{
    if (guard->context->id != guard->context_generation ||
        !sim_context_lose(guard->context, CUDA_ERROR_ILLEGAL_ADDRESS))
        return;
    fprintf(stderr,
            "tarn simulator: queued work %s %zu bytes at 0x%zx, to which device %d has "
            "no access any more: its context is lost (CUDA_ERROR_ILLEGAL_ADDRESS)\n",
            bad->writes ? "writes" : "reads", bad->bytes, (size_t)bad->start,
            guard->context->device);
}

static bool enter(void *data)
{
    struct sim_guard *guard = data;
    const struct sim_touch *bad = find_bad(guard);

    if (bad) {
        lose(guard, bad);
        return false;
    }
    if (is_idle(guard))
        return true;
    guard->previous = NULL;
    guard->next = running;
    if (running)
        running->previous = guard;
    running = guard;
    return true;
}

static void leave(void *data)
{
    struct sim_guard *guard = data;

    if (is_idle(guard))
        return;
    if (guard->next)
        guard->next->previous = guard->previous;
    if (guard->previous)
        guard->previous->next = guard->next;
    else
        running = guard->next;
    sim_lock_wake();
}

const struct sim_op_check sim_guard_check = {enter, leave};

static bool is_touched(uintptr_t start, size_t bytes)
{
    for (const struct sim_guard *guard = running; guard; guard = guard->next)
        for (int i = 0; i < 2; i++) {
            const struct sim_touch *touch = &guard->touches[i];
            if (touch->bytes > 0 && touch->start < start + bytes &&
                start < touch->start + touch->bytes)
                return true;
        }
    return false;
}

void sim_guard_wait(uintptr_t start, size_t bytes)
{
    while (is_touched(start, bytes))
        sim_lock_wait_progress();
}
