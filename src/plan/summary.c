/* summary.c -- the figures of a plan, and of its blocks. */
#include "base/options.h"
#include "plan/plan.h"
#include <inttypes.h>

/* Check the arguments of a call that fills a struct of `bytes` bytes. */
static tarn_status check(const char *call, const tarn_plan *plan, const void *out,
                         size_t bytes)
{
    if (!plan || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "%s: plan or out is NULL", call);
    return tarn__options_check(call, out, bytes, bytes);
}

tarn_status tarn_plan_summarize(const tarn_plan *plan, tarn_plan_summary *out)
{
    tarn_status status = check("plan: summarize", plan, out, sizeof *out);
    if (status != TARN_OK)
        return status;
    *out = (tarn_plan_summary){
        .size = sizeof *out,
        .blocks = plan->count,
        .operations = plan->operations,
        .streams = plan->streams,
        .threads = plan->threads,
        .peak_live_bytes = plan->peak_live_bytes,
        .height_bytes = (uint64_t)plan->height * TARN__PLAN_QUANTUM,
        .lag_operations = plan->rules.lag,
        .wait_price_bytes = (uint64_t)plan->rules.price * TARN__PLAN_QUANTUM,
        .handovers = plan->handovers,
        .waits = plan->waits};
    return TARN_OK;
}

tarn_status tarn_plan_get_block(const tarn_plan *plan, uint64_t index,
                                tarn_plan_block *out)
{
    tarn_status status = check("plan: get_block", plan, out, sizeof *out);
    if (status != TARN_OK)
        return status;
    if (index >= plan->count)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "plan: get_block: block %" PRIu64 " of a plan of %zu",
                              index, plan->count);
    const struct tarn__plan_slot *slot = &plan->slots[index];
    *out = (tarn_plan_block){
        .size = sizeof *out,
        .begin_operation = slot->start,
        .end_operation = slot->end,
        .bytes = (uint64_t)slot->quanta * TARN__PLAN_QUANTUM,
        .offset_bytes = (uint64_t)slot->offset * TARN__PLAN_QUANTUM,
        .stream = slot->stream == TARN__PLAN_NO_STREAM ? UINT64_MAX : slot->stream};
    return TARN_OK;
}
