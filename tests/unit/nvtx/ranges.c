/* Test the ranges in a tool's timeline: growth, compaction, waits, out of memory. Each test is a
 * process of its own, since a tool attaches once. */
#define _GNU_SOURCE
#include "child.h"
#include "nvtx_log.h"
#include "test.h"

static tarn_resource *make_pool(uint64_t most, tarn_resource *upstream)
{
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = most};
    tarn_resource *pool;

    CHILD_STATUS(TARN_OK, tarn_pool_create(0, upstream, &options, &pool));
    return pool;
}

static tarn_device_ptr take(tarn_resource *pool, size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block;

    CHILD_STATUS(TARN_OK, tarn_resource_allocate(pool, bytes, 0, stream, &block));
    return block;
}

static void put(tarn_resource *pool, tarn_device_ptr block, size_t bytes,
                tarn_stream stream)
{
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pool, block, bytes, 0, stream));
}

/* The tool of this test has no memory functions, as Nsight Systems. */
static void use_ranges(const char *value)
{
    nvtx_use_tool("no-memory");
    if (value)
        setenv("TARN_NVTX", value, 1);
}

static void grow(void)
{
    use_ranges("ranges");
    tarn_resource *pool = make_pool(0, NULL);

    put(pool, take(pool, 5 << 20, NULL), 5 << 20, NULL);
    size_t begin = nvtx_line("push 0 tarn grow version 3 size 48 payload 1 6291456", 0);
    CHILD_CHECK(begin > 0);
    CHILD_CHECK(nvtx_line("pop 0", begin) == begin + 1);
    /* A hit has no range. */
    put(pool, take(pool, 5 << 20, NULL), 5 << 20, NULL);
    CHILD_CHECK(nvtx_line("push", begin + 1) == 0);
    CHILD_STATUS(TARN_OK, tarn_resource_trim(pool, 0, NULL));
    CHILD_CHECK(nvtx_line("push 0 tarn release memory version", begin) > 0);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
}

TEST(growth_is_a_range)
{
    in_child(grow);
}

static void grow_by_segments(void)
{
    use_ranges("ranges");
    tarn_resource *cuda, *pool;

    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &cuda));
    pool = make_pool(0, cuda);
    put(pool, take(pool, 5 << 20, NULL), 5 << 20, NULL);
    CHILD_CHECK(nvtx_line("push 0 tarn grow version", 0) > 0);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    CHILD_STATUS(TARN_OK, tarn_resource_release(cuda));
}

TEST(growth_by_a_segment_is_a_range)
{
    in_child(grow_by_segments);
}

/* Free memory in two places becomes one block. */
static void compact(void)
{
    enum { PART = 4 << 20, PARTS = 8 };
    use_ranges("ranges");
    tarn_resource *pool = make_pool(PARTS * PART, NULL);
    tarn_device_ptr parts[PARTS];

    for (unsigned i = 0; i < PARTS; i++)
        parts[i] = take(pool, PART, NULL);
    for (unsigned i = 0; i < PARTS; i += 2)
        put(pool, parts[i], PART, NULL);
    tarn_device_ptr large = take(pool, 2 * PART, NULL);
    size_t begin =
        nvtx_line("push 0 tarn compact version 3 size 48 payload 1 8388608", 0);
    CHILD_CHECK(begin > 0);
    CHILD_CHECK(nvtx_line("pop 0", begin) > 0);
    put(pool, large, 2 * PART, NULL);
    for (unsigned i = 1; i < PARTS; i += 2)
        put(pool, parts[i], PART, NULL);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
}

TEST(compaction_is_a_range)
{
    in_child(compact);
}

static void run_out_of_memory(void)
{
    enum { MOST = 8 << 20 };
    use_ranges("ranges");
    tarn_resource *pool = make_pool(MOST, NULL);
    tarn_device_ptr all = take(pool, MOST, NULL), more;

    CHILD_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(pool, 3000, 0, NULL, &more));
    CHILD_CHECK(
        nvtx_line("push 0 tarn out of memory version 3 size 48 payload 1 3000", 0) > 0);
    /* Memory that was freed without a stream is deferred. */
    put(pool, all, MOST, TARN_STREAM_NONE);
    all = take(pool, MOST, NULL);
    CHILD_CHECK(
        nvtx_line("push 0 tarn wait for the device version 3 size 48 payload 0", 0) > 0);
    put(pool, all, MOST, NULL);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
}

TEST(out_of_memory_and_waits_are_ranges)
{
    in_child(run_out_of_memory);
}

static unsigned warnings;

static void count_warning(void *data, const char *message)
{
    CHILD_CHECK(strstr(message, data) != NULL);
    warnings++;
}

static void check_no_ranges(void)
{
    tarn_resource *pool = make_pool(0, NULL);

    put(pool, take(pool, 5 << 20, NULL), 5 << 20, NULL);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    CHILD_CHECK(nvtx_line("domain tarn", 0) > 0 && nvtx_line("push", 0) == 0);
}

static void request_no_ranges(void)
{
    use_ranges(NULL);
    check_no_ranges();
}

static void request_wrongly(void)
{
    tarn_set_warning_handler(count_warning,
                             "TARN_NVTX=range is ignored: it is not \"ranges\"");
    use_ranges("range");
    check_no_ranges();
    CHILD_CHECK(warnings == 1);
}

TEST(ranges_are_off_by_default)
{
    in_child(request_no_ranges);
    in_child(request_wrongly);
}
