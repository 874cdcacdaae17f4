/* plan_blocks.c -- the blocks of a loaded log, for a plan.
 *
 * Streams and threads get numbers by their first use in a block, since a log can name
 * many that have none. Only a log that names other streams as well has work without a
 * stream: where no row names one, the stream is unknown, and counts as one stream.
 */
#include "plan/make.h"
#include "trace/load.h"
#include <stdlib.h>

#define NO_NUMBER UINT32_MAX

struct numbers {
    uint32_t *of; /* by index in the log */
    uint32_t count;
};

static uint32_t number(struct numbers *numbers, uint32_t index)
{
    if (numbers->of[index] == NO_NUMBER)
        numbers->of[index] = numbers->count++;
    return numbers->of[index];
}

static bool init_numbers(struct numbers *numbers, size_t count)
{
    *numbers = (struct numbers){.of = malloc((count + 1) * sizeof *numbers->of)};
    for (size_t i = 0; numbers->of && i < count; i++)
        numbers->of[i] = NO_NUMBER;
    return numbers->of;
}

struct work {
    const tarn_trace *trace;
    struct numbers streams, threads;
    uint32_t *slots; /* by block of the log */
    uint64_t live_bytes;
};

static uint32_t stream_of(struct work *work, const struct tarn__op *op)
{
    if (work->trace->stream_count > 1 && work->trace->streams[op->stream] == UINT64_MAX)
        return TARN__PLAN_NO_STREAM;
    return number(&work->streams, op->stream);
}

static void add_allocation(struct work *work, const struct tarn__op *op, uint32_t index,
                           tarn_plan *plan)
{
    uint32_t stream = stream_of(work, op);

    work->slots[op->block] = (uint32_t)plan->count;
    plan->slots[plan->count++] = (struct tarn__plan_slot){
        .start = index,
        .end = (uint32_t)work->trace->count,
        .quanta = (uint32_t)((op->bytes + (TARN__PLAN_QUANTUM - 1)) / TARN__PLAN_QUANTUM),
        .stream = stream,
        .free_stream = stream,
        .thread = number(&work->threads, tarn__load_op_thread(op))};
    work->live_bytes += op->bytes;
    if (work->live_bytes > plan->peak_live_bytes)
        plan->peak_live_bytes = work->live_bytes;
}

static void add_free(struct work *work, const struct tarn__op *op, uint32_t index,
                     tarn_plan *plan)
{
    struct tarn__plan_slot *slot = &plan->slots[work->slots[op->block]];

    slot->end = index;
    slot->free_stream = stream_of(work, op);
    work->live_bytes -= op->bytes;
}

static tarn_status list_blocks(struct work *work, tarn_plan *plan)
{
    for (size_t i = 0; i < work->trace->count; i++) {
        const struct tarn__op *op = &work->trace->ops[i];
        if (tarn__load_op_is_free(op))
            add_free(work, op, (uint32_t)i, plan);
        else if (op->bytes > (uint64_t)UINT32_MAX / 2 * TARN__PLAN_QUANTUM)
            return tarn_error_set(TARN_NOT_SUPPORTED,
                                  "plan: a block of %llu bytes, the maximum is 1 TiB",
                                  (unsigned long long)op->bytes);
        else
            add_allocation(work, op, (uint32_t)i, plan);
    }
    plan->operations = (uint32_t)work->trace->count;
    plan->streams = work->streams.count;
    plan->threads = work->threads.count;
    return TARN_OK;
}

static tarn_status fill(const tarn_trace *trace, tarn_plan *plan)
{
    struct work work = {.trace = trace};
    tarn_status status;

    work.slots = malloc(((size_t)trace->blocks + 1) * sizeof *work.slots);
    bool has_streams = init_numbers(&work.streams, trace->stream_count);
    bool has_threads = init_numbers(&work.threads, trace->threads);
    if (work.slots && has_streams && has_threads)
        status = list_blocks(&work, plan);
    else
        status = tarn_error_set(TARN_OUT_OF_MEMORY, "plan: no host memory for %u blocks",
                                trace->blocks);
    free(work.slots);
    free(work.streams.of);
    free(work.threads.of);
    return status;
}

tarn_status tarn_trace_plan(const tarn_trace *trace, const tarn_plan_options *options,
                            tarn_plan **out)
{
    tarn_plan *plan;

    if (!trace || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "plan: trace_plan: trace or out is NULL");
    tarn_status status = tarn__make_empty(trace->blocks, &plan);
    if (status != TARN_OK)
        return status;
    status = fill(trace, plan);
    if (status == TARN_OK)
        status = tarn__make_layout(plan, options);
    if (status == TARN_OK)
        *out = plan;
    else
        tarn_plan_release(plan);
    return status;
}
