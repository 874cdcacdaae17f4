/* make.c -- makes a plan of blocks whose times are known. */
#include "plan/make.h"
#include "base/options.h"
#include "plan/layout.h"
#include "plan/waits.h"
#include <inttypes.h>
#include <stdlib.h>

enum { LAG_DEFAULT = 500, EFFORT_MAX = 1000, PRICE_SHARE = 1024 };
/* Blocks that a small plan counts as, for the time of its search. A step counts as at least
 * STEP_BLOCKS_MIN, and as STEP_FACTOR times its blocks at most: a short step takes little time,
 * and comes again soon. */
enum { BLOCKS_MIN = 20000, STEP_BLOCKS_MIN = 1000, STEP_FACTOR = 16 };
/* A layout of a step that is higher than the peak by such a part of it is good enough. */
enum { STEP_ENOUGH_PART = 256 };

tarn_status tarn__make_empty(uint64_t blocks, tarn_plan **out)
{
    if (blocks > TARN__PLAN_SLOTS_MAX)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "plan: %" PRIu64 " blocks, the maximum is %" PRIu64, blocks,
                              TARN__PLAN_SLOTS_MAX);
    tarn_plan *plan = calloc(1, sizeof *plan);
    if (plan)
        plan->slots = malloc(((size_t)blocks + 1) * sizeof *plan->slots);
    if (!plan || !plan->slots) {
        free(plan);
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "plan: no host memory for %" PRIu64 " blocks", blocks);
    }
    *out = plan;
    return TARN_OK;
}

void tarn_plan_release(tarn_plan *plan)
{
    if (!plan)
        return;
    free(plan->slots);
    free(plan);
}

/* The price of a wait in quanta: blocks below it wait for no other stream. */
static uint32_t price_of(uint64_t bytes)
{
    uint64_t quanta = (bytes + TARN__PLAN_QUANTUM - 1) / TARN__PLAN_QUANTUM;

    return quanta < UINT32_MAX ? (uint32_t)quanta : UINT32_MAX;
}

static tarn_status read_options(const tarn_plan_options *given, tarn_plan_options *out)
{
    tarn_status status =
        tarn__options_read("plan", given, sizeof given->size, out, sizeof *out);

    if (status != TARN_OK)
        return status;
    if (out->lag_operations > TARN__PLAN_LAG_MAX)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "plan: a lag of %u operations, the maximum is %u",
                              out->lag_operations, TARN__PLAN_LAG_MAX);
    if (out->effort > EFFORT_MAX)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "plan: an effort of %u, the maximum is %d", out->effort,
                              EFFORT_MAX);
    return TARN_OK;
}

tarn_status tarn__make_layout(tarn_plan *plan, const tarn_plan_options *given)
{
    tarn_plan_options options = {.size = 0};
    tarn_status status = read_options(given, &options);

    if (status != TARN_OK)
        return status;
    uint64_t price = options.wait_price_bytes ? options.wait_price_bytes
                                              : plan->peak_live_bytes / PRICE_SHARE;
    plan->rules = (struct tarn__plan_rules){
        .lag = options.lag_operations ? options.lag_operations : LAG_DEFAULT,
        .price = price_of(price < UINT64_MAX / 2 ? price : UINT64_MAX / 2)};
    uint64_t blocks = plan->count > BLOCKS_MIN ? plan->count : BLOCKS_MIN;
    const struct tarn__layout_effort effort = {
        .blocks = blocks * (options.effort ? options.effort : 1)};
    status = tarn__layout_make(plan, &effort);
    return status == TARN_OK ? tarn__waits_count(plan) : status;
}

/* Return the blocks that a step counts as. */
static uint64_t blocks_of_step(uint64_t count)
{
    uint64_t blocks = STEP_FACTOR * count;

    blocks = blocks > STEP_BLOCKS_MIN ? blocks : STEP_BLOCKS_MIN;
    blocks = blocks < BLOCKS_MIN ? blocks : BLOCKS_MIN;
    return blocks > count ? blocks : count;
}

tarn_status tarn__make_layout_of_step(tarn_plan *plan)
{
    const struct tarn__layout_effort effort = {.blocks = blocks_of_step(plan->count),
                                               .enough_part = STEP_ENOUGH_PART};

    plan->rules =
        (struct tarn__plan_rules){.lag = LAG_DEFAULT,
                                  .price = price_of(plan->peak_live_bytes / PRICE_SHARE),
                                  .waits_for_device = true};
    tarn_status status = tarn__layout_make(plan, &effort);
    return status == TARN_OK ? tarn__waits_count(plan) : status;
}
