/* Test stream resolution: a stream of a context other than the primary one, and a stream
 * that captures without an announcement. */
#include "pools.h"

static int (*ctx_create)(void **out, unsigned flags, int device);
static int (*ctx_destroy)(void *context);
static int (*ctx_get_current)(void **out);

static tarn_resource *pool;
static tarn_stream own, foreign;

static void is_not_taken(tarn_device_ptr block)
{
    tarn_pool_capture *capture = NULL;
    tarn_device_ptr more = 77;
    tarn_stream opened = NULL;

    for (size_t bytes = 512; bytes <= 32 * MIB; bytes *= 256) {
        CHECK_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_allocate(pool, bytes, 0, foreign, &more));
        CHECK_MESSAGE("belongs to context");
    }
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(pool, block, MIB, 0, foreign));
    CHECK_MESSAGE("belongs to context");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_register(0, foreign, &opened));
    CHECK(tarn_pool_get_capture(pool, foreign, &capture) != TARN_OK);
    CHECK(more == 77 && !opened && !capture);
}

TEST(stream_of_another_context_is_refused_and_changes_nothing)
{
    void *context = NULL, *current = NULL, *graph = NULL;

    use_driver(0);
    find_call("cuCtxCreate_v2", &ctx_create);
    find_call("cuCtxDestroy_v2", &ctx_destroy);
    find_call("cuCtxGetCurrent", &ctx_get_current);
    pool = new_pool(NULL);
    own = new_stream();
    tarn_device_ptr block = take(pool, MIB, own);
    CHECK_EQUAL(0, ctx_create(&context, 0, 0)); /* and it is current from here on */
    foreign = new_stream();
    tarn_pool_statistics before = statistics(pool);
    is_not_taken(block);
    CU(cuStreamBeginCapture_v2(foreign, CAPTURE_RELAXED));
    is_not_taken(block);
    CU(cuStreamEndCapture(foreign, &graph)); /* it goes on, and ends without an error */
    CU(cuGraphDestroy(graph));
    CHECK_EQUAL(before.live, statistics(pool).live);
    CHECK_EQUAL(before.reserved, statistics(pool).reserved);
    CHECK_EQUAL(before.streams, statistics(pool).streams);
    CHECK_EQUAL(before.allocations, statistics(pool).allocations);
    put(pool, block, MIB, own);
    CHECK_EQUAL(0, ctx_get_current(&current));
    CHECK(current == context);
    adds_up(pool);
    CU(cuStreamDestroy_v2(foreign));
    CHECK_EQUAL(0, ctx_destroy(context));
    use_driver(0);
    end_pool(pool);
    CU(cuStreamDestroy_v2(own));
}

/* The owner of a registered stream has not announced the capture. Every call but a cache
 * hit notices it, and no call ends it. */
TEST(capture_that_was_not_announced_is_seen_where_it_is_no_hit)
{
    enum { WARM = 200 };
    tarn_stream opened;
    void *graph = NULL;
    int state = 0;

    use_driver(0);
    pool = new_pool(NULL);
    own = new_stream();
    CHECK_OK(tarn_stream_register(0, own, &opened));
    tarn_device_ptr small = take(pool, 4 * KIB, opened),
                    large = take(pool, 3 * MIB, opened);
    for (int i = 0; i < WARM; i++) {
        put(pool, small, 4 * KIB, opened);
        small = take(pool, 4 * KIB, opened);
    }
    put(pool, small, 4 * KIB, opened);
    put(pool, large, 3 * MIB, TARN_STREAM_DEFAULT);
    CU(cuStreamBeginCapture_v2(own, CAPTURE_RELAXED));
    uint64_t hits = statistics(pool).cache_hits;
    CHECK_EQUAL(small,
                take(pool, 4 * KIB, opened)); /* a hit: the pool trusts the promise */
    CHECK_EQUAL(hits + 1, statistics(pool).cache_hits);
    put(pool, small, 4 * KIB, opened);
    tarn_device_ptr inside = take(pool, 5 * MIB, opened);
    put(pool, inside, 5 * MIB, opened);
    CHECK_EQUAL(5 * MIB, statistics(pool).captured);
    CHECK_EQUAL(inside, take(pool, 5 * MIB, opened));
    CHECK_EQUAL(0, statistics(pool).captured);
    put(pool, inside, 5 * MIB, opened);
    put(pool, take(pool, 4 * KIB, opened), 4 * KIB, opened);
    CHECK_EQUAL(hits + 1, statistics(pool).cache_hits); /* no hit any more */
    CU(cuStreamIsCapturing(own, &state));
    CHECK_EQUAL(1, state);
    CU(cuStreamEndCapture(own, &graph));
    CHECK(graph != NULL);
    /* the graph's, while the graph exists */
    CHECK_EQUAL(5 * MIB + 4 * KIB, statistics(pool).captured);
    CU(cuGraphDestroy(graph));
    adds_up(pool);
    CHECK_OK(tarn_stream_unregister(opened));
    end_pool(pool);
    CU(cuStreamDestroy_v2(own));
}

/* Each context has a per-thread stream of its own, and a call on it is about that of the
 * pool's context. */
TEST(capture_of_the_per_thread_stream_is_seen_while_another_context_is_current)
{
    enum { WARM = 200 };
    void *context = NULL, *primary = NULL, *graph = NULL;

    use_driver(0);
    find_call("cuCtxCreate_v2", &ctx_create);
    find_call("cuCtxDestroy_v2", &ctx_destroy);
    find_call("cuCtxGetCurrent", &ctx_get_current);
    CHECK_EQUAL(0, ctx_get_current(&primary));
    CHECK_EQUAL(0, ctx_create(&context, 0, 0));
    CU(cuCtxSetCurrent(primary));
    pool = new_pool(NULL);
    for (int i = 0; i < WARM; i++)
        put(pool, take(pool, 4 * KIB, TARN_STREAM_PER_THREAD), 4 * KIB,
            TARN_STREAM_PER_THREAD);
    uint64_t hits = statistics(pool).cache_hits;
    CHECK(hits > 0);
    CU(cuStreamBeginCapture_v2(TARN_STREAM_PER_THREAD, CAPTURE_RELAXED));
    CU(cuCtxSetCurrent(context));
    tarn_device_ptr block = take(pool, 4 * KIB, TARN_STREAM_PER_THREAD);
    put(pool, block, 4 * KIB, TARN_STREAM_PER_THREAD);
    CU(cuCtxSetCurrent(primary));
    CHECK_EQUAL(4 * KIB, statistics(pool).captured);
    CHECK_EQUAL(hits, statistics(pool).cache_hits);
    CU(cuStreamEndCapture(TARN_STREAM_PER_THREAD, &graph));
    CU(cuGraphDestroy(graph));
    adds_up(pool);
    end_pool(pool);
    CHECK_EQUAL(0, ctx_destroy(context));
}
