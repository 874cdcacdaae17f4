/* Test logs that are loaded as a whole. The summary and the tests of replay show their
 * contents. */
#define _GNU_SOURCE
#include "text.h"

static tarn_status load_text(const char *content, const tarn_trace_limits *limits,
                             tarn_trace **out)
{
    struct text text = text_of(content);
    tarn_status status = tarn_trace_load("a.csv", text_read, &text, limits, out);

    text_free(&text);
    return status;
}

static const char three_rows[] = RMM_HEADER "1,00:00:01.000000,allocate,0x10,100,0\n"
                                            "1,00:00:02.000000,free,0x10,100,0x7\n"
                                            "2,00:00:03.000000,free,0x10,100,0\n";

TEST(load_summarizes_what_it_read)
{
    tarn_trace *trace;
    tarn_trace_summary summary;

    CHECK_OK(load_text(three_rows, NULL, &trace));
    tarn_trace_summarize(trace, &summary);
    CHECK_EQUAL(3, summary.events);
    CHECK_EQUAL(1, summary.unmatched_frees);
    CHECK_EQUAL(2, summary.threads);
    CHECK_EQUAL(2, summary.streams);
    CHECK_EQUAL(100, summary.peak_live_bytes);
    tarn_trace_release(trace);
    CHECK_OK(load_text(RMM_HEADER, NULL, &trace));
    tarn_trace_release(trace);
    tarn_trace_release(NULL);
}

TEST(load_leaves_its_output_alone_when_it_fails)
{
    tarn_trace *trace = NULL;
    tarn_trace_limits limits = {.operations = 1};

    CHECK_STATUS(TARN_BAD_FORMAT, load_text(RMM_HEADER "1,2\n", NULL, &trace));
    CHECK_MESSAGE("a.csv:2:");
    CHECK_STATUS(TARN_OUT_OF_MEMORY, load_text(three_rows, &limits, &trace));
    CHECK_MESSAGE("a.csv:3: more than 1 operations");
    CHECK(trace == NULL);
}

TEST(load_and_accounting_reject_null)
{
    tarn_trace_accounting *accounting;
    tarn_trace *trace = NULL;
    tarn_trace_event event = {.address = 1, .bytes = 1};

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_load("a", NULL, NULL, NULL, &trace));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_load(NULL, NULL, NULL, NULL, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_trace_accounting_create(NULL, NULL, NULL, NULL, NULL));
    CHECK_OK(tarn_trace_accounting_create(NULL, NULL, NULL, NULL, &accounting));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_accounting_add(accounting, NULL, 1));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_accounting_add(NULL, &event, 1));
    tarn_trace_accounting_release(accounting);
    CHECK(trace == NULL);
}
