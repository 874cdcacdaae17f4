/* Test remembered waits: a stream that waited for an event fence does not wait again for
 * the frees that the fence covers, and waits for all later ones.
 */
#include "steps.h"
#include "pool/cache/thread_cache.h"
#include <unistd.h>

/* A pool of four blocks of 1 MiB, a registered source stream and a consumer stream. */
enum { BLOCKS = 4, NOT_READY = 600 };

static struct {
    tarn_resource *resource;
    struct tarn__pool *pool;
    tarn_stream raw, source, consumer;
    tarn_device_ptr block[BLOCKS];
    bool is_out[BLOCKS];
} at;

static int (*stream_query)(tarn_stream stream);

static void lay_out(void)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .initial_bytes = BLOCKS * MIB,
                                       .maximum_bytes = BLOCKS * MIB,
                                       .oom_policy = TARN_POOL_OOM_FAIL};

    use_driver(0);
    find_call("cuStreamQuery", &stream_query);
    at.resource = new_pool(&options);
    CHECK_OK(tarn__pool_of(at.resource, "pool", &at.pool));
    at.consumer = new_stream();
    at.raw = new_stream();
    CHECK_OK(tarn_stream_register(0, at.raw, &at.source));
    for (int i = 0; i < BLOCKS; i++) {
        at.block[i] = take(at.resource, MIB, at.consumer);
        at.is_out[i] = true;
    }
}

static void clear_away(void)
{
    for (int i = 0; i < BLOCKS; i++)
        if (at.is_out[i])
            put(at.resource, at.block[i], MIB, at.consumer);
    adds_up(at.resource);
    CHECK_OK(tarn_stream_unregister(at.source));
    CU(cuStreamDestroy_v2(at.raw));
    CU(cuStreamDestroy_v2(at.consumer));
    end_pool(at.resource);
}

/* The source stream writes the block and frees it, into the heap. */
static void give(int block)
{
    CU(cuMemsetD8Async(at.block[block], 1, MIB, at.raw));
    put(at.resource, at.block[block], MIB, at.source);
    at.is_out[block] = false;
    tarn__thread_caches_drain(at.pool);
}

static void *give_first(void *unused)
{
    (void)unused;
    give(0);
    return NULL;
}

static tarn__index steal(tarn_stream stream)
{
    return step(at.pool, tarn__steal, MIB, stream);
}

static uint64_t waits(void)
{
    return statistics(at.resource).stream_waits;
}

/* The consumer writes after all that the source stream did with the memory. */
static void is_ordered(tarn__index index, struct gate *gate)
{
    unsigned char byte = 0;
    tarn_device_ptr address = tarn__node(&at.pool->heap.nodes, index)->address;

    CHECK(index != 0);
    CU(cuMemsetD8Async(address, 2, MIB, at.consumer));
    for (int i = 0; i < 10; i++) {
        CHECK_EQUAL(NOT_READY, stream_query(at.consumer));
        usleep(1000);
    }
    let_on(gate);
    CU(cuMemcpyDtoH_v2(&byte, address, 1));
    CHECK_EQUAL(2, byte);
}

TEST(one_wait_serves_all_frees_that_its_fence_covers)
{
    struct gate gate;
    tarn__index index[3];

    lay_out();
    hold_up(at.raw, &gate);
    give(0);
    give(2);
    fence_sources(at.pool, at.consumer);
    give(3);
    fence_sources(at.pool, at.consumer);
    for (int i = 0; i < 3; i++)
        index[i] = steal(at.consumer);
    CHECK(waits() <= 2); /* 1 if the first was of the younger epoch */
    uint64_t before = waits();
    CHECK_EQUAL(3, statistics(at.resource).steals);
    is_ordered(index[2], &gate);
    for (int i = 0; i < 3; i++)
        return_it(at.pool, index[i], at.consumer);
    CHECK_EQUAL(before, waits());
    clear_away();
}

TEST(frees_after_the_wait_need_another_one)
{
    struct gate gate;

    lay_out();
    hold_up(at.raw, &gate);
    give(0);
    fence_sources(at.pool, at.consumer);
    return_it(at.pool, steal(at.consumer), at.consumer);
    CHECK_EQUAL(1, waits());
    let_on(&gate);
    hold_up(at.raw, &gate);
    give(2);
    fence_sources(at.pool, at.consumer);
    tarn__index index = steal(at.consumer);
    CHECK_EQUAL(2, waits());
    is_ordered(index, &gate);
    return_it(at.pool, index, at.consumer);
    clear_away();
}

TEST(run_of_neighbours_needs_no_wait_that_was_made)
{
    struct gate gate;

    lay_out();
    hold_up(at.raw, &gate);
    for (int i = 0; i < 3; i++)
        give(i);
    fence_sources(at.pool, at.consumer);
    tarn__index index = steal(at.consumer);
    CHECK_EQUAL(1, waits());
    tarn__index run = step(at.pool, tarn__steal_run, 2 * MIB, at.consumer);
    CHECK_EQUAL(1, waits());
    CHECK_EQUAL(2, statistics(at.resource).steals);
    is_ordered(run, &gate);
    return_it(at.pool, index, at.consumer);
    return_it(at.pool, run, at.consumer);
    clear_away();
}

TEST(wait_of_one_stream_is_not_another_streams)
{
    tarn_stream third;
    struct gate gate;

    lay_out();
    third = new_stream();
    hold_up(at.raw, &gate);
    give(0);
    give(2);
    fence_sources(at.pool, at.consumer);
    tarn__index one = steal(third);
    tarn__index two = steal(at.consumer);
    CHECK_EQUAL(2, waits());
    is_ordered(two, &gate);
    return_it(at.pool, one, third);
    return_it(at.pool, two, at.consumer);
    CU(cuStreamDestroy_v2(third));
    clear_away();
}

TEST(wait_that_failed_is_not_remembered)
{
    struct gate gate;

    lay_out();
    if (!on_sim())
        skip();
    hold_up(at.raw, &gate);
    give(0);
    give(2);
    fence_sources(at.pool, at.consumer);
    sim_configure("fail=call:cuStreamWaitEvent:1");
    CHECK_EQUAL(0, steal(at.consumer));
    sim_configure(NULL);
    tarn__index index = steal(at.consumer);
    CHECK_EQUAL(2, waits());
    is_ordered(index, &gate);
    return_it(at.pool, index, at.consumer);
    clear_away();
}

/* The stream keeps its id, but gets another stream state, whose epochs are not those that
 * the consumer waited for. */
TEST(wait_for_a_stream_state_that_was_deleted_is_not_for_the_next_one)
{
    struct gate gate;
    pthread_t thread; /* it ends, so that no thread cache keeps the stream state */

    lay_out();
    hold_up(at.raw, &gate);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, give_first, NULL));
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    fence_sources(at.pool, at.consumer);
    uint64_t streams = statistics(at.resource).streams;
    tarn__index first = steal(at.consumer);
    CHECK_OK(tarn_stream_unregister(at.source));
    CHECK_EQUAL(streams - 1, statistics(at.resource).streams);
    let_on(&gate);
    CHECK_OK(tarn_stream_register(0, at.raw, &at.source));
    hold_up(at.raw, &gate);
    give(2);
    fence_sources(at.pool, at.consumer);
    CHECK_EQUAL(streams, statistics(at.resource).streams);
    tarn__index second = steal(at.consumer);
    CHECK_EQUAL(2, waits());
    is_ordered(second, &gate);
    return_it(at.pool, first, at.consumer);
    return_it(at.pool, second, at.consumer);
    clear_away();
}

/* The memory of another stream that a consumer has waited for is in no capture's order. */
TEST(capture_uses_no_remembered_wait)
{
    void *graph = NULL;
    struct gate gate;

    lay_out();
    hold_up(at.raw, &gate);
    give(0);
    give(2);
    fence_sources(at.pool, at.consumer);
    tarn__index index = steal(at.consumer);
    CU(cuStreamBeginCapture_v2(at.consumer, CAPTURE_RELAXED));
    CHECK_EQUAL(0, steal(at.consumer));
    CHECK_EQUAL(0, step(at.pool, tarn__steal_run, MIB, at.consumer));
    CU(cuStreamEndCapture(at.consumer, &graph));
    CU(cuGraphDestroy(graph));
    CHECK_EQUAL(1, statistics(at.resource).steals);
    let_on(&gate);
    return_it(at.pool, index, at.consumer);
    clear_away();
}

/* --- few driver calls --- */

/* Blocks are allocated on one stream and freed on another, whose work is not done. */
static void busy_pairs(bool is_registered)
{
    enum { PAIRS = 1000, DEPTH = 16, BYTES = 64 * KIB };
    tarn_device_ptr blocks[DEPTH];
    tarn_stream raw[2], stream[2];
    struct gate gate;

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    for (int i = 0; i < 2; i++) {
        stream[i] = raw[i] = new_stream();
        if (is_registered)
            CHECK_OK(tarn_stream_register(0, raw[i], &stream[i]));
    }
    hold_up(raw[0], &gate);
    for (int i = 0; i < DEPTH; i++)
        blocks[i] = take(pool, BYTES, stream[1]);
    tarn_pool_statistics before = {0}, after = {0};
    for (int i = 0; i < 2 * PAIRS; i++) {
        if (i == PAIRS)
            before = statistics(pool);
        put(pool, blocks[i % DEPTH], BYTES, stream[0]);
        blocks[i % DEPTH] = take(pool, BYTES, stream[1]);
    }
    after = statistics(pool);
    CHECK(after.driver_calls - before.driver_calls <= 50);
    CHECK(after.steals - before.steals > PAIRS / 2);
    CHECK(after.reserved <= 64 * MIB);
    for (int i = 0; i < DEPTH; i++)
        put(pool, blocks[i], BYTES, stream[1]);
    let_on(&gate);
    for (int i = 0; i < 2; i++) {
        if (is_registered)
            CHECK_OK(tarn_stream_unregister(stream[i]));
        CU(cuStreamDestroy_v2(raw[i]));
    }
    end_pool(pool);
}

TEST(busy_producer_and_consumer_need_few_driver_calls)
{
    busy_pairs(false);
    busy_pairs(true);
}

TEST(registered_streams_in_turn_need_no_waits)
{
    enum { STREAMS = 8, PAIRS = 1600 };
    tarn_stream raw[STREAMS], stream[STREAMS];

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    for (int i = 0; i < STREAMS; i++) {
        raw[i] = new_stream();
        CHECK_OK(tarn_stream_register(0, raw[i], &stream[i]));
    }
    for (int i = 0; i < PAIRS; i++)
        put(pool, take(pool, MIB, stream[i % STREAMS]), MIB, stream[i % STREAMS]);
    CHECK_EQUAL(0, statistics(pool).stream_waits);
    CHECK(statistics(pool).reserved <= 2 * STREAMS * MIB);
    for (int i = 0; i < STREAMS; i++) {
        CHECK_OK(tarn_stream_unregister(stream[i]));
        CU(cuStreamDestroy_v2(raw[i]));
    }
    end_pool(pool);
}
