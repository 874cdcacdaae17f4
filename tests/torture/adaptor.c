/* Run each adaptor and the registry with the 1st, 2nd, 3rd ... driver call failing. The
 * budget is refunded, the counts are right, and the log has no wrong row. */
#include "test.h"

#define WORKS_IN_THE_END(call) \
    do {                       \
        if ((call) != TARN_OK) \
            CHECK_OK(call);    \
    } while (0)

static tarn_resource *make_cuda(void)
{
    tarn_resource *cuda;

    WORKS_IN_THE_END(tarn_cuda_create(0, &cuda));
    return cuda;
}

static tarn_device_ptr take(tarn_resource *resource, size_t bytes)
{
    tarn_device_ptr block = 77;

    if (tarn_resource_allocate(resource, bytes, 0, TARN_STREAM_NONE, &block) != TARN_OK) {
        CHECK_EQUAL(77, block);
        CHECK_OK(tarn_resource_allocate(resource, bytes, 0, TARN_STREAM_NONE, &block));
    }
    return block;
}

static void put(tarn_resource *resource, tarn_device_ptr block, size_t bytes)
{
    WORKS_IN_THE_END(
        tarn_resource_deallocate(resource, block, bytes, 0, TARN_STREAM_NONE));
}

static void live_limited(void)
{
    tarn_resource *cuda = make_cuda(), *limiter;
    size_t used = 77;

    CHECK_OK(tarn_limiter_create(cuda, 1024, &limiter));
    tarn_device_ptr block = take(limiter, 1024); /* all of it, also at the second try */
    CHECK_OK(tarn_limiter_used_bytes(limiter, &used));
    CHECK_EQUAL(1024, used);
    put(limiter, block, 1024);
    CHECK_OK(tarn_limiter_used_bytes(limiter, &used));
    CHECK_EQUAL(0, used);
    CHECK_OK(tarn_resource_release(limiter));
    CHECK_OK(tarn_resource_release(cuda));
}

static void live_counted(void)
{
    tarn_resource *cuda = make_cuda(), *counter;
    tarn_counts counts;

    CHECK_OK(tarn_counter_create(cuda, &counter));
    put(counter, take(counter, 1000), 1000);
    CHECK_OK(tarn_counter_read(counter, &counts));
    CHECK(counts.current_bytes == 0 && counts.current_count == 0);
    CHECK(counts.peak_bytes == 1000 && counts.peak_count == 1);
    CHECK(counts.total_bytes == 1000 && counts.total_count == 1);
    CHECK_OK(tarn_resource_release(counter));
    CHECK_OK(tarn_resource_release(cuda));
}

/* Count the occurrences of `word` in the log. */
static unsigned rows_with(const char *text, const char *word)
{
    unsigned rows = 0;

    while ((text = strstr(text, word)) != NULL) {
        rows++;
        text += strlen(word);
    }
    return rows;
}

static char text[16384];
static size_t text_bytes;

static bool keep(void *data, const char *bytes, size_t count)
{
    (void)data;
    CHECK(text_bytes + count < sizeof text);
    memcpy(text + text_bytes, bytes, count);
    text_bytes += count;
    text[text_bytes] = 0;
    return true;
}

static void live_logged_as(tarn_trace_format format, const char *allocation,
                           const char *free)
{
    tarn_resource *cuda = make_cuda(), *logger;
    tarn_trace_writer *writer;

    text_bytes = 0;
    CHECK_OK(tarn_trace_writer_create(keep, NULL, format, &writer));
    CHECK_OK(tarn_logger_create(cuda, writer, &logger));
    CHECK_OK(tarn_trace_writer_release(writer));
    put(logger, take(logger, 1000), 1000);
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_resource_release(cuda));
    CHECK_EQUAL(1, rows_with(text, allocation));
    CHECK_EQUAL(1, rows_with(text, free));
}

static void live_logged(void)
{
    live_logged_as(TARN_TRACE_NBEP7, "\nAlloc,", "\nFree,");
}

static void live_logged_as_rmm(void)
{
    live_logged_as(TARN_TRACE_RMM, ",allocate,", ",free,");
}

static void live_stacked(void)
{
    tarn_resource *async, *counter, *limiter;

    WORKS_IN_THE_END(tarn_async_create(0, NULL, &async));
    CHECK_OK(tarn_counter_create(async, &counter));
    CHECK_OK(tarn_limiter_create(counter, 4096, &limiter));
    CHECK_OK(tarn_resource_release(async));
    CHECK_OK(tarn_resource_release(counter));
    tarn_device_ptr one = take(limiter, 2048), two = take(limiter, 2048);
    put(limiter, one, 2048);
    put(limiter, two, 2048);
    WORKS_IN_THE_END(tarn_driver_synchronize(0));
    CHECK_OK(tarn_resource_release(limiter));
}

static tarn_resource *current(void)
{
    tarn_resource *resource = (tarn_resource *)&text;

    if (tarn_current_device_resource(&resource) != TARN_OK) {
        CHECK(resource == (tarn_resource *)&text);
        CHECK_OK(tarn_current_device_resource(&resource));
    }
    return resource;
}

static void serve(void)
{
    tarn_resource *cuda = make_cuda(), *limiter, *previous = NULL, *got;

    got = current();
    CHECK(got == cuda);
    CHECK_OK(tarn_resource_release(got));
    CHECK_OK(tarn_limiter_create(cuda, 1024, &limiter));
    if (tarn_set_current_device_resource(limiter, &previous) != TARN_OK) {
        CHECK(previous == NULL);
        CHECK_OK(tarn_set_current_device_resource(limiter, &previous));
    }
    CHECK(previous == cuda);
    got = current();
    CHECK(got == limiter);
    put(got, take(got, 1000), 1000);
    CHECK_OK(tarn_resource_release(got));
    WORKS_IN_THE_END(tarn_device_set_resource(0, NULL, NULL));
    CHECK_OK(tarn_resource_release(previous));
    CHECK_OK(tarn_resource_release(limiter));
    CHECK_OK(tarn_resource_release(cuda));
}

TEST(limiter_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_limited);
}

TEST(counter_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_counted);
}

TEST(logger_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_logged);
    torture(live_logged_as_rmm);
}

TEST(a_stack_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(live_stacked);
}

TEST(registry_survives_any_driver_call_failing)
{
    if (!on_sim())
        skip();
    torture(serve);
}
