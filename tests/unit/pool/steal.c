/* Test cross-stream reuse behind a wait: steps of the allocation path, called one by one.
 */
#include "steps.h"
#include "pool/blocks/take.h"
#include "pool/cache/thread_cache.h"
#include <unistd.h>

/* A pool, registered source streams, so that a consumer can request event fences of them,
 * and one consumer stream. */
enum { SOURCES = 2, BLOCKS = 6, POOL_MIB = 256 };

static struct {
    tarn_resource *resource;
    struct tarn__pool *pool;
    tarn_stream raw[SOURCES], source[SOURCES], consumer;
    tarn_device_ptr block[BLOCKS]; /* 1 MiB each, side by side */
    bool is_out[BLOCKS];
    tarn_device_ptr rest; /* so that no memory is free */
} at;

static int (*stream_query)(tarn_stream stream);

static void lay_out(void)
{
    /* A bound so high that the amount of memory causes no fence. */
    const tarn_pool_options options = {.size = sizeof options,
                                       .initial_bytes = POOL_MIB * MIB,
                                       .maximum_bytes = POOL_MIB * MIB,
                                       .oom_policy = TARN_POOL_OOM_FAIL};

    use_driver(0);
    find_call("cuStreamQuery", &stream_query);
    at.resource = new_pool(&options);
    CHECK_OK(tarn__pool_of(at.resource, "pool", &at.pool));
    at.consumer = new_stream();
    for (int i = 0; i < SOURCES; i++) {
        at.raw[i] = new_stream();
        CHECK_OK(tarn_stream_register(0, at.raw[i], &at.source[i]));
    }
    for (int i = 0; i < BLOCKS; i++) {
        at.block[i] = take(at.resource, MIB, at.consumer);
        at.is_out[i] = true;
        CHECK_EQUAL(at.block[0] + (size_t)i * MIB, at.block[i]);
    }
    at.rest = take(at.resource, (POOL_MIB - BLOCKS) * MIB, at.consumer);
    CHECK_EQUAL(0, statistics(at.resource).cached);
}

static void clear_away(void)
{
    for (int i = 0; i < BLOCKS; i++)
        if (at.is_out[i])
            put(at.resource, at.block[i], MIB, at.consumer);
    put(at.resource, at.rest, (POOL_MIB - BLOCKS) * MIB, at.consumer);
    adds_up(at.resource);
    for (int i = 0; i < SOURCES; i++) {
        if (at.source[i])
            CHECK_OK(tarn_stream_unregister(at.source[i]));
        CU(cuStreamDestroy_v2(at.raw[i]));
    }
    CU(cuStreamDestroy_v2(at.consumer));
    end_pool(at.resource);
}

/* Into the heap, past the thread cache. */
static void give(int block, tarn_stream stream)
{
    put(at.resource, at.block[block], MIB, stream);
    at.is_out[block] = false;
    tarn__thread_caches_drain(at.pool);
}

static tarn_device_ptr address_of(tarn__index index)
{
    return tarn__node(&at.pool->heap.nodes, index)->address;
}

static uint64_t bytes_of(tarn__index index)
{
    return tarn__node_bytes(tarn__node(&at.pool->heap.nodes, index));
}

/* --- the pool's state for an address --- */

struct look {
    tarn_device_ptr address;
    tarn_pool_block found;
};

static bool look_at(void *data, const tarn_pool_block *block)
{
    struct look *look = data;
    bool is_it =
        look->address >= block->address && look->address < block->address + block->bytes;

    if (is_it)
        look->found = *block;
    return !is_it;
}

static void is_now(tarn_device_ptr address, tarn_pool_block_state state,
                   tarn_stream stream)
{
    struct look look = {.address = address};
    unsigned long long id = 0;

    CHECK_OK(tarn_pool_snapshot(at.resource, look_at, &look));
    CHECK_EQUAL(state, look.found.state);
    if (stream)
        CU(cuStreamGetId(tarn_stream_handle(stream), &id));
    CHECK_EQUAL(id, look.found.stream_id);
}

static void fill(tarn_device_ptr address, unsigned char value, tarn_stream stream)
{
    CU(cuMemsetD8Async(address, value, MIB, tarn_stream_handle(stream)));
}

/* No work of the consumer stream has run: it waits. */
static void consumer_waits(void)
{
    enum { NOT_READY = 600 };

    for (int i = 0; i < 10; i++) {
        CHECK_EQUAL(NOT_READY, stream_query(at.consumer));
        usleep(1000);
    }
}

static unsigned char byte_at(tarn_device_ptr address)
{
    unsigned char byte = 0;

    CU(cuMemcpyDtoH_v2(&byte, address, 1));
    return byte;
}

/* --- a block of one stream --- */

TEST(stolen_block_is_used_behind_all_that_its_source_queued)
{
    struct gate gate;

    lay_out();
    hold_up(at.raw[0], &gate);
    fill(at.block[0], 1, at.source[0]);
    give(0, at.source[0]);
    fence_sources(at.pool, at.consumer);
    tarn__index index = step(at.pool, tarn__steal, MIB, at.consumer);
    CHECK(index != 0);
    CHECK_EQUAL(at.block[0], address_of(index));
    fill(at.block[0], 2, at.consumer);
    consumer_waits();
    let_on(&gate);
    CHECK_EQUAL(2, byte_at(at.block[0]));
    CHECK_EQUAL(1, statistics(at.resource).steals);
    CHECK_EQUAL(1, statistics(at.resource).stream_waits);
    return_it(at.pool, index, at.consumer);
    clear_away();
}

TEST(nothing_is_stolen_that_no_fence_covers)
{
    lay_out();
    give(0, at.source[0]);
    CHECK_EQUAL(0, step(at.pool, tarn__steal, MIB, at.consumer));
    CHECK_EQUAL(0, step(at.pool, tarn__steal_run, MIB, at.consumer));
    CHECK_EQUAL(0, statistics(at.resource).steals);
    CHECK_EQUAL(0, statistics(at.resource).stream_waits);
    is_now(at.block[0], TARN_POOL_UNFENCED, at.source[0]);
    clear_away();
}

TEST(what_is_cut_off_a_stolen_block_stays_the_sources_behind_its_fence)
{
    tarn_stream third = new_stream();
    struct gate gate;

    lay_out();
    hold_up(at.raw[0], &gate);
    for (int i = 0; i < 3; i++)
        give(i, at.source[0]);
    fence_sources(at.pool, at.consumer);
    tarn__index one = step(at.pool, tarn__steal, MIB, at.consumer);
    CHECK(one != 0);
    CHECK_EQUAL(MIB, bytes_of(one));
    is_now(at.block[1], TARN_POOL_FENCED, at.source[0]);
    is_now(at.block[2], TARN_POOL_FENCED, at.source[0]);
    tarn__index two = step(at.pool, tarn__steal, MIB, third);
    CHECK(two != 0);
    CHECK_EQUAL(2, statistics(at.resource).stream_waits);
    return_it(at.pool, one, at.consumer);
    return_it(at.pool, two, third);
    let_on(&gate);
    CU(cuStreamDestroy_v2(third));
    clear_away();
}

/* The source stream's fence does not cover the consumer's use of the memory. */
TEST(stolen_block_that_is_freed_has_no_fence_until_the_consumer_has_one)
{
    lay_out();
    give(0, at.source[0]);
    fence_sources(at.pool, at.consumer);
    tarn__index index = step(at.pool, tarn__steal, MIB, at.consumer);
    CHECK(index != 0);
    return_it(at.pool, index, at.consumer);
    is_now(at.block[0], TARN_POOL_UNFENCED, at.consumer);
    CHECK_EQUAL(0, step(at.pool, tarn__steal, MIB, at.source[1]));
    clear_away();
}

TEST(block_whose_wait_fails_is_the_sources_again_without_a_fence)
{
    lay_out();
    if (!on_sim())
        skip();
    give(0, at.source[0]);
    fence_sources(at.pool, at.consumer);
    sim_configure("fail=call:cuStreamWaitEvent:1");
    CHECK_EQUAL(0, step(at.pool, tarn__steal, MIB, at.consumer));
    sim_configure(NULL);
    CHECK_EQUAL(0, statistics(at.resource).steals);
    CHECK_EQUAL(1, statistics(at.resource).stream_waits);
    is_now(at.block[0], TARN_POOL_UNFENCED, at.source[0]);
    adds_up(at.resource);
    CHECK_EQUAL(0, step(at.pool, tarn__steal, MIB, at.consumer));
    fence_sources(at.pool, at.consumer);
    tarn__index index = step(at.pool, tarn__steal, MIB, at.consumer);
    CHECK(index != 0);
    return_it(at.pool, index, at.consumer);
    clear_away();
}

/* --- callers that steal nothing --- */

static void steals_nothing(tarn_stream stream)
{
    CHECK_EQUAL(0, step(at.pool, tarn__steal, MIB, stream));
    CHECK_EQUAL(0, step(at.pool, tarn__steal_run, 2 * MIB, stream));
    CHECK_EQUAL(0, statistics(at.resource).steals);
    CHECK_EQUAL(0, statistics(at.resource).stream_waits);
}

/* The driver would end the capture: the fence is from before it. */
TEST(stream_that_captures_steals_nothing_and_captures_on)
{
    void *graph = NULL;

    lay_out();
    give(0, at.source[0]);
    give(1, at.source[1]);
    fence_sources(at.pool, at.consumer);
    CU(cuStreamBeginCapture_v2(at.consumer, CAPTURE_RELAXED));
    steals_nothing(at.consumer);
    CU(cuStreamEndCapture(at.consumer, &graph));
    CU(cuGraphDestroy(graph));
    clear_away();
}

/* A wait on the default stream ends the capture of a blocking one. */
TEST(default_stream_steals_nothing_while_a_blocking_one_captures)
{
    tarn_stream blocking;
    void *graph = NULL;

    lay_out();
    give(0, at.source[0]);
    give(1, at.source[1]);
    fence_sources(at.pool, at.consumer);
    CU(cuStreamCreate(&blocking, 0));
    CU(cuStreamBeginCapture_v2(blocking, CAPTURE_RELAXED));
    steals_nothing(TARN_STREAM_DEFAULT);
    CU(cuStreamEndCapture(blocking, &graph));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy_v2(blocking));
    tarn__index index = step(at.pool, tarn__steal, MIB, TARN_STREAM_DEFAULT);
    CHECK(index != 0);
    return_it(at.pool, index, at.consumer);
    clear_away();
}

TEST(nothing_is_stolen_from_a_pool_that_fell_asleep)
{
    lay_out();
    give(0, at.source[0]);
    give(1, at.source[1]);
    fence_sources(at.pool, at.consumer);
    atomic_fetch_or(&at.pool->lifecycle, TARN__POOL_SUSPENDED);
    steals_nothing(at.consumer);
    atomic_fetch_and(&at.pool->lifecycle, ~TARN__POOL_SUSPENDED);
    clear_away();
}

/* --- neighbours of several streams --- */

static struct gate gates[SOURCES];

/* Two blocks of one source stream and one of the other, both held up; one completed
 * block; and the consumer's own. */
static void give_neighbours(void)
{
    tarn_stream raw = new_stream(), opened;

    for (int i = 0; i < SOURCES; i++)
        hold_up(at.raw[i], &gates[i]);
    give(0, at.source[0]);
    give(1, at.source[1]);
    give(3, at.source[0]);
    CHECK_OK(tarn_stream_register(0, raw, &opened));
    give(2, opened);
    CHECK_OK(tarn_stream_unregister(opened));
    fence_sources(at.pool, at.consumer);
    CU(cuStreamSynchronize(raw));
    CU(cuStreamDestroy_v2(raw));
    tarn__fences_poll_all(at.pool);
    give(4, at.consumer);
    is_now(at.block[0], TARN_POOL_FENCED, at.source[0]);
    is_now(at.block[2], TARN_POOL_COMPLETED, NULL);
    is_now(at.block[4], TARN_POOL_UNFENCED, at.consumer);
}

static void let_sources_on(void)
{
    for (int i = 0; i < SOURCES; i++) { /* all of them, before a device-wide wait */
        let_through(&gates[i]);
    }
    CU(cuCtxSynchronize());
}

TEST(neighbours_are_had_behind_one_wait_for_each_stream)
{
    lay_out();
    give_neighbours();
    CHECK_EQUAL(0, step(at.pool, tarn__steal, 5 * MIB, at.consumer));
    tarn__index index = step(at.pool, tarn__steal_run, 5 * MIB - 64 * KIB, at.consumer);
    CHECK(index != 0);
    CHECK_EQUAL(at.block[0], address_of(index));
    CHECK_EQUAL(5 * MIB - 64 * KIB, bytes_of(index));
    CHECK_EQUAL(1, statistics(at.resource).steals);
    CHECK_EQUAL(2, statistics(at.resource).stream_waits);
    is_now(at.block[4] + MIB - 1, TARN_POOL_UNFENCED,
           at.consumer); /* the rest of the last */
    return_it(at.pool, index, at.consumer);
    is_now(at.block[0], TARN_POOL_UNFENCED, at.consumer);
    is_now(at.block[3], TARN_POOL_UNFENCED, at.consumer);
    let_sources_on();
    clear_away();
}

/* Whichever of the two is not completed. */
static void waits_for(int held)
{
    struct gate gate;

    lay_out();
    hold_up(at.raw[held], &gate);
    fill(at.block[held], 1, at.source[held]);
    give(0, at.source[0]);
    give(1, at.source[1]);
    fence_sources(at.pool, at.consumer);
    tarn__index index = step(at.pool, tarn__steal_run, 2 * MIB, at.consumer);
    CHECK(index != 0);
    fill(at.block[held], 2, at.consumer);
    consumer_waits();
    let_on(&gate);
    CHECK_EQUAL(2, byte_at(at.block[held]));
    return_it(at.pool, index, at.consumer);
    clear_away();
}

TEST(neighbours_are_used_behind_what_each_of_their_streams_queued)
{
    for (int i = 0; i < SOURCES; i++)
        waits_for(i);
}

/* Two blocks of one source stream, freed one after the other, each with a fence. The work
 * that used the later one is not done. */
static void waits_for_the_later(int earlier, int later)
{
    struct gate gate;

    lay_out();
    give(1, at.source[1]);
    give(earlier, at.source[0]);
    fence_sources(at.pool, at.consumer);
    hold_up(at.raw[0], &gate);
    fill(at.block[later], 1, at.source[0]);
    give(later, at.source[0]);
    fence_sources(at.pool, at.consumer);
    tarn__index index = step(at.pool, tarn__steal_run, 3 * MIB, at.consumer);
    CHECK(index != 0);
    CHECK_EQUAL(at.block[0], address_of(index));
    CHECK_EQUAL(2, statistics(at.resource).stream_waits);
    fill(at.block[later], 2, at.consumer);
    consumer_waits();
    let_on(&gate);
    CHECK_EQUAL(2, byte_at(at.block[later]));
    return_it(at.pool, index, at.consumer);
    clear_away();
}

TEST(wait_for_a_stream_covers_the_youngest_of_its_neighbours)
{
    waits_for_the_later(0, 2);
    waits_for_the_later(2, 0);
}

TEST(neighbours_of_which_a_wait_fails_go_back_to_whom_they_were)
{
    static const char *const faults[] = {"fail=call:cuStreamWaitEvent:1",
                                         "fail=call:cuStreamWaitEvent:2"};

    for (int i = 0; i < 2; i++) {
        lay_out();
        if (!on_sim())
            skip();
        give_neighbours();
        sim_configure(faults[i]);
        CHECK_EQUAL(0, step(at.pool, tarn__steal_run, 5 * MIB, at.consumer));
        sim_configure(NULL);
        CHECK_EQUAL(0, statistics(at.resource).steals);
        is_now(at.block[0], TARN_POOL_UNFENCED, at.source[0]);
        is_now(at.block[1], TARN_POOL_UNFENCED, at.source[1]);
        is_now(at.block[3], TARN_POOL_UNFENCED,
               at.source[0]); /* the completed one coalesced with it */
        is_now(at.block[4], TARN_POOL_UNFENCED, at.consumer);
        fence_sources(at.pool, at.consumer);
        tarn__index index = step(at.pool, tarn__steal_run, 5 * MIB, at.consumer);
        CHECK(index != 0);
        return_it(at.pool, index, at.consumer);
        let_sources_on();
        clear_away();
    }
}

/* --- source streams that ended --- */

static void *give_to(void *source)
{
    const tarn_stream *of = source;

    give((int)(of - at.source), *of);
    return NULL;
}

/* On a thread that ends, so that no thread cache knows the stream. */
static void give_and_end(int number)
{
    pthread_t thread;

    CHECK_EQUAL(0, pthread_create(&thread, NULL, give_to, &at.source[number]));
    CHECK_EQUAL(0, pthread_join(thread, NULL));
}

static void sources_go(void)
{
    for (int i = 0; i < SOURCES; i++) {
        CHECK_OK(tarn_stream_unregister(at.source[i]));
        at.source[i] = NULL;
    }
}

TEST(source_that_is_gone_is_forgotten_with_its_last_block)
{
    struct gate gate;

    lay_out();
    hold_up(at.raw[0], &gate);
    give_and_end(0);
    sources_go();
    uint64_t stream_states = statistics(at.resource).streams;
    tarn__index index = step(at.pool, tarn__steal, MIB / 2, at.consumer);
    CHECK_EQUAL(stream_states, statistics(at.resource).streams); /* it has the rest */
    tarn__index rest = step(at.pool, tarn__steal, MIB / 2, at.consumer);
    CHECK(index != 0 && rest != 0);
    CHECK_EQUAL(stream_states - 1, statistics(at.resource).streams);
    return_it(at.pool, index, at.consumer);
    return_it(at.pool, rest, at.consumer);
    let_on(&gate);
    clear_away();
}

TEST(sources_that_are_gone_are_forgotten_with_their_last_neighbours)
{
    lay_out();
    for (int i = 0; i < SOURCES; i++) {
        hold_up(at.raw[i], &gates[i]);
        give_and_end(i);
    }
    sources_go();
    uint64_t stream_states = statistics(at.resource).streams;
    tarn__index index = step(at.pool, tarn__steal_run, 2 * MIB, at.consumer);
    CHECK(index != 0);
    CHECK_EQUAL(stream_states - 2, statistics(at.resource).streams);
    return_it(at.pool, index, at.consumer);
    let_sources_on();
    clear_away();
}
