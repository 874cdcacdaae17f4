/* check.c -- the verifier of plans: each invariant of plan.h. */
#include "plan/check.h"
#include "plan/owners.h"
#include <stdlib.h>

/* The first pair that breaks the last rule. */
struct broken {
    const struct tarn__plan_rules *rules;
    const struct tarn__plan_slot *from, *to;
};

static bool is_ordered(void *data, const struct tarn__plan_slot *from,
                       const struct tarn__plan_slot *to)
{
    struct broken *broken = data;
    uint64_t margin =
        tarn__plan_margin(broken->rules, from->free_stream, to->stream,
                          tarn__plan_never_waits(broken->rules, to->quanta));

    if (from->end + margin <= to->start)
        return true;
    broken->from = from;
    broken->to = to;
    return false;
}

static bool is_stream(const struct tarn_plan *plan, uint32_t stream)
{
    return stream < plan->streams || stream == TARN__PLAN_NO_STREAM;
}

static tarn_status check_slot(const char *name, const struct tarn_plan *plan, size_t i)
{
    const struct tarn__plan_slot *slot = &plan->slots[i];

    if (i > 0 && plan->slots[i - 1].start >= slot->start)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: block %zu begins at operation %u, not after %u",
                              name, i, slot->start, plan->slots[i - 1].start);
    if (slot->start >= slot->end || slot->end > plan->operations)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: block %zu lives from operation %u to %u of %u",
                              name, i, slot->start, slot->end, plan->operations);
    if (slot->quanta == 0 || slot->quanta > plan->height ||
        slot->offset > plan->height - slot->quanta)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: block %zu of %u quanta at %u, of %u", name, i,
                              slot->quanta, slot->offset, plan->height);
    if (!is_stream(plan, slot->stream) || !is_stream(plan, slot->free_stream) ||
        slot->thread >= plan->threads)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: block %zu has streams %u and %u of %u, thread %u "
                              "of %u",
                              name, i, slot->stream, slot->free_stream, plan->streams,
                              slot->thread, plan->threads);
    return TARN_OK;
}

/* An operation may belong to one slot only. */
static tarn_status check_operations(const char *name, const struct tarn_plan *plan)
{
    unsigned char *is_used = calloc((size_t)plan->operations + 1, 1);
    tarn_status status = TARN_OK;

    if (!is_used)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "%.200s: no host memory to check",
                              name);
    for (size_t i = 0; i < plan->count; i++)
        is_used[plan->slots[i].start] = true;
    for (size_t i = 0; i < plan->count && status == TARN_OK; i++) {
        uint32_t end = plan->slots[i].end;
        if (end < plan->operations && is_used[end])
            status = tarn_error_set(TARN_BAD_FORMAT,
                                    "%.200s: block %zu ends at operation %u, which "
                                    "belongs to another block",
                                    name, i, end);
        is_used[end] = true;
    }
    free(is_used);
    return status;
}

tarn_status tarn__check_plan(const char *name, const struct tarn_plan *plan)
{
    struct broken broken = {.rules = &plan->rules};
    tarn_status status = TARN_OK;
    bool ended = false;

    if (plan->operations > 2 * (uint64_t)plan->count ||
        plan->streams > 2 * (uint64_t)plan->count || plan->threads > plan->count)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: %u operations, %u streams and %u threads with %zu "
                              "blocks",
                              name, plan->operations, plan->streams, plan->threads,
                              plan->count);
    for (size_t i = 0; i < plan->count && status == TARN_OK; i++)
        status = check_slot(name, plan, i);
    if (status == TARN_OK)
        status = check_operations(name, plan);
    if (status == TARN_OK && plan->count > 0)
        status =
            tarn__owners_sweep(plan->slots, plan->count, is_ordered, &broken, &ended);
    if (status == TARN_OK && ended)
        status = tarn_error_set(
            TARN_BAD_FORMAT,
            "%.200s: the blocks of operations %u to %u and %u to %u share address %u",
            name, broken.from->start, broken.from->end, broken.to->start, broken.to->end,
            broken.from->offset > broken.to->offset ? broken.from->offset
                                                    : broken.to->offset);
    return status;
}
