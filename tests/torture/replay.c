/* Run replays with their 1st, 2nd, 3rd ... driver call failing. */
#define _GNU_SOURCE
#include "../unit/trace/text.h"

/* Threads, streams and blocks that stay live, in one log. */
static const char rows[] = RMM_HEADER "1,00:00:01,allocate,0x10,100000,0x7\n"
                                      "2,00:00:01,allocate,0x20,5000,0x8\n"
                                      "2,00:00:01,free,0x10,100000,0x8\n"
                                      "1,00:00:01,allocate,0x30,300,0\n"
                                      "1,00:00:01,free,0x20,5000,0x7\n";

static void replay_on(tarn_status (*create)(int device, tarn_resource **out))
{
    struct text text = {.bytes = (char *)(uintptr_t)rows, .count = sizeof rows - 1};
    tarn_replay_options options = {.size = sizeof options,
                                   .keep_threads = true,
                                   .keep_streams = true,
                                   .register_streams = true};
    tarn_replay_report report = {.operations = 77};
    tarn_resource *resource = NULL;
    tarn_trace *trace;

    CHECK_OK(tarn_trace_load("a.csv", text_read, &text, NULL, &trace));
    if (create(0, &resource) == TARN_OK) {
        if (tarn_replay(trace, resource, &options, &report) != TARN_OK)
            CHECK_EQUAL(77, report.operations);
        else
            CHECK_EQUAL(report.allocations, report.frees + report.end_frees);
        CHECK_OK(tarn_resource_release(resource));
    }
    tarn_trace_release(trace);
}

static void replay_on_cuda(void)
{
    replay_on(tarn_cuda_create);
}

static tarn_status create_async(int device, tarn_resource **out)
{
    return tarn_async_create(device, NULL, out);
}

static void replay_on_async(void)
{
    replay_on(create_async);
}

static tarn_status create_pool(int device, tarn_resource **out)
{
    return tarn_pool_create(device, NULL, NULL, out);
}

static void replay_on_pool(void)
{
    replay_on(create_pool);
}

TEST(replay_on_a_pool_survives_every_failing_call)
{
    torture(replay_on_pool);
}

TEST(replay_on_cuda_survives_every_failing_call)
{
    torture(replay_on_cuda);
}

TEST(replay_on_async_survives_every_failing_call)
{
    torture(replay_on_async);
}
