/* Test plans of loaded logs: blocks, streams and threads become those of the plan. */
#define _GNU_SOURCE
#include "text.h"

static tarn_status plan_of(const char *rows, tarn_plan_summary *out)
{
    struct text text = text_of(rows);
    tarn_trace *trace;
    tarn_plan *plan;

    CHECK_OK(tarn_trace_load("a.csv", text_read, &text, NULL, &trace));
    tarn_status status = tarn_trace_plan(trace, NULL, &plan);
    tarn_trace_release(trace);
    text_free(&text);
    if (status != TARN_OK)
        return status;
    *out = (tarn_plan_summary){.size = sizeof *out};
    CHECK_OK(tarn_plan_summarize(plan, out));
    tarn_plan_release(plan);
    return TARN_OK;
}

#define ROW(action, address, bytes, stream) \
    "1,00:00:01.000000," action "," address "," bytes "," stream "\n"

TEST(blocks_that_follow_each_other_share_memory)
{
    tarn_plan_summary plan;

    CHECK_OK(plan_of(
        RMM_HEADER ROW("allocate", "0x10", "1000", "0") ROW("free", "0x10", "1000", "0")
            ROW("allocate", "0x20", "600", "0") ROW("free", "0x30", "5", "0"),
        &plan));
    CHECK_EQUAL(2, plan.blocks);
    CHECK_EQUAL(3, plan.operations);
    CHECK_EQUAL(1, plan.streams);
    CHECK_EQUAL(1, plan.threads);
    CHECK_EQUAL(1000, plan.peak_live_bytes);
    CHECK_EQUAL(1024, plan.height_bytes);
    CHECK_EQUAL(500, plan.lag_operations);
}

TEST(a_log_without_blocks_has_an_empty_plan)
{
    tarn_plan_summary plan;

    CHECK_OK(plan_of(RMM_HEADER, &plan));
    CHECK_EQUAL(0, plan.blocks);
    CHECK_EQUAL(0, plan.height_bytes);
}

static const char no_stream[] =
    "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,"
    "Current Allocs,Start,End,Elapsed,Location\n"
    "Alloc,0,0x10,none,512,0,0,1,0.1,0.1,0,\nFree,0,0x10,none,512,0,0,0,0.2,0.2,0,\n"
    "Alloc,0,0x20,none,512,0,0,1,0.3,0.3,0,\n";

/* Where a stream is named elsewhere, work without one keeps its distance. */
static const char partly_no_stream[] =
    "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,"
    "Current Allocs,Start,End,Elapsed,Location\n"
    "Alloc,0,0x10,none,512,0,0,1,0.1,0.1,0,\nFree,0,0x10,none,512,0,0,0,0.2,0.2,0,\n"
    "Alloc,0,0x20,0,512,0,0,1,0.3,0.3,0,\n";

TEST(work_without_a_stream_keeps_the_lag)
{
    tarn_plan_summary plan;

    CHECK_OK(plan_of(no_stream, &plan));
    CHECK_EQUAL(512, plan.height_bytes);
    CHECK_OK(plan_of(partly_no_stream, &plan));
    CHECK_EQUAL(1024, plan.height_bytes);
    CHECK_EQUAL(1, plan.streams);
    CHECK_EQUAL(0, plan.waits);
}

TEST(what_cannot_be_planned_is_rejected)
{
    tarn_plan_summary summary;
    tarn_plan *plan = NULL;

    CHECK_STATUS(
        TARN_NOT_SUPPORTED,
        plan_of(RMM_HEADER ROW("allocate", "0x10", "1099511627777", "0"), &summary));
    CHECK_MESSAGE("plan: a block of 1099511627777 bytes, the maximum is 1 TiB");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_plan(NULL, NULL, &plan));
    CHECK(plan == NULL);
}
