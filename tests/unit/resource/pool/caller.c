/* Streams that are not the pool's: of a context beside the device's primary one. */
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
        CHECK_SAYS("belongs to context");
    }
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(pool, block, MIB, 0, foreign));
    CHECK_SAYS("belongs to context");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stream_open(0, foreign, &opened));
    CHECK(tarn_pool_capture_of(pool, foreign, &capture) != TARN_OK);
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
    CU(cuStreamEndCapture(foreign, &graph)); /* it goes on, and ends well */
    CU(cuGraphDestroy(graph));
    CHECK_EQUAL(before.live, statistics(pool).live);
    CHECK_EQUAL(before.reserved, statistics(pool).reserved);
    CHECK_EQUAL(before.lanes, statistics(pool).lanes);
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
