/* waits.c -- the waits between streams that a plan expects. */
#include "plan/waits.h"
#include "base/map.h"
#include "plan/owners.h"

struct count {
    struct tarn__plan_slot *slots;
    struct tarn__map latest; /* (consumer, source) -> operation of the latest wait */
    const struct tarn__plan_slot *consumer; /* of the latest hand-over */
    uint32_t lag;
    bool has_memory;
    uint64_t handovers, waits;
};

static void note_next(struct tarn__plan_slot *from, const struct tarn__plan_slot *to)
{
    if (from->free_stream != to->stream)
        from->next = TARN__PLAN_NEXT_OTHER;
    else if (from->next == TARN__PLAN_NEXT_NOBODY)
        from->next = TARN__PLAN_NEXT_SAME;
}

static bool note(void *data, const struct tarn__plan_slot *from,
                 const struct tarn__plan_slot *to)
{
    struct count *count = data;
    uint64_t pair = ((uint64_t)to->stream + 1) << 32 | from->free_stream;

    note_next(&count->slots[from - count->slots], to);
    if (from->free_stream == to->stream)
        return true;
    if (count->consumer != to)
        count->handovers++;
    count->consumer = to;
    /* Work without a stream waits for no stream. */
    if (to->stream == TARN__PLAN_NO_STREAM || from->free_stream == TARN__PLAN_NO_STREAM ||
        to->start - from->end >= count->lag)
        return true;
    uint32_t *latest = tarn__map_get(&count->latest, pair);
    if (latest && *latest >= from->end)
        return true;
    count->waits++;
    if (latest)
        *latest = to->start;
    else
        count->has_memory = tarn__map_put(&count->latest, pair, &to->start);
    return count->has_memory;
}

tarn_status tarn__waits_count(struct tarn_plan *plan)
{
    struct count count = {
        .slots = plan->slots, .lag = plan->rules.lag, .has_memory = true};
    tarn_status status = TARN_OK;
    bool ended = false;

    for (size_t i = 0; i < plan->count; i++)
        plan->slots[i].next = TARN__PLAN_NEXT_NOBODY;
    tarn__map_init(&count.latest, sizeof(uint32_t));
    if (plan->count > 0)
        status = tarn__owners_sweep(plan->slots, plan->count, note, &count, &ended);
    tarn__map_free(&count.latest);
    if (status == TARN_OK && ended)
        status =
            tarn_error_set(TARN_OUT_OF_MEMORY, "plan: no host memory to count waits");
    if (status == TARN_OK) {
        plan->handovers = count.handovers;
        plan->waits = count.waits;
    }
    return status;
}
