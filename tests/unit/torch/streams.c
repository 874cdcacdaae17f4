/* Test frees that wait for recorded streams, and memory of pools of graphs. */
#include "field.h"
#include "scripted.h"
#include <unistd.h>

enum { BYTES = 3 * 1024 * 1024 };

static const tarn_torch_pool_id ONE = {0, 1}, TWO = {0, 2};

static void *allocate(tarn_stream stream)
{
    return tarn_torch_allocate(BYTES, 0, stream);
}

static void deallocate(void *block, tarn_stream stream)
{
    tarn_torch_deallocate(block, BYTES, 0, stream);
}

/* A call that polls the waiting frees. */
static void poll(void)
{
    tarn_torch_deallocate(tarn_torch_allocate(512, 0, NULL), 512, 0, NULL);
}

TEST(recorded_stream_keeps_a_block_until_its_work_is_done)
{
    tarn_resource *pool = serve(0);
    tarn_stream one = new_stream(), other = new_stream();
    struct gate gate;
    void *block = allocate(one);

    hold_up(other, &gate);
    tarn_torch_record_stream(block, other);
    tarn_torch_record_stream(block, other);
    tarn_torch_record_stream(block, one);
    deallocate(block, one);
    CHECK_EQUAL(0, counts().allocations[TARN_TORCH_ALL].current);
    CHECK_EQUAL(BYTES, active_bytes());
    CHECK_EQUAL(1, statistics(pool).live_blocks);
    void *next = allocate(one);
    CHECK(next != block);
    let_on(&gate);
    poll();
    CHECK_EQUAL(BYTES, active_bytes());
    CHECK_EQUAL(1, statistics(pool).live_blocks);
    void *again = allocate(one);
    CHECK(again == block);
    deallocate(again, one);
    deallocate(next, one);
    end_service(pool);
    CU(cuStreamDestroy_v2(one));
    CU(cuStreamDestroy_v2(other));
}

TEST(recorded_stream_of_the_allocation_alone_delays_nothing)
{
    tarn_resource *pool = serve(0);
    tarn_stream one = new_stream();
    struct gate gate;
    void *block = allocate(one);

    hold_up(one, &gate);
    tarn_torch_record_stream(block, one);
    deallocate(block, one);
    CHECK_EQUAL(0, active_bytes());
    CHECK_EQUAL(0, statistics(pool).live_blocks);
    let_on(&gate);
    end_service(pool);
    CU(cuStreamDestroy_v2(one));
}

/* The stream of the allocation does not wait: the two may run side by side. */
TEST(recorded_stream_does_not_hold_up_that_of_the_allocation)
{
    tarn_resource *pool = serve(0);
    tarn_stream one = new_stream(), other = new_stream();
    struct gate gate;
    void *block = allocate(one);

    hold_up(other, &gate);
    tarn_torch_record_stream(block, other);
    deallocate(block, one);
    void *next = allocate(one);
    CU(cuMemsetD8Async((uintptr_t)next, 1, BYTES, one));
    CU(cuStreamSynchronize(one));
    let_on(&gate);
    poll();
    deallocate(next, one);
    end_service(pool);
    CU(cuStreamDestroy_v2(one));
    CU(cuStreamDestroy_v2(other));
}

static void *open_later(void *data)
{
    usleep(50000);
    let_through(data);
    return NULL;
}

TEST(memory_that_waits_for_a_stream_is_had_before_out_of_memory)
{
    tarn_resource *pool = serve(4 * MIB);
    tarn_stream one = new_stream(), other = new_stream();
    struct gate gate;
    pthread_t thread;
    void *block = allocate(one);

    hold_up(other, &gate);
    tarn_torch_record_stream(block, other);
    deallocate(block, one);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, open_later, &gate));
    void *again = allocate(one); /* the pool has no other memory */
    CHECK(again == block);
    pthread_join(thread, NULL);
    CHECK_EQUAL(1, counts().retries);
    CHECK_EQUAL(0, counts().out_of_memory);
    deallocate(again, one);
    end_service(pool);
    CU(cuStreamDestroy_v2(one));
    CU(cuStreamDestroy_v2(other));
}

TEST(block_whose_free_fails_is_freed_by_a_later_call)
{
    struct scripted script;

    use_driver(0);
    scripted_begin(&script, 0);
    CHECK_OK(tarn_torch_set_resource(0, script.resource));
    void *block = allocate(NULL);
    script.free_fails = TARN_DRIVER_FAILURE;
    deallocate(block, NULL);
    CHECK(script.frees >= 1);
    CHECK_EQUAL(BYTES, active_bytes());
    CHECK_EQUAL(0, counts().allocations[TARN_TORCH_ALL].current);
    script.free_fails = TARN_OK;
    poll();
    CHECK_EQUAL(0, active_bytes());
    CHECK_OK(tarn_torch_set_resource(0, NULL));
    CHECK_OK(tarn_torch_reset_totals(0));
    scripted_end(&script);
}

/* --- captures --- */

static void *end_capture(tarn_stream stream)
{
    void *graph = NULL, *exec = NULL;

    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cuGraphDestroy(graph)); /* as PyTorch does */
    return exec;
}

/* The driver reports the end of a graph on a thread of its own, with a delay. An allocation
 * that grows the pool notices it. */
static void look_for_ended_graphs(tarn_resource *pool)
{
    usleep(20000);
    put(pool, take(pool, 64 * MIB, NULL), 64 * MIB, NULL);
    CHECK_OK(tarn_resource_trim(pool, 0, NULL));
}

static void until_captured_is(tarn_resource *pool, uint64_t bytes)
{
    for (int i = 0; i < 100 && statistics(pool).captured != bytes; i++) {
        look_for_ended_graphs(pool);
    }
    CHECK_EQUAL(bytes, statistics(pool).captured);
}

TEST(graphs_of_one_pool_keep_their_memory_until_the_last_release)
{
    tarn_resource *pool = serve(0);
    tarn_stream stream = new_stream();
    void *execs[2];

    for (int i = 0; i < 2; i++) {
        tarn_torch_begin_graph_pool(0, ONE, NULL);
        CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
        void *block = allocate(stream);
        CU(cuMemsetD8Async((uintptr_t)block, 1, BYTES, stream));
        deallocate(block, stream);
        execs[i] = end_capture(stream);
        tarn_torch_end_graph_pool(0, ONE);
    }
    CHECK_EQUAL(2 * BYTES, statistics(pool).captured);
    tarn_torch_release_graph_pool(0, ONE);
    CU(cuGraphExecDestroy(execs[0]));
    look_for_ended_graphs(pool);
    CHECK_EQUAL(2 * BYTES, statistics(pool).captured);
    CU(cuGraphLaunch(execs[1], stream));
    tarn_torch_release_graph_pool(0, ONE);
    CHECK_EQUAL(0, statistics(pool).captured);
    CHECK_EQUAL(2 * BYTES, statistics(pool).no_stream_deferred);
    CU(cuGraphExecDestroy(execs[1]));
    CU(cuStreamSynchronize(stream));
    end_service(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* Without a pool of graphs, the end of the graph is enough. */
TEST(capture_outside_of_a_pool_ends_with_its_graph)
{
    tarn_resource *pool = serve(0);
    tarn_stream stream = new_stream();

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    void *block = allocate(stream);
    CU(cuMemsetD8Async((uintptr_t)block, 1, BYTES, stream));
    deallocate(block, stream);
    void *exec = end_capture(stream);
    CHECK_EQUAL(BYTES, statistics(pool).captured);
    CU(cuGraphExecDestroy(exec));
    until_captured_is(pool, 0);
    end_service(pool);
    CU(cuStreamDestroy_v2(stream));
}

/* It cannot be told which of two pools a capture is for. */
TEST(capture_with_two_open_pools_stays_until_both_are_released)
{
    tarn_resource *pool = serve(0);
    tarn_stream stream = new_stream();

    tarn_torch_begin_graph_pool(0, ONE, NULL);
    tarn_torch_begin_graph_pool(0, TWO, NULL);
    CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    void *block = allocate(stream);
    CU(cuMemsetD8Async((uintptr_t)block, 1, BYTES, stream));
    deallocate(block, stream);
    void *exec = end_capture(stream);
    tarn_torch_end_graph_pool(0, ONE);
    tarn_torch_end_graph_pool(0, TWO);
    CU(cuGraphExecDestroy(exec));
    tarn_torch_release_graph_pool(0, ONE);
    look_for_ended_graphs(pool);
    CHECK_EQUAL(BYTES, statistics(pool).captured);
    tarn_torch_release_graph_pool(0, TWO);
    CHECK_EQUAL(0, statistics(pool).captured);
    end_service(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(block_that_a_capture_allocated_stays_with_it_also_with_a_recorded_stream)
{
    tarn_resource *pool = serve(0);
    tarn_stream stream = new_stream(), other = new_stream();

    tarn_torch_begin_graph_pool(0, ONE, NULL);
    CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    void *block = allocate(stream);
    CU(cuMemsetD8Async((uintptr_t)block, 1, BYTES, stream));
    tarn_torch_record_stream(block, other);
    deallocate(block, stream);
    CHECK_EQUAL(0, active_bytes());
    CHECK_EQUAL(BYTES, statistics(pool).captured);
    void *next = allocate(stream);
    CHECK(next != block); /* `other` may use it */
    void *exec = end_capture(stream);
    tarn_torch_end_graph_pool(0, ONE);
    tarn_torch_record_stream(next, other);
    deallocate(next, stream); /* after the capture */
    CHECK_EQUAL(2 * BYTES, statistics(pool).captured);
    tarn_torch_release_graph_pool(0, ONE);
    CU(cuGraphExecDestroy(exec));
    CHECK_EQUAL(0, statistics(pool).captured);
    end_service(pool);
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
}

TEST(block_that_a_recorded_stream_uses_in_a_capture_stays_with_the_graph)
{
    tarn_resource *pool = serve(0);
    tarn_stream stream = new_stream(), other = new_stream();
    void *block = allocate(other);

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    CU(cuMemsetD8Async((uintptr_t)block, 1, BYTES, stream));
    tarn_torch_record_stream(block, stream);
    deallocate(block, other);
    CHECK_EQUAL(0, active_bytes());
    CHECK_EQUAL(BYTES, statistics(pool).captured);
    void *exec = end_capture(stream);
    CU(cuGraphExecDestroy(exec));
    until_captured_is(pool, 0);
    end_service(pool);
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
}

TEST(release_of_an_unknown_pool_does_nothing)
{
    tarn_resource *pool = serve(0);

    tarn_torch_release_graph_pool(0, ONE);
    tarn_torch_end_graph_pool(0, ONE);
    tarn_torch_begin_graph_pool(0, ONE, NULL);
    tarn_torch_release_graph_pool(0, ONE);
    tarn_torch_end_graph_pool(0, ONE);
    void *block = allocate(NULL);
    deallocate(block, NULL);
    end_service(pool);
}
