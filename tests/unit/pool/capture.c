/* Test memory of graphs: the graph keeps it, and the pool gets it back when the graph
 * cannot run any more. */
#include "pools.h"
#include "capturing.h"
#include <unistd.h>

static void *graph_of(tarn_stream stream)
{
    void *graph = NULL;

    CU(cuStreamEndCapture(stream, &graph));
    CHECK(graph != NULL);
    return graph;
}

static void *runnable(void *graph)
{
    void *exec = NULL;

    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

/* The driver reports the end of a graph on a thread of its own, with a delay. */
static void comes_back(tarn_resource *pool, size_t bytes, tarn_stream stream)
{
    for (int i = 0; i < 20000 && is_refused(pool, bytes, stream); i++)
        usleep(500);
    put(pool, take(pool, bytes, stream), bytes, stream);
}

static void until_it_is_let_go(tarn_resource *pool, tarn_stream stream)
{
    for (int i = 0; i < 20000 && statistics(pool).captured > 0; i++) {
        usleep(500);
        CHECK(is_refused(pool, 3 * MIB, stream)); /* looks for ended graphs */
    }
    CHECK_EQUAL(0, statistics(pool).captured);
}

TEST(block_that_a_capture_freed_is_had_again_in_it_on_the_same_stream)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_stream one = new_stream(), other = new_stream();

    CU(cuStreamBeginCapture_v2(one, CAPTURE_RELAXED));
    CU(cuStreamBeginCapture_v2(other, CAPTURE_RELAXED));
    tarn_device_ptr block = take(pool, 3 * MIB, one);
    put(pool, block, 3 * MIB, one);
    CHECK(is_refused(pool, 3 * MIB, other)); /* another graph */
    CHECK_EQUAL(block, take(pool, 3 * MIB, one));
    put(pool, block, 3 * MIB, one);
    adds_up(pool);
    CHECK(statistics(pool).captured >= 3 * MIB);
    CHECK(is_refused(pool, 3 * MIB, NULL)); /* no other stream */
    CU(cuGraphDestroy(graph_of(one)));
    CU(cuGraphDestroy(graph_of(other)));
    comes_back(pool, 3 * MIB, NULL);
    CHECK_EQUAL(0, statistics(pool).captured);
    end_pool(pool);
    CU(cuStreamDestroy_v2(one));
    CU(cuStreamDestroy_v2(other));
}

TEST(memory_stays_with_a_graph_until_it_and_what_was_made_of_it_are_gone)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_stream stream = new_stream();

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    tarn_device_ptr block = take(pool, 3 * MIB, stream);
    CU(cuMemsetD8Async(block, 7, 3 * MIB, stream));
    put(pool, block, 3 * MIB, stream);
    void *graph = graph_of(stream), *exec = runnable(graph);
    CHECK(is_refused(pool, 3 * MIB, stream));
    CU(cuGraphDestroy(graph));
    CHECK(is_refused(pool, 3 * MIB, stream));
    CU(cuGraphLaunch(exec, stream));
    CU(cuStreamSynchronize(stream));
    CHECK(is_refused(pool, 3 * MIB, stream));
    CU(cuGraphExecDestroy(exec));
    comes_back(pool, 3 * MIB, stream);
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(graph_that_is_let_go_by_hand_gives_its_memory_in_the_order_of_that_stream)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_pool_capture *capture = NULL, *again = NULL;
    tarn_stream stream = new_stream(), other = new_stream();
    struct gate gate;

    CHECK_STATUS(TARN_NOT_FOUND, tarn_pool_get_capture(pool, stream, &capture));
    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    tarn_device_ptr block = take(pool, 3 * MIB, stream);
    put(pool, block, 3 * MIB, stream);
    CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
    CHECK_OK(tarn_pool_get_capture(pool, stream, &again));
    CHECK(capture == again);
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_capture_release(capture, stream));
    void *graph = graph_of(stream), *exec = runnable(graph);
    hold_up(stream, &gate);
    CU(cuGraphLaunch(exec, stream));
    CHECK_OK(tarn_pool_capture_release(capture, stream));
    CHECK(is_refused(pool, 3 * MIB, stream)); /* one reference is left */
    CHECK_OK(tarn_pool_capture_release(again, stream));
    CHECK_EQUAL(block, take(pool, 3 * MIB, stream));
    put(pool, block, 3 * MIB, stream);
    CHECK_OK(tarn_pool_capture_release(NULL, stream));
    adds_up(pool);
    let_on(&gate);
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    put(pool, take(pool, 3 * MIB, other), 3 * MIB, other);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
}

/* The pool's lock is released in between. */
TEST(graph_with_many_blocks_is_let_go_in_steps)
{
    enum { COUNT = 1000 };
    static tarn_device_ptr blocks[COUNT];

    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_pool_capture *capture = NULL;
    tarn_stream stream = new_stream();

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    for (int i = 0; i < COUNT; i++)
        blocks[i] = take(pool, 512, stream);
    for (int i = 0; i < COUNT; i += 2)
        put(pool, blocks[i], 512, stream);
    CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
    void *graph = graph_of(stream);
    for (int i = 1; i < COUNT; i += 4) /* outside of the capture */
        put(pool, blocks[i], 512, stream);
    CHECK(statistics(pool).captured >= COUNT / 2 * 512);
    CHECK_OK(tarn_pool_capture_release(capture, stream));
    CHECK_EQUAL(0, statistics(pool).captured);
    CHECK_EQUAL(COUNT / 4, statistics(pool).live_blocks);
    adds_up(pool);
    for (int i = 3; i < COUNT; i += 4)
        put(pool, blocks[i], 512, stream);
    CU(cuGraphDestroy(graph));
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

static int warnings;

static void hear(void *data, const char *message)
{
    (void)data;
    warnings++;
    CHECK(
        strstr(message, "pool: the last reference was released while 1 blocks are live"));
}

/* The handle is invalid, whatever happens to the pool. The release does not report that
 * as a failure. */
TEST(memory_of_a_graph_that_is_a_pools_last_owner_goes_and_the_pool_stays)
{
    for (int drops = 0; drops < 2; drops++) {
        use_driver(0);
        tarn_resource *pool = strict_pool(4 * MIB);
        tarn_pool_capture *capture = NULL;
        tarn_stream stream = new_stream();
        tarn_device_ptr block = take(pool, MIB, stream);

        CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
        put(pool, take(pool, MIB, stream), MIB, stream);
        CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
        CU(cuGraphDestroy(graph_of(stream)));
        CHECK_OK(tarn_resource_release(pool));
        warnings = 0;
        tarn_set_warning_handler(hear, NULL);
        CHECK_OK(drops ? tarn_pool_capture_unreference(capture)
                       : tarn_pool_capture_release(capture, stream));
        CHECK_EQUAL(1, warnings);
        put(pool, block, MIB, stream);
        end_pool(pool); /* by the remaining reference */
        CU(cuStreamDestroy_v2(stream));
    }
}

/* Dropping a reference does not end the graph, which may run again. */
TEST(reference_that_is_dropped_leaves_the_memory_with_its_graph)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_pool_capture *capture = NULL, *again = NULL;
    tarn_stream stream = new_stream();

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    put(pool, take(pool, 3 * MIB, stream), 3 * MIB, stream);
    CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
    CHECK_OK(tarn_pool_get_capture(pool, stream, &again));
    CHECK_OK(tarn_pool_capture_unreference(again));
    CHECK_OK(tarn_pool_capture_unreference(capture));
    CHECK_OK(tarn_pool_get_capture(pool, stream, &again)); /* it goes on */
    CHECK(capture == again);
    void *graph = graph_of(stream);
    CHECK_OK(tarn_pool_capture_unreference(again));
    CHECK_OK(tarn_pool_capture_unreference(NULL));
    CHECK(is_refused(pool, 3 * MIB, stream));
    CHECK_EQUAL(3 * MIB, statistics(pool).captured);
    CU(cuGraphDestroy(graph));
    comes_back(pool, 3 * MIB, stream);
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* For graphs that use each other's memory. */
TEST(capture_that_is_held_keeps_its_memory_after_its_graph_is_gone)
{
    for (int drops = 0; drops < 2; drops++) {
        use_driver(0);
        tarn_resource *pool = strict_pool(4 * MIB);
        tarn_pool_capture *capture = NULL, *again = NULL;
        tarn_stream stream = new_stream();

        CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
        put(pool, take(pool, 3 * MIB, stream), 3 * MIB, stream);
        CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
        CHECK_OK(tarn_pool_get_capture(pool, stream, &again));
        CHECK_OK(tarn_pool_capture_hold(capture));
        CHECK_OK(tarn_pool_capture_hold(capture));
        CU(cuGraphDestroy(graph_of(stream)));
        usleep(20000); /* the driver reports the end with a delay */
        CHECK(is_refused(pool, 3 * MIB, stream));
        CHECK_OK(tarn_pool_capture_unreference(again));
        CHECK(is_refused(pool, 3 * MIB, stream));
        CHECK_EQUAL(3 * MIB, statistics(pool).captured);
        CHECK_OK(drops ? tarn_pool_capture_unreference(capture)
                       : tarn_pool_capture_release(capture, stream));
        comes_back(pool, 3 * MIB, stream);
        CHECK_EQUAL(0, statistics(pool).captured);
        end_pool(pool);
        CU(cuStreamDestroy_v2(stream));
    }
}

TEST(capture_that_was_released_cannot_be_held)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_pool_capture *capture = NULL;
    tarn_stream stream = new_stream();

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_capture_hold(NULL));
    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    put(pool, take(pool, 3 * MIB, stream), 3 * MIB, stream);
    CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
    CU(cuGraphDestroy(graph_of(stream)));
    comes_back(pool, 3 * MIB, stream);
    CHECK_STATUS(TARN_NOT_FOUND, tarn_pool_capture_hold(capture));
    CHECK_OK(tarn_pool_capture_unreference(capture));
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* No stream is known that waits for the last launch. */
TEST(memory_that_is_released_without_a_stream_waits_for_all_work)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_pool_capture *capture = NULL;
    tarn_stream stream = new_stream(), other = new_stream();
    struct gate gate;

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    tarn_device_ptr block = take(pool, 3 * MIB, stream);
    CU(cuMemsetD8Async(block, 7, 3 * MIB, stream));
    put(pool, block, 3 * MIB, stream);
    CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
    void *graph = graph_of(stream), *exec = runnable(graph);
    hold_up(stream, &gate);
    CU(cuGraphLaunch(exec, stream));
    CHECK_OK(tarn_pool_capture_release(capture, TARN_STREAM_NONE));
    CHECK_EQUAL(0, statistics(pool).captured);
    CHECK_EQUAL(3 * MIB, statistics(pool).no_stream_deferred);
    let_on(&gate);
    CHECK_EQUAL(block, take(pool, 3 * MIB, other));
    put(pool, block, 3 * MIB, other);
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
}

/* Of a pool that has no other owner any more. */
TEST(last_reference_that_is_dropped_takes_the_pool_along)
{
    use_driver(0);
    unsigned long long before = on_sim() ? sim_live_bytes() : 0;
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_pool_capture *capture = NULL;
    tarn_stream stream = new_stream();

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    put(pool, take(pool, 3 * MIB, stream), 3 * MIB, stream);
    CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
    CU(cuGraphDestroy(graph_of(stream)));
    end_pool(pool);
    CHECK(!on_sim() || sim_live_bytes() > before);
    CHECK_OK(tarn_pool_capture_unreference(capture));
    CHECK(!on_sim() || sim_live_bytes() == before);
    CU(cuStreamDestroy_v2(stream));
}

static tarn_pool_capture_statistics kept_for(tarn_pool_capture *capture)
{
    tarn_pool_capture_statistics all = {.size = sizeof all};

    CHECK_OK(tarn_pool_capture_get_statistics(capture, &all));
    CHECK_EQUAL(sizeof all, all.size);
    return all;
}

static void keeps(tarn_pool_capture *capture, uint64_t kept, uint64_t live,
                  uint64_t blocks)
{
    tarn_pool_capture_statistics all = kept_for(capture);

    CHECK_EQUAL(kept, all.retained);
    CHECK_EQUAL(live, all.live);
    CHECK_EQUAL(blocks, all.live_blocks);
}

TEST(capture_tells_what_is_kept_for_its_graph)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(8 * MIB);
    tarn_pool_capture *capture = NULL;
    tarn_stream stream = new_stream();

    tarn_device_ptr before = take(pool, 2 * MIB, stream);
    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    tarn_device_ptr one = take(pool, MIB, stream), two = take(pool, 1000, stream);
    CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
    keeps(capture, 0, MIB + 1024, 2);
    put(pool, one, MIB, stream);
    keeps(capture, MIB, 1024, 1);
    put(pool, before, 2 * MIB, stream); /* from before, and still the graph's */
    keeps(capture, 3 * MIB, 1024, 1);
    CHECK_EQUAL(1, kept_for(capture).streams);
    CHECK_EQUAL(statistics(pool).captured, kept_for(capture).retained);
    void *graph = graph_of(stream);
    put(pool, two, 1000, NULL); /* on another stream: its graph may still use it */
    keeps(capture, 3 * MIB + 1024, 0, 0);
    CHECK(!kept_for(capture).has_ended);
    CU(cuGraphDestroy(graph));
    for (int i = 0; i < 20000 && !kept_for(capture).has_ended; i++)
        usleep(500);
    CHECK(kept_for(capture).has_ended);
    keeps(capture, 0, 0, 0);
    CHECK_EQUAL(0, statistics(pool).captured);
    CHECK_OK(tarn_pool_capture_release(capture, stream));
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(statistics_of_a_capture_are_as_long_as_their_reader_knows)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_pool_capture_statistics all = {
        .size = offsetof(tarn_pool_capture_statistics, live), .live = 77};
    tarn_pool_capture *capture = NULL;
    tarn_stream stream = new_stream();

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    tarn_device_ptr block = take(pool, MIB, stream);
    CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
    CHECK_OK(tarn_pool_capture_get_statistics(capture, &all));
    CHECK_EQUAL(offsetof(tarn_pool_capture_statistics, live), all.size);
    CHECK_EQUAL(77, all.live);
    all.size = sizeof all.size - 1;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_capture_get_statistics(capture, &all));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_capture_get_statistics(capture, NULL));
    all.size = sizeof all;
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_capture_get_statistics(NULL, &all));
    CHECK_EQUAL(77, all.live);
    put(pool, block, MIB, stream);
    CU(cuGraphDestroy(graph_of(stream)));
    CHECK_OK(tarn_pool_capture_unreference(capture));
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* The work that used the block before the capture began is not the graph's. */
TEST(block_of_before_that_a_capture_freed_waits_for_what_used_it)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_stream stream = new_stream(), other = new_stream();
    struct gate gate;

    tarn_device_ptr block = take(pool, 3 * MIB, stream);
    hold_up(stream, &gate);
    CU(cuMemsetD8Async(block, 1, 3 * MIB, stream));
    CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    put(pool, block, 3 * MIB, stream);
    CHECK(is_refused(pool, 3 * MIB, stream)); /* the graph may run on another stream */
    CU(cuGraphDestroy(graph_of(stream)));
    until_it_is_let_go(pool, other);
    CHECK(is_refused(pool, 3 * MIB, other));
    adds_up(pool);
    let_on(&gate);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
}

/* It was freed on another stream; the end of the graph does not wait for its work. */
TEST(block_of_a_graph_that_was_freed_outside_waits_for_what_used_it)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_stream stream = new_stream(), other = new_stream();
    tarn_pool_capture *capture;
    struct gate gate;

    for (int by_hand = 0; by_hand < 2; by_hand++) {
        CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
        tarn_device_ptr block = take(pool, 3 * MIB, stream);
        CHECK_OK(tarn_pool_get_capture(pool, stream, &capture));
        void *graph = graph_of(stream);
        hold_up(other, &gate);
        CU(cuMemsetD8Async(block, 1, 3 * MIB, other));
        put(pool, block, 3 * MIB, other);
        CHECK(is_refused(pool, 3 * MIB, other));
        if (by_hand)
            CHECK_OK(tarn_pool_capture_release(capture, stream));
        CU(cuGraphDestroy(graph));
        until_it_is_let_go(pool, stream);
        CHECK(is_refused(pool, 3 * MIB, stream));
        if (!by_hand)
            CHECK_OK(tarn_pool_capture_release(capture, stream));
        adds_up(pool);
        let_on(&gate);
        CHECK_OK(
            tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD)); /* a device-wide wait */
        CHECK_OK(tarn_pool_resume(pool));
    }
    put(pool, take(pool, 3 * MIB, stream), 3 * MIB, stream);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
}

TEST(block_of_a_graph_that_outlives_it_is_freed_as_any)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_stream stream = new_stream(), other = new_stream();

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    tarn_device_ptr block = take(pool, 3 * MIB, stream);
    CU(cuGraphDestroy(graph_of(stream)));
    do /* once the pool notices the end of the graph */
        CHECK(is_refused(pool, 3 * MIB, stream));
    while (statistics(pool).streams > 2 && usleep(500) == 0);
    put(pool, block, 3 * MIB, other);
    CHECK_EQUAL(block, take(pool, 3 * MIB, other));
    put(pool, block, 3 * MIB, other);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
}

/* Lose the capture of a stream. */
static void lose(tarn_stream stream)
{
    unsigned long long id;
    int state = 0;

    CHECK(cu.cuStreamGetId(stream, &id) != 0);
    CU(cuStreamIsCapturing(stream, &state));
    CHECK_EQUAL(2, state);
}

TEST(lost_capture_gives_its_memory_back)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_stream stream = new_stream();
    tarn_pool_capture *capture = NULL;
    void *graph = NULL;

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    tarn_device_ptr one = take(pool, MIB, stream), two = take(pool, MIB, stream);
    tarn_device_ptr three = 0;
    put(pool, one, MIB, stream);
    lose(stream);
    put(pool, two, MIB, stream);
    tarn_status status = tarn_resource_allocate(pool, MIB, 0, stream, &three);
    CHECK(status == TARN_OK || status == TARN_OUT_OF_MEMORY);
    if (three)
        put(pool, three, MIB, stream);
    status = tarn_pool_get_capture(pool, stream, &capture);
    if (status == TARN_OK)
        CHECK(capture != NULL);
    CHECK(cu.cuStreamEndCapture(stream, &graph) != 0 && !graph);
    CHECK_OK(tarn_pool_capture_release(capture, stream));
    for (int i = 0; i < 20000 && statistics(pool).captured > 0; i++) {
        usleep(500);
        CHECK(is_refused(pool, 5 * MIB, stream));
    }
    adds_up(pool);
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD)); /* a device-wide wait */
    CHECK_OK(tarn_pool_resume(pool));
    put(pool, take(pool, 4 * MIB, stream), 4 * MIB, stream);
    CHECK_EQUAL(0, statistics(pool).captured);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(captures_leave_nothing_behind)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_stream stream = new_stream();
    tarn_device_ptr block;

    for (int i = 0; i < 4000; i++) {
        bool only_frees = i & 1; /* then no thread allocates */
        if (only_frees)
            block = take(pool, 4 * KIB, stream);
        CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
        if (!only_frees)
            block = take(pool, 4 * KIB, stream);
        put(pool, block, 4 * KIB, stream);
        CU(cuGraphDestroy(graph_of(stream)));
        while (i % 500 == 0 && statistics(pool).captured > 32 * KIB) {
            usleep(500);
            CHECK(is_refused(pool, (size_t)1 << 39, NULL)); /* an allocation */
        }
    }
    CHECK(statistics(pool).streams <= 2100);
    CHECK(statistics(pool).reserved <= 64 * MIB);
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* --- the last reference is dropped while a call on the capture runs --- */

struct release {
    tarn_pool_capture *capture;
    tarn_stream stream;
};

static bool release_it(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    struct release *release = data;

    (void)pool, (void)bytes;
    if (attempt > 0)
        return false;
    CHECK_OK(tarn_pool_capture_release(release->capture, release->stream));
    return true;
}

TEST(capture_may_be_let_go_by_a_callback_of_its_own_allocation)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    struct release release = {.stream = new_stream()};
    tarn_stream stream = new_stream();
    tarn_device_ptr block = 0;

    CHECK_OK(tarn_pool_add_oom_callback(pool, release_it, &release));
    CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    put(pool, take(pool, MIB, stream), MIB, stream);
    CHECK_OK(tarn_pool_get_capture(pool, stream, &release.capture));
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(pool, 5 * MIB, 0, stream, &block));
    put(pool, take(pool, MIB, stream), MIB, stream);
    adds_up(pool);
    CU(cuGraphDestroy(graph_of(stream)));
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(release.stream));
}

TEST(report_of_a_capture_that_finds_no_memory_adds_up)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_stream stream = new_stream();
    tarn_pool_oom_report report = {.size = sizeof report};

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    put(pool, take(pool, MIB, stream), MIB, stream);
    CHECK(is_refused(pool, 5 * MIB, stream));
    CHECK_OK(tarn_pool_last_oom_report(&report));
    CHECK_EQUAL(5 * MIB, report.requested);
    CHECK_EQUAL(MIB, report.captured);
    CHECK_EQUAL(report.reserved,
                report.live + report.thread_cached + report.cached + report.captured);
    CHECK_EQUAL(report.cached, report.completed + report.other_streams);
    CU(cuGraphDestroy(graph_of(stream)));
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* --- no call ends a capture --- */

static tarn_resource *shared;
static tarn_stream shared_stream, opened_stream;

/* One resource of each kind, on streams that do not capture. */
static tarn_status everything(void)
{
    tarn_device_ptr blocks[8] = {0};
    tarn_stream streams[] = {
        shared_stream, opened_stream, TARN_STREAM_PER_THREAD, TARN_STREAM_NONE,
        shared_stream, opened_stream, TARN_STREAM_PER_THREAD, TARN_STREAM_NONE};
    size_t released;
    tarn_status status = TARN_OK;

    for (int i = 0; i < 8 && status == TARN_OK; i++)
        status = tarn_resource_allocate(shared, i < 4 ? 3 * MIB : 4 * KIB, 0, streams[i],
                                        &blocks[i]);
    for (int i = 0; i < 8 && status == TARN_OK; i++)
        status = tarn_resource_deallocate(shared, blocks[i], i < 4 ? 3 * MIB : 4 * KIB, 0,
                                          streams[(i + 1) % 4]);
    if (status == TARN_OK)
        status = tarn_resource_trim(shared, MIB, &released);
    if (status == TARN_OK)
        status = tarn_pool_set_maximum(shared, 64 * MIB);
    return status;
}

static tarn_status run_out(void)
{
    tarn_device_ptr block = 0;
    tarn_status status =
        tarn_resource_allocate(shared, 80 * MIB, 0, shared_stream, &block);

    return status == TARN_OUT_OF_MEMORY ? TARN_OK : TARN_DRIVER_FAILURE;
}

static tarn_status sleep_and_wake(void)
{
    tarn_device_ptr block = 0;
    tarn_status status = tarn_resource_allocate(shared, MIB, 0, shared_stream, &block);

    if (status == TARN_OK)
        status = tarn_pool_suspend(shared, TARN_POOL_SUSPEND_KEEP);
    if (status == TARN_OK)
        status = tarn_pool_resume(shared);
    if (status == TARN_OK)
        status = tarn_resource_deallocate(shared, block, MIB, 0, shared_stream);
    return status;
}

/* A program may not use the legacy stream while a blocking stream captures. It may
 * allocate and free memory on it. */
static tarn_status on_legacy(void)
{
    tarn_device_ptr one = 0, two = 0;
    tarn_status status = tarn_resource_allocate(shared, 5 * MIB, 0, NULL, &one);

    if (status == TARN_OK)
        status = tarn_resource_allocate(shared, 4 * KIB, 0, NULL, &two);
    if (status == TARN_OK)
        status = tarn_resource_deallocate(shared, one, 5 * MIB, 0, NULL);
    if (status == TARN_OK)
        status = tarn_resource_deallocate(shared, two, 4 * KIB, 0, NULL);
    return status;
}

static tarn_status live_and_die(void)
{
    tarn_pool_options options = {.size = sizeof options, .initial_bytes = 4 * MIB};
    tarn_resource *pool = NULL;
    tarn_device_ptr block = 0;
    tarn_status status = tarn_pool_create(0, NULL, &options, &pool);

    if (status == TARN_OK)
        status = tarn_resource_allocate(pool, MIB, 0, shared_stream, &block);
    if (status == TARN_OK)
        status = tarn_resource_deallocate(pool, block, MIB, 0, shared_stream);
    if (status == TARN_OK)
        status = tarn_resource_release(pool);
    return status;
}

static void nothing_ends_a_capture(tarn_resource *upstream)
{
    tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 64 * MIB};

    use_driver(0);
    shared_stream = new_stream();
    CHECK_OK(tarn_stream_register(0, shared_stream, &opened_stream));
    CHECK_OK(tarn_pool_create(0, upstream, &options, &shared));
    capture_survives(everything);
    capture_survives(run_out);
    if (!upstream) {
        capture_survives(sleep_and_wake);
        capture_survives(live_and_die);
        capture_survives(on_legacy);
    }
    use_driver(0);
    adds_up(shared);
    end_pool(shared);
    CHECK_OK(tarn_stream_unregister(opened_stream));
    CU(cuStreamDestroy_v2(shared_stream));
    CHECK_OK(tarn_resource_release(upstream));
}

TEST(nothing_that_a_pool_does_ends_a_capture)
{
    nothing_ends_a_capture(NULL);
}

TEST(nothing_that_a_pool_of_cuda_memory_does_ends_a_capture)
{
    tarn_resource *upstream;

    CHECK_OK(tarn_cuda_create(0, &upstream));
    nothing_ends_a_capture(upstream);
}

/* The calls of a program on the capturing stream. */
TEST(use_on_the_stream_that_captures_does_not_end_the_capture)
{
    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    tarn_stream stream = new_stream();
    tarn_device_ptr before = take(pool, MIB, stream), small = take(pool, 512, stream);
    int state = 0;

    for (int mode = 0; mode < 3; mode++) {
        put(pool, small, 512, stream); /* thread-cached, and not for the graph */
        CU(cuStreamBeginCapture_v2(stream, mode));
        tarn_device_ptr inside = take(pool, 512, stream);
        CHECK(inside != small);
        tarn_device_ptr large = take(pool, 3 * MIB, stream);
        put(pool, before, MIB, stream);
        before = take(pool, MIB, stream);
        put(pool, large, 3 * MIB, stream);
        put(pool, inside, 512, stream);
        CU(cuStreamIsCapturing(stream, &state));
        CHECK_EQUAL(1, state);
        CU(cuGraphDestroy(graph_of(stream)));
        small = take(pool, 512, stream);
    }
    put(pool, small, 512, stream);
    put(pool, before, MIB, stream);
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* --- several threads, each with captures of its own --- */

enum { THREADS = 4, ROUNDS = 40 };

struct capturer {
    tarn_resource *pool;
    tarn_stream stream;
    unsigned number;
    int mistakes;
};

static bool capture_once(struct capturer *own, unsigned round)
{
    tarn_pool_capture_statistics all = {.size = sizeof all};
    tarn_pool_capture *capture = NULL;
    tarn_device_ptr block = 0;
    void *graph = NULL;

    if (cu.cuStreamBeginCapture_v2(own->stream, CAPTURE_RELAXED) ||
        tarn_resource_allocate(own->pool, MIB, 0, own->stream, &block) ||
        tarn_pool_get_capture(own->pool, own->stream, &capture) ||
        tarn_resource_deallocate(own->pool, block, MIB, 0, own->stream) ||
        tarn_pool_capture_get_statistics(capture, &all) || all.retained < MIB ||
        all.live || all.has_ended || cu.cuStreamEndCapture(own->stream, &graph) ||
        cu.cuGraphDestroy(graph))
        return false;
    tarn_status status = round % 2 ? tarn_pool_capture_unreference(capture)
                                   : tarn_pool_capture_release(capture, own->stream);
    return status == TARN_OK;
}

static void *capture_often(void *data)
{
    struct capturer *own = data;

    for (unsigned i = 0; i < ROUNDS; i++)
        own->mistakes += !capture_once(own, i + own->number);
    return NULL;
}

TEST(threads_ask_and_let_go_side_by_side)
{
    struct capturer capturers[THREADS];
    pthread_t threads[THREADS];

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        capturers[i] = (struct capturer){pool, new_stream(), i, 0};
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, capture_often, &capturers[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
        CHECK_EQUAL(0, capturers[i].mistakes);
    }
    for (int i = 0; i < 20000 && statistics(pool).captured > 0; i++) {
        usleep(500);
        CHECK(is_refused(pool, (size_t)1 << 39, NULL)); /* looks for ended graphs */
    }
    CHECK_EQUAL(0, statistics(pool).captured);
    adds_up(pool);
    for (int i = 0; i < THREADS; i++)
        CU(cuStreamDestroy_v2(capturers[i].stream));
    end_pool(pool);
}
