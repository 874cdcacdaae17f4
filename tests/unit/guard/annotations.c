/* Test what an attached tool sees of heaps and blocks: exact sizes, tails, the wait of a free,
 * captures, tools with defects, and guard mode beside it. */
#define _GNU_SOURCE
#include "capturing.h"
#include "child.h"
#include "driver_calls.h"
#include "nvtx_log.h"
#include "test.h"
#include <pthread.h>
#include <unistd.h>

enum { BYTES = 1000, TAIL = 512 };

/* The tool stays for all tests of the process. */
__attribute__((constructor)) static void use_tool(void)
{
    nvtx_use_tool(NULL);
}

/* --- in processes of their own: other tools, and guard mode --- */

static tarn_resource *make_child_pool(void)
{
    tarn_resource *pool;

    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, NULL, &pool));
    return pool;
}

static tarn_device_ptr take_in_child(tarn_resource *resource)
{
    tarn_device_ptr block;

    CHILD_STATUS(TARN_OK, tarn_resource_allocate(resource, BYTES, 0, NULL, &block));
    return block;
}

static void put_in_child(tarn_resource *resource, tarn_device_ptr block)
{
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(resource, block, BYTES, 0, NULL));
}

static unsigned warnings;

static void count_warning(void *data, const char *message)
{
    CHILD_CHECK(strstr(message, data) != NULL);
    warnings++;
}

/* Without heaps two blocks of a pool are as close as without a tool. */
static void check_no_annotations(unsigned wanted_warnings)
{
    tarn_resource *pool = make_child_pool();
    tarn_device_ptr one = take_in_child(pool), two = take_in_child(pool);

    CHILD_CHECK(two - one == 1024);
    put_in_child(pool, one);
    put_in_child(pool, two);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    nvtx_read();
    CHILD_CHECK(nvtx_heap_count() == 0 && nvtx_region_count() == 0);
    CHILD_CHECK(warnings == wanted_warnings);
}

static void use_a_tool_that_refuses(void)
{
    nvtx_use_tool("refuse");
    tarn_set_warning_handler(count_warning, "");
    check_no_annotations(0);
    CHILD_CHECK(nvtx_line("attached", 0) == 0);
}

static void use_a_tool_without_memory(void)
{
    nvtx_use_tool("no-memory");
    tarn_set_warning_handler(count_warning, "");
    check_no_annotations(0);
    CHILD_CHECK(nvtx_line("domain tarn", 0) > 0);
}

static void use_a_tool_that_is_not_there(void)
{
    nvtx_use_tool(NULL);
    setenv("NVTX_INJECTION64_PATH", "/no/such/tool.so", 1);
    tarn_set_warning_handler(count_warning,
                             "nvtx: NVTX_INJECTION64_PATH=/no/such/tool.so "
                             "could not be loaded");
    check_no_annotations(1);
}

static void name_no_tool(void)
{
    nvtx_use_tool(NULL);
    setenv("NVTX_INJECTION64_PATH", "./.", 1); /* NVTX's value for none */
    tarn_set_warning_handler(count_warning, "");
    check_no_annotations(0);
}

static void use_a_tool_without_names(void)
{
    nvtx_use_tool("no-name");
    tarn_resource *pool = make_child_pool();
    tarn_device_ptr block = take_in_child(pool);

    nvtx_read();
    CHILD_CHECK(nvtx_region(block) && nvtx_region(block)->name[0] == 0);
    put_in_child(pool, block);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
}

static void use_a_tool_that_takes_no_heap(void)
{
    nvtx_use_tool("no-heap");
    tarn_set_warning_handler(count_warning, "nvtx: the tool takes no heap of ");
    tarn_resource *pool = make_child_pool();
    tarn_device_ptr block = take_in_child(pool);

    CHILD_CHECK(nvtx_line("heap ", 0) > 0 && nvtx_line("region ", 0) == 0);
    put_in_child(pool, block);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    CHILD_CHECK(nvtx_line("unheap ", 0) == 0 && nvtx_line("unregion ", 0) == 0);
    CHILD_CHECK(warnings == 1);
}

static void switch_guard_mode_on(const char *text)
{
    tarn_resource *pool = make_child_pool();
    tarn_device_ptr before = take_in_child(pool);
    tarn_guard_options options;

    CHILD_STATUS(TARN_OK, tarn_guard_parse(text, &options));
    CHILD_STATUS(TARN_OK, tarn_guard_enable(&options));
    size_t bytes = 0;
    CHILD_STATUS(TARN_OK, tarn_resource_requested_bytes(pool, before, &bytes));
    CHILD_CHECK(bytes == BYTES);
    /* Guard mode writes outside of blocks, so the tool knows no heap any more. */
    CHILD_CHECK(nvtx_line("unheap", 0) > 0);
    size_t end = nvtx_line("unheap", 0);
    for (unsigned i = 0; i < 100; i++)
        put_in_child(pool, take_in_child(pool));
    put_in_child(pool, before);
    CHILD_CHECK(nvtx_line("region ", end) == 0);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    uint64_t reports = 1;
    CHILD_STATUS(TARN_OK, tarn_guard_check(NULL, &reports));
    CHILD_CHECK(reports == 0);
}

static void switch_guard_mode_on_for_all(void)
{
    nvtx_use_tool(NULL);
    switch_guard_mode_on("guard,poison,quarantine");
}

static void switch_guard_mode_on_for_samples(void)
{
    nvtx_use_tool(NULL);
    switch_guard_mode_on("guard=1/10,poison");
}

/* The children are forks, so these tests run before this process uses Tarn. */
TEST(a_tool_may_refuse)
{
    in_child(use_a_tool_that_refuses);
}

TEST(a_tool_may_have_no_memory_functions)
{
    in_child(use_a_tool_without_memory);
}

TEST(a_tool_that_cannot_be_loaded_is_a_warning)
{
    in_child(use_a_tool_that_is_not_there);
    in_child(name_no_tool);
}

TEST(a_tool_may_take_no_names)
{
    in_child(use_a_tool_without_names);
}

TEST(a_tool_that_takes_no_heap_is_a_warning)
{
    in_child(use_a_tool_that_takes_no_heap);
}

TEST(guard_mode_ends_the_annotations)
{
    in_child(switch_guard_mode_on_for_all);
    in_child(switch_guard_mode_on_for_samples);
}

/* --- in this process --- */

static tarn_resource *make_pool(void)
{
    tarn_resource *pool;

    CHECK_OK(tarn_pool_create(0, NULL, NULL, &pool));
    return pool;
}

static tarn_device_ptr take(tarn_resource *resource, size_t bytes, tarn_stream stream)
{
    tarn_device_ptr block;

    CHECK_OK(tarn_resource_allocate(resource, bytes, 0, stream, &block));
    return block;
}

static void put(tarn_resource *resource, tarn_device_ptr block, size_t bytes,
                tarn_stream stream)
{
    CHECK_OK(tarn_resource_deallocate(resource, block, bytes, 0, stream));
}

/* --- each resource --- */

/* A block is a region of its bytes, with unregistered memory behind it. */
static void check_block(tarn_device_ptr block)
{
    nvtx_read();
    const struct nvtx_region *region = nvtx_region(block), *heap = nvtx_heap(block);

    CHECK(region && heap);
    CHECK_EQUAL(block, region->address);
    CHECK_EQUAL(BYTES, region->bytes);
    CHECK(block + BYTES + TAIL <= heap->address + heap->bytes);
    for (unsigned i = 0; i < TAIL; i++)
        CHECK(!nvtx_region(block + BYTES + i));
    CHECK(strncmp("1000 bytes, ", region->name, 12) == 0);
    CHECK(strlen(region->name) < 50); /* compute-sanitizer's limit */
}

static void use_resource(tarn_resource *resource)
{
    size_t bytes = 0;
    tarn_device_ptr blocks[3];

    for (unsigned i = 0; i < 3; i++)
        blocks[i] = take(resource, BYTES, NULL);
    for (unsigned i = 0; i < 3; i++)
        check_block(blocks[i]);
    CHECK_OK(tarn_resource_requested_bytes(resource, blocks[1], &bytes));
    CHECK_EQUAL(BYTES, bytes);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(resource, blocks[1], BYTES + 1, 0, NULL));
    CHECK_MESSAGE("was allocated with 1000 bytes, freed with 1001");
    check_block(blocks[1]);
    put(resource, blocks[1], BYTES, NULL);
    nvtx_read();
    CHECK(!nvtx_region(blocks[1]));
    check_block(blocks[0]);
    check_block(blocks[2]);
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(resource, blocks[1], BYTES, 0, NULL));
    put(resource, blocks[0], BYTES, NULL);
    put(resource, blocks[2], BYTES, NULL);
    CHECK_OK(tarn_resource_release(resource));
    nvtx_read();
    CHECK_EQUAL(0, nvtx_region_count());
    CHECK_EQUAL(0, nvtx_heap_count());
}

TEST(a_tool_sees_the_blocks_of_each_resource)
{
    tarn_resource *cuda, *over, *limiter, *resource;

    use_resource(make_pool()); /* its first heap attaches the tool */
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_pool_create(0, cuda, NULL, &over));
    CHECK_OK(tarn_limiter_create(over, 1 << 30, &limiter));
    CHECK_OK(tarn_resource_release(over));
    use_resource(limiter);
    use_resource(cuda);
    CHECK_OK(tarn_managed_create(0, &resource));
    use_resource(resource);
    CHECK_OK(tarn_pinned_create(0, &resource));
    use_resource(resource);
}

/* compute-sanitizer knows the blocks of the driver's pools itself, and takes no heap there. */
TEST(a_driver_pool_has_no_heaps)
{
    tarn_resource *resource;

    CHECK_OK(tarn_async_create(0, NULL, &resource));
    tarn_device_ptr block = take(resource, BYTES, NULL);
    nvtx_read();
    CHECK_EQUAL(0, nvtx_heap_count());
    CHECK_EQUAL(0, nvtx_region_count());
    put(resource, block, BYTES, NULL);
    CHECK_OK(tarn_resource_release(resource));
}

TEST(a_pool_over_a_pool_has_the_heaps_of_the_lower_one)
{
    tarn_resource *lower = make_pool(), *upper;

    CHECK_OK(tarn_pool_create(0, lower, NULL, &upper));
    CHECK_OK(tarn_resource_release(lower));
    use_resource(upper);
}

TEST(alignments_and_sizes_stay_those_of_the_program)
{
    tarn_resource *pool = make_pool();
    tarn_device_ptr block;

    for (size_t alignment = 1; alignment <= 1 << 20; alignment *= 4)
        for (size_t bytes = 1; bytes < 1 << 22; bytes = 5 * bytes + 3) {
            CHECK_OK(tarn_resource_allocate(pool, bytes, alignment, NULL, &block));
            CHECK_EQUAL(0, block % alignment);
            nvtx_read();
            CHECK(nvtx_region(block) && nvtx_region(block + bytes - 1));
            CHECK(!nvtx_region(block + bytes));
            CHECK_OK(tarn_resource_deallocate(pool, block, bytes, alignment, NULL));
        }
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(pool, SIZE_MAX - 600, 0, NULL, &block));
    CHECK_OK(tarn_resource_release(pool));
}

/* --- memory --- */

/* The tool takes no heap in mapped memory, so the pool takes segments of cuMemAlloc. */
TEST(each_segment_of_a_pool_is_a_heap)
{
    enum { LARGE = 9 << 20 };
    tarn_pool_options options = {.size = sizeof options, .growth_bytes = 2 << 20};
    tarn_resource *pool;
    uint64_t covered = 0;

    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    tarn_device_ptr small = take(pool, BYTES, NULL), large = take(pool, LARGE, NULL);
    nvtx_read();
    while (covered < LARGE && nvtx_region(large + covered)) {
        const struct nvtx_region *part = nvtx_region(large + covered);
        CHECK_EQUAL(large + covered, part->address);
        covered += part->bytes;
    }
    CHECK_EQUAL(LARGE, covered);
    CHECK_EQUAL(2, nvtx_region_count());
    CHECK(nvtx_heap(small) != nvtx_heap(large));
    put(pool, large, LARGE, NULL);
    nvtx_read();
    CHECK_EQUAL(1, nvtx_region_count());
    size_t heaps = nvtx_heap_count();
    CHECK_OK(tarn_resource_trim(pool, 0, NULL));
    nvtx_read();
    CHECK(nvtx_heap_count() < heaps);
    put(pool, small, BYTES, NULL);
    CHECK_OK(tarn_resource_release(pool));
    nvtx_read();
    CHECK_EQUAL(0, nvtx_heap_count());
}

TEST(a_block_without_space_for_a_tail_has_none)
{
    enum { MOST = 8 << 20 };
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = MOST};
    tarn_resource *pool;

    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    tarn_device_ptr all = take(pool, MOST, NULL);
    nvtx_read();
    CHECK(nvtx_region(all) && nvtx_region(all + MOST - 1));
    put(pool, all, MOST, NULL);
    nvtx_read();
    CHECK_EQUAL(0, nvtx_region_count());
    CHECK_OK(tarn_resource_release(pool));
}

/* --- the order of frees --- */

static int (*launch_host_function)(void *stream, void (*function)(void *), void *data);

static void work_slowly(void *data)
{
    (void)data;
    usleep(100 * 1000);
    nvtx_note("worked");
}

static void check_wait(tarn_resource *resource, tarn_stream work, tarn_stream named)
{
    nvtx_note("begin");
    size_t begin = nvtx_line("begin", 0);
    for (size_t next; (next = nvtx_line("begin", begin)) > 0;)
        begin = next;
    tarn_device_ptr block = take(resource, BYTES, named);
    CHECK_EQUAL(0, launch_host_function(tarn_stream_handle(work), work_slowly, NULL));
    put(resource, block, BYTES, named);
    CHECK(nvtx_line("worked", begin) > 0);
    CHECK(nvtx_line("worked", begin) < nvtx_line("unregion", begin));
}

TEST(a_free_waits_before_it_ends_the_block)
{
    tarn_resource *pool = make_pool(), *cuda;
    tarn_stream stream;

    if (!on_sim())
        skip();
    find_call("cuLaunchHostFunc", &launch_host_function);
    CHECK_OK(tarn_stream_create(0, 0, &stream));
    CHECK_OK(tarn_cuda_create(0, &cuda));
    check_wait(pool, stream, stream);
    check_wait(pool, stream, TARN_STREAM_NONE); /* for the device */
    check_wait(cuda, stream, NULL);
    CHECK_OK(tarn_stream_destroy(0, stream));
    CHECK_OK(tarn_resource_release(cuda));
    CHECK_OK(tarn_resource_release(pool));
}

/* --- captures --- */

static tarn_resource *captured_pool;

static tarn_status use_pool(void)
{
    tarn_device_ptr block;
    tarn_status status =
        tarn_resource_allocate(captured_pool, BYTES, 0, TARN_STREAM_NONE, &block);

    return status == TARN_OK ? tarn_resource_deallocate(captured_pool, block, BYTES, 0,
                                                        TARN_STREAM_NONE)
                             : status;
}

TEST(a_capture_survives_annotations)
{
    captured_pool = make_pool();
    capture_survives(use_pool);
    CHECK_OK(tarn_resource_release(captured_pool));
    nvtx_read();
    CHECK_EQUAL(0, nvtx_region_count());
}

TEST(what_a_capture_frees_stays_registered_for_its_graph)
{
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*destroy)(void *graph);
    void *context, *graph = NULL;
    enum { MOST = 1500 };
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 2 << 20};
    tarn_device_ptr blocks[MOST];
    size_t count = 0;
    tarn_resource *pool;
    tarn_stream stream;

    find_call("cuDevicePrimaryCtxRetain", &retain);
    find_call("cuCtxSetCurrent", &set_current);
    find_call("cuStreamBeginCapture_v2", &begin);
    find_call("cuStreamEndCapture", &end);
    find_call("cuGraphDestroy", &destroy);
    CHECK_EQUAL(0, retain(&context, 0));
    CHECK_EQUAL(0, set_current(context));
    CHECK_OK(tarn_pool_create(0, NULL, &options, &pool));
    CHECK_OK(tarn_stream_create(0, 0, &stream));
    tarn_device_ptr before = take(pool, BYTES, stream);
    CHECK_EQUAL(0, begin(tarn_stream_handle(stream), 0));
    tarn_device_ptr inside = take(pool, BYTES, stream);
    put(pool, inside, BYTES, stream);
    tarn_device_ptr larger = take(pool, 3 * BYTES, stream);
    put(pool, before, BYTES, stream);
    put(pool, larger, 3 * BYTES, stream);
    nvtx_read(); /* no two of them overlap */
    CHECK(nvtx_region(before) && nvtx_region(inside) && nvtx_region(inside + BYTES - 1));
    CHECK(nvtx_region(larger) && nvtx_region(larger + 3 * BYTES - 1));
    CHECK_EQUAL(0, end(tarn_stream_handle(stream), &graph));
    CHECK_EQUAL(0, destroy(graph));
    CHECK_EQUAL(0, set_current(NULL));
    /* Blocks all over the memory end what was left. */
    while (count < MOST &&
           tarn_resource_allocate(pool, BYTES, 0, stream, &blocks[count]) == TARN_OK)
        count++;
    nvtx_read();
    CHECK(count > 1300);
    CHECK_EQUAL(count, nvtx_region_count());
    for (unsigned i = 0; i < count; i++)
        put(pool, blocks[i], BYTES, stream);
    nvtx_read();
    CHECK_EQUAL(0, nvtx_region_count());
    CHECK_OK(tarn_stream_destroy(0, stream));
    CHECK_OK(tarn_resource_release(pool));
    nvtx_read();
    CHECK_EQUAL(0, nvtx_region_count());
}

/* --- several streams --- */

enum { THREADS = 4, ROUNDS = 150, LIVE = 8 };

struct held {
    tarn_device_ptr block;
    size_t bytes;
    unsigned char fill;
};

/* Each thread fills its blocks, verifies them, and frees them on its stream. */
static void *work_on_a_stream(void *data)
{
    tarn_resource *pool = data;
    struct held held[LIVE] = {0};
    unsigned char seen[8192];
    tarn_stream stream;
    unsigned state = (unsigned)(uintptr_t)&state >> 4;

    CHILD_STATUS(TARN_OK, tarn_stream_create(0, 0, &stream));
    for (unsigned i = 0; i < ROUNDS + LIVE; i++) {
        struct held *place = &held[i % LIVE];
        if (place->block) {
            CHILD_STATUS(TARN_OK, tarn_memcpy_async(0, (uintptr_t)seen, place->block,
                                                    place->bytes, stream));
            CHILD_STATUS(TARN_OK, tarn_stream_synchronize(0, stream));
            for (size_t at = 0; at < place->bytes; at++)
                CHILD_CHECK(seen[at] == place->fill);
            CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pool, place->block,
                                                           place->bytes, 0, stream));
            place->block = 0;
        }
        if (i >= ROUNDS)
            continue;
        state = state * 1103515245u + 12345u;
        *place =
            (struct held){.bytes = 1 + state % 8000, .fill = (unsigned char)(state >> 8)};
        CHILD_STATUS(TARN_OK, tarn_resource_allocate(pool, place->bytes, 0, stream,
                                                     &place->block));
        CHILD_STATUS(TARN_OK, tarn_memset_async(0, place->block, place->fill,
                                                place->bytes, stream));
    }
    CHILD_STATUS(TARN_OK, tarn_stream_destroy(0, stream));
    return NULL;
}

TEST(threads_with_streams_of_their_own_share_a_pool)
{
    tarn_resource *pool = make_pool();
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, work_on_a_stream, pool));
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    nvtx_read();
    CHECK_EQUAL(0, nvtx_region_count());
    CHECK_OK(tarn_resource_release(pool));
}
