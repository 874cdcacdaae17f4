/* summary.c -- the figures of a plan. */
#include "base/options.h"
#include "plan/plan.h"

tarn_status tarn_plan_summarize(const tarn_plan *plan, tarn_plan_summary *out)
{
    if (!plan || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "plan: summarize: plan or out is NULL");
    tarn_status status =
        tarn__options_check("plan: summarize", out, sizeof *out, sizeof *out);
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
