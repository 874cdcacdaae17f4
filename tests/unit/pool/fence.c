/* Test event fences: when the pool records and queries them, and which memory they
 * complete. */
#define _GNU_SOURCE
#include "child.h"
#include "steps.h"
#include "pool/order/fences_poll.h"
#include <stdatomic.h>
#include <unistd.h>

enum { BUSY = 40 }; /* more streams than one round of queries covers */

/* A GPU runs the host functions of all streams in sequence, and has fewer queues than
 * these streams. There the one completed stream would never complete. */
static void needs_the_simulator(void)
{
    if (!has_sim())
        skip();
}

/* One stream is completed, and others are behind. Each has freed 2 MiB, of which an event
 * fence covers more than half. */
struct field {
    tarn_resource *pool;
    tarn_stream done, behind[BUSY];
    struct gate gate[BUSY];
};

/* A no-stream allocation gets completed memory alone. The test frees the block on a
 * stream: a no-stream free would wait for the streams that are held up. */
static bool none_is_done(tarn_resource *pool, size_t bytes, tarn_stream back)
{
    tarn_device_ptr block;
    tarn_status status = tarn_resource_allocate(pool, bytes, 0, TARN_STREAM_NONE, &block);

    if (status == TARN_OK)
        put(pool, block, bytes, back);
    return status == TARN_OUT_OF_MEMORY;
}

/* A miss of another stream requests an event fence of this stream, which records it at
 * its next call. */
static void have_fenced(tarn_resource *pool, tarn_stream stream)
{
    put(pool, take(pool, 64 * KIB, stream), 64 * KIB, stream);
}

static void lay_out(struct field *field)
{
    tarn_device_ptr first, blocks[BUSY];

    use_driver(0);
    field->pool = strict_pool((BUSY + 1) * 2 * MIB);
    field->done = new_stream();
    first = take(field->pool, 2 * MIB, field->done);
    for (int i = 0; i < BUSY; i++) {
        field->behind[i] = new_stream();
        hold_up(field->behind[i], &field->gate[i]);
        blocks[i] = take(field->pool, 2 * MIB, field->behind[i]);
    }
    put(field->pool, first, 2 * MIB, field->done);
    for (int i = 0; i < BUSY; i++)
        put(field->pool, blocks[i], 2 * MIB, field->behind[i]);
}

/* The stream that completes last; otherwise the others would get its frees. */
static void fence_all(struct field *field)
{
    for (int i = 0; i < BUSY; i++)
        have_fenced(field->pool, field->behind[i]);
    have_fenced(field->pool, field->done);
    CU(cuStreamSynchronize(field->done));
}

static void clear_away(struct field *field)
{
    for (int i = 0; i < BUSY; i++)
        let_through(&field->gate[i]);
    CU(cuCtxSynchronize());
    for (int i = 0; i < BUSY; i++)
        CU(cuStreamDestroy_v2(field->behind[i]));
    CU(cuStreamDestroy_v2(field->done));
    end_pool(field->pool);
}

TEST(streams_that_are_behind_do_not_hide_one_that_is_done)
{
    static struct field field;
    bool before, after, more;

    needs_the_simulator();
    lay_out(&field);
    before = none_is_done(field.pool, MIB, field.done);
    fence_all(&field);
    after = none_is_done(field.pool, MIB, field.done);
    more = none_is_done(field.pool, 4 * MIB, field.done);
    clear_away(&field); /* before any check: streams that are held up outlive a failure */

    CHECK(before);
    CHECK(!after);
    CHECK(more);
}

/* A miss sends a bounded number of queries: each stream that is behind gets a few. */
TEST(streams_that_are_behind_are_asked_each_for_one_fence)
{
    static struct field field;
    uint64_t before, asked;

    needs_the_simulator();
    lay_out(&field);
    none_is_done(field.pool, MIB, field.done);
    fence_all(&field);
    none_is_done(field.pool, 4 * MIB, field.done);
    before = statistics(field.pool).queries;
    none_is_done(field.pool, 4 * MIB, field.done);
    asked = statistics(field.pool).queries - before;
    clear_away(&field);

    CHECK(asked >= BUSY);
    CHECK(asked <= 4 * BUSY);
}

TEST(all_fences_of_a_stream_are_seen_once_they_are_done)
{
    enum { FENCES = 12 };
    tarn_device_ptr blocks[FENCES];
    struct gate gate;
    unsigned nothing = 0;

    use_driver(0);
    tarn_resource *pool = strict_pool(FENCES * 2 * MIB);
    tarn_stream stream = new_stream();
    for (int i = 0; i < FENCES; i++)
        blocks[i] = take(pool, 2 * MIB, stream);
    hold_up(stream, &gate);
    for (int i = 0; i < FENCES; i++) {
        put(pool, blocks[i], 2 * MIB, stream);
        nothing += none_is_done(pool, MIB, stream);
        have_fenced(pool, stream);
    }
    let_on(&gate);

    CHECK_EQUAL(FENCES, nothing);
    CHECK(statistics(pool).events_recorded >= 2);
    CHECK(!none_is_done(pool, (FENCES - 2) * 2 * MIB, stream));
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}

/* A miss then searches again, before it takes memory of other streams. Polls in vain have the
 * next ones skip the stream. */
TEST(poll_tells_whether_an_event_is_complete)
{
    enum { POLLS = 32 };
    struct tarn__pool *inner;
    struct gate gate;
    unsigned seen = 0;

    use_driver(0);
    tarn_resource *pool = strict_pool(8 * MIB);
    tarn_stream stream = new_stream();
    CHECK_OK(tarn__pool_of(pool, "test", &inner));
    tarn_device_ptr block = take(pool, 4 * MIB, stream);
    CHECK(!tarn__fences_poll(inner, 1)); /* there is none */
    hold_up(stream, &gate);
    put(pool, block, 4 * MIB, stream);
    none_is_done(pool, MIB, stream);
    have_fenced(pool, stream);
    for (int i = 0; i < POLLS; i++)
        seen += tarn__fences_poll(inner, 1);
    let_on(&gate);
    CHECK_EQUAL(0, seen);
    CHECK(statistics(pool).events_recorded > 0);
    for (int i = 0; i < POLLS && seen == 0; i++)
        seen += tarn__fences_poll(inner, 1);
    CHECK_EQUAL(1, seen);
    CHECK(!none_is_done(pool, MIB, stream));
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}

/* --- streams that are idle --- */

TEST(stream_that_is_idle_is_asked_and_needs_no_event)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    tarn_stream stream = new_stream();

    for (unsigned i = 0; i < 2; i++) {
        put(pool, take(pool, 2 * MIB, stream), 2 * MIB, stream);
        CHECK(none_is_done(pool, MIB, stream));
        tarn_pool_statistics before = statistics(pool);
        have_fenced(pool, stream);
        tarn_pool_statistics after = statistics(pool);

        CHECK_EQUAL(1, after.queries - before.queries);
        /* the query, and once cuStreamGetFlags */
        CHECK_EQUAL(before.driver_calls + (i == 0 ? 2 : 1), after.driver_calls);
        CHECK(!none_is_done(pool, MIB, stream));
    }
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}

/* After a negative answer the pool queries a stream again after one fence, three, seven.
 */
TEST(stream_that_is_behind_is_asked_seldom_whether_it_is_idle)
{
    enum { FENCES = 12, ASKED = 3 };
    tarn_device_ptr blocks[FENCES];
    struct gate gate;
    uint64_t asked = 0, fences = 0;

    use_driver(0);
    tarn_resource *pool = strict_pool(FENCES * 2 * MIB);
    tarn_stream stream = new_stream();
    for (int i = 0; i < FENCES; i++)
        blocks[i] = take(pool, 2 * MIB, stream);
    hold_up(stream, &gate);
    for (int i = 0; i < FENCES; i++) {
        tarn_pool_statistics start = statistics(pool);
        put(pool, blocks[i], 2 * MIB, stream); /* it may exceed the bound */
        tarn_pool_statistics freed = statistics(pool);
        none_is_done(pool, MIB, stream);
        tarn_pool_statistics before = statistics(pool);
        have_fenced(pool, stream);
        tarn_pool_statistics after = statistics(pool);
        asked += freed.queries - start.queries + after.queries - before.queries;
        fences += freed.events_recorded - start.events_recorded + after.events_recorded -
                  before.events_recorded;
    }
    let_on(&gate);

    CHECK(fences >= FENCES / 2);
    CHECK(asked <= 2 * ASKED); /* queries of an older fence are as rare */
    CU(cuStreamSynchronize(stream));
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}

/* It has nothing queued, but its frees are ordered behind the work of the legacy stream.
 */
TEST(blocking_stream_is_not_asked_since_the_legacy_stream_may_be_behind)
{
    tarn_stream stream;
    struct gate gate;

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    CU(cuStreamCreate(&stream, 0));
    tarn_device_ptr block = take(pool, 2 * MIB, stream);
    hold_up(TARN_STREAM_LEGACY, &gate);
    int written = cu.cuMemsetD8Async(block, 1, 2 * MIB, TARN_STREAM_LEGACY);
    put(pool, block, 2 * MIB, stream);
    bool before = none_is_done(pool, MIB, stream);
    have_fenced(pool, stream);
    bool behind = none_is_done(pool, MIB, stream);
    let_on(&gate);
    CU(cuCtxSynchronize());
    bool after = none_is_done(pool, MIB, stream);

    CHECK_EQUAL(0, written);
    CHECK(before && behind && !after);
    CHECK(statistics(pool).events_recorded > 0);
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}

/* --- a capture that begins while another stream searches for memory --- */

struct search {
    tarn_resource *pool;
    tarn_stream stream;
    tarn_device_ptr block;
    atomic_bool has_begun;
};

/* Find only memory that a registered stream has freed, for which the pool records an
 * event fence there. */
static void *search_on_another(void *data)
{
    struct search *search = data;

    atomic_store(&search->has_begun, true);
    if (tarn_resource_allocate(search->pool, 2 * MIB, 0, search->stream,
                               &search->block) != TARN_OK)
        search->block = 0;
    return NULL;
}

/* The driver's record is slow, so that it runs while the capture is announced. */
TEST(fence_that_is_being_recorded_does_not_get_into_a_capture_that_is_announced)
{
    struct search search = {.block = 0};
    tarn_stream raw, opened;
    pthread_t thread;
    void *graph = NULL;
    int state = 9;

    use_driver(0);
    if (!on_sim())
        skip();
    search.pool = strict_pool(2 * MIB);
    raw = new_stream();
    search.stream = new_stream();
    CHECK_OK(tarn_stream_register(0, raw, &opened));
    put(search.pool, take(search.pool, 2 * MIB, opened), 2 * MIB, opened);
    sim_configure("slow=cuEventRecord:100000000");
    int error = pthread_create(&thread, NULL, search_on_another, &search);
    if (error)
        sim_configure(NULL); /* for the next tests, too */
    CHECK_EQUAL(0, error);
    while (!atomic_load(&search.has_begun))
        sched_yield();
    usleep(20000);
    CHECK_OK(tarn_stream_announce_capture(opened, true));
    CU(cuStreamBeginCapture_v2(raw, CAPTURE_RELAXED));
    pthread_join(thread, NULL);
    CU(cuStreamIsCapturing(search.stream, &state));
    int ended = cu.cuStreamEndCapture(raw, &graph);
    CHECK_OK(tarn_stream_announce_capture(opened, false));
    sim_configure(NULL);
    CHECK_EQUAL(0, state);
    CHECK_EQUAL(0, ended);
    CU(cuGraphDestroy(graph));
    if (search.block)
        put(search.pool, search.block, 2 * MIB, search.stream);
    CHECK_OK(tarn_stream_unregister(opened));
    CU(cuStreamDestroy_v2(raw));
    CU(cuStreamDestroy_v2(search.stream));
    end_pool(search.pool);
}

/* No event was recorded, so nothing tells that the stream is done. */
TEST(record_that_fails_on_a_stream_of_others_makes_no_fence)
{
    tarn_stream raw, opened;
    tarn_device_ptr block = 0;
    struct gate gate;

    use_driver(0);
    if (!on_sim())
        skip();
    tarn_resource *pool = strict_pool(2 * MIB);
    raw = new_stream();
    tarn_stream other = new_stream();
    CHECK_OK(tarn_stream_register(0, raw, &opened));
    hold_up(raw, &gate);
    put(pool, take(pool, 2 * MIB, opened), 2 * MIB, opened);
    sim_configure("fail=call:cuEventRecord");
    tarn_status first = tarn_resource_allocate(pool, 2 * MIB, 0, other, &block);
    tarn_status second = tarn_resource_allocate(pool, 2 * MIB, 0, other, &block);
    sim_configure(NULL);
    let_on(&gate);
    CHECK_EQUAL(TARN_OUT_OF_MEMORY, first);
    CHECK_EQUAL(TARN_OUT_OF_MEMORY, second);
    CHECK_OK(tarn_stream_unregister(opened));
    CU(cuStreamDestroy_v2(raw));
    CU(cuStreamDestroy_v2(other));
    end_pool(pool);
}

/* Streams that find memory immediately record few event fences. Large blocks must not
 * pile up without a fence meanwhile, since no other stream can use them. */
TEST(large_blocks_of_several_streams_are_fenced_within_their_bound)
{
    enum { STREAMS = 4, BLOCKS = 10, ROUNDS = 400 };
    const size_t bytes = 40 * MIB;
    tarn_stream streams[STREAMS];
    tarn_device_ptr blocks[STREAMS][BLOCKS];
    uint64_t pending = 0, bound = 0;

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = new_stream();
        for (int j = 0; j < BLOCKS; j++)
            blocks[i][j] = take(pool, bytes, streams[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int j = 0; j < BLOCKS; j++)
            for (int i = 0; i < STREAMS; i++)
                put(pool, blocks[i][j], bytes, streams[i]);
        tarn_pool_statistics all = statistics(pool);
        pending = all.unfenced > pending ? all.unfenced : pending;
        bound = all.reserved / 4 + bytes; /* the first ones may have more than a share */
        for (int j = 0; j < BLOCKS; j++)
            for (int i = 0; i < STREAMS; i++)
                blocks[i][j] = take(pool, bytes, streams[i]);
    }
    CHECK(pending > 0);
    CHECK(pending <= bound);
    for (int i = 0; i < STREAMS; i++) {
        for (int j = 0; j < BLOCKS; j++)
            put(pool, blocks[i][j], bytes, streams[i]);
        CU(cuStreamDestroy_v2(streams[i]));
    }
    end_pool(pool);
}

/* Blocks that stay with their stream, without an event fence. Each has another size, so
 * that the thread cache keeps the last one alone. */
static void leave_some(tarn_resource *pool, tarn_stream stream)
{
    enum { SOME = 8 };
    tarn_device_ptr blocks[SOME];

    for (size_t i = 0; i < SOME; i++)
        blocks[i] = take(pool, MIB + i * 64 * KIB, stream);
    for (size_t i = 0; i < SOME; i++)
        put(pool, blocks[i], MIB + i * 64 * KIB, stream);
}

/* It alone exceeds the bound when two more streams have memory. The pool does not drop
 * the block that a thread cache keeps for the next round. */
TEST(loop_over_a_large_block_on_a_raw_stream_is_not_fenced_among_others)
{
    enum { OTHERS = 3, WARM = 50, ROUNDS = 500 };
    const size_t bytes = 1024 * MIB;
    tarn_stream others[OTHERS], stream;

    use_driver(0);
    tarn_resource *pool = new_pool(NULL);
    stream = new_stream();
    put(pool, take(pool, bytes, stream), bytes, stream);
    for (int i = 0; i < OTHERS; i++) {
        others[i] = new_stream();
        leave_some(pool, others[i]);
    }
    CHECK(statistics(pool).unfenced >= OTHERS * MIB);
    for (int i = 0; i < WARM; i++)
        put(pool, take(pool, bytes, stream), bytes, stream);
    tarn_pool_statistics before = statistics(pool);
    for (int i = 0; i < ROUNDS; i++)
        put(pool, take(pool, bytes, stream), bytes, stream);
    tarn_pool_statistics after = statistics(pool);

    CHECK_EQUAL(before.events_recorded, after.events_recorded);
    CHECK_EQUAL(before.driver_calls, after.driver_calls);
    CHECK_EQUAL(ROUNDS, after.cache_hits - before.cache_hits);
    CHECK(after.unfenced >= OTHERS * MIB); /* they have had theirs all the time */
    for (int i = 0; i < OTHERS; i++)
        CU(cuStreamDestroy_v2(others[i]));
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}
