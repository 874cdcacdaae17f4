/* Test no-stream allocations and frees: the promises of the caller, the waits of the
 * pool, and that no memory is lost. */
#include "pools.h"

static size_t supports_no_stream(tarn_resource *resource)
{
    bool so = tarn_resource_supports_no_stream(resource);

    CHECK_OK(tarn_resource_release(resource));
    return so;
}

static tarn_resource *pool_on(tarn_resource *upstream)
{
    tarn_resource *pool;

    CHECK_OK(tarn_pool_create(0, upstream, NULL, &pool));
    CHECK_OK(tarn_resource_release(upstream));
    return pool;
}

static tarn_resource *slab_on(tarn_resource *upstream)
{
    tarn_resource *slab;

    CHECK_OK(tarn_slab_create(0, upstream, NULL, &slab));
    tarn_resource_release(upstream);
    return slab;
}

static tarn_resource *binning_on(tarn_resource *upstream)
{
    const tarn_binning_options options = {sizeof options, 18, 20};
    tarn_resource *binning;

    CHECK_OK(tarn_binning_create(upstream, &options, &binning));
    CHECK_OK(tarn_resource_release(upstream));
    return binning;
}

static tarn_resource *async(void)
{
    tarn_resource *resource;

    CHECK_OK(tarn_async_create(0, NULL, &resource));
    return resource;
}

static tarn_resource *cuda(void)
{
    tarn_resource *resource;

    CHECK_OK(tarn_cuda_create(0, &resource));
    return resource;
}

static tarn_resource *limited(tarn_resource *upstream)
{
    tarn_resource *limiter;

    CHECK_OK(tarn_limiter_create(upstream, 64 * MIB, &limiter));
    CHECK_OK(tarn_resource_release(upstream));
    return limiter;
}

TEST(resources_say_whether_they_serve_those_without_a_stream)
{
    use_driver(0);
    CHECK(!tarn_resource_supports_no_stream(NULL));
    CHECK(supports_no_stream(cuda()));
    CHECK(!supports_no_stream(async()));
    CHECK(supports_no_stream(new_pool(NULL)));
    CHECK(supports_no_stream(pool_on(cuda())));
    CHECK(supports_no_stream(pool_on(async())));
    CHECK(supports_no_stream(slab_on(NULL)));
    CHECK(supports_no_stream(slab_on(new_pool(NULL))));
    CHECK(supports_no_stream(binning_on(new_pool(NULL))));
    CHECK(!supports_no_stream(binning_on(async())));
    CHECK(supports_no_stream(limited(new_pool(NULL))));
    CHECK(!supports_no_stream(limited(async())));
}

/* An upstream that orders by stream allocates in the order of the default stream for a
 * no-stream request. Another stream used the memory before. */
TEST(pool_waits_for_what_an_upstream_in_order_gives_without_a_stream)
{
    use_driver(0);
    tarn_resource *upstream = async(), *pool = pool_on(tarn_resource_retain(upstream));
    uint64_t before = statistics(pool).reserved;

    put(pool, take(pool, 3 * MIB, TARN_STREAM_NONE), 3 * MIB, TARN_STREAM_NONE);
    CHECK(statistics(pool).reserved > before);
    adds_up(pool);
    end_pool(pool);
    CHECK_OK(tarn_resource_release(upstream));
}

TEST(memory_freed_without_a_stream_is_had_before_memory_is_out)
{
    use_driver(0);
    tarn_resource *strict = strict_pool(4 * MIB);
    tarn_device_ptr block = take(strict, 3 * MIB, NULL);

    put(strict, block, 3 * MIB, TARN_STREAM_NONE);
    CHECK_EQUAL(0, statistics(strict).device_synchronizations);
    put(strict, take(strict, 3 * MIB, NULL), 3 * MIB, TARN_STREAM_NONE);
    CHECK_EQUAL(1, statistics(strict).device_synchronizations);
    put(strict, take(strict, 3 * MIB, TARN_STREAM_NONE), 3 * MIB, NULL);
    CHECK_EQUAL(2, statistics(strict).device_synchronizations);
    CHECK_EQUAL(0, statistics(strict).failures);
    adds_up(strict);
    end_pool(strict);
}

TEST(trim_gives_back_what_was_freed_without_a_stream)
{
    use_driver(0);
    tarn_resource *strict = strict_pool(64 * MIB);
    size_t released;

    put(strict, take(strict, 8 * MIB, NULL), 8 * MIB, TARN_STREAM_NONE);
    CHECK_OK(tarn_resource_trim(strict, 0, &released));
    CHECK_EQUAL(8 * MIB, released);
    end_pool(strict);
}

/* The work of a destroyed stream continues after the stream's end. */
TEST(memory_freed_without_a_stream_waits_for_streams_that_are_gone)
{
    use_driver(0);
    tarn_resource *pool = strict_pool(4 * MIB);
    tarn_stream stream = new_stream(), other = new_stream();
    tarn_device_ptr block = take(pool, 3 * MIB, TARN_STREAM_NONE), witness;
    unsigned char seen = 0;

    CU(cuMemsetD8Async(block, 1, 3 * MIB, stream));
    witness = take(pool, MIB, TARN_STREAM_NONE);
    for (int i = 0; i < 8; i++)
        CHECK_OK(tarn_memcpy_async(0, witness, block, MIB, stream));
    CU(cuStreamDestroy_v2(stream));
    put(pool, block, 3 * MIB, TARN_STREAM_NONE);
    block = take(pool, 3 * MIB, other);
    CU(cuMemsetD8Async(block, 2, 3 * MIB, other));
    CU(cuCtxSynchronize());
    CU(cuMemcpyDtoH_v2(&seen, witness, 1));
    CHECK_EQUAL(1, seen);
    put(pool, block, 3 * MIB, other);
    put(pool, witness, MIB, other);
    CU(cuStreamDestroy_v2(other));
    end_pool(pool);
}

/* --- the amount of deferred memory, and its cost --- */

static tarn_resource *pool_by(tarn_pool_no_stream_policy streamless, size_t most)
{
    tarn_pool_options options = {.size = sizeof options,
                                 .no_stream_policy = streamless,
                                 .no_stream_limit_bytes = most};

    return new_pool(&options);
}

static void loop(tarn_resource *pool, size_t bytes, int times)
{
    for (int i = 0; i < times; i++)
        put(pool, take(pool, bytes, TARN_STREAM_NONE), bytes, TARN_STREAM_NONE);
}

/* Count the driver calls of this number of pairs, once the loop is stable. */
static unsigned long long calls_of(tarn_resource *pool, size_t bytes, int pairs)
{
    loop(pool, bytes, 4 * pairs);
    unsigned long long before = sim_calls();
    loop(pool, bytes, pairs);
    return sim_calls() - before;
}

TEST(loop_without_a_stream_takes_one_barrier_in_many_frees)
{
    static const size_t sizes[] = {256, 64 * KIB, MIB, 16 * MIB};
    size_t free_bytes, total;

    use_driver(0);
    tarn_resource *cuda;
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_resource_memory_info(cuda, NULL, &free_bytes, &total));
    CHECK_OK(tarn_resource_release(cuda));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tarn_resource *pool = pool_by(TARN_POOL_NO_STREAM_SYNCHRONIZE, 0);
        loop(pool, sizes[i], 300);
        uint64_t before = statistics(pool).device_synchronizations;
        loop(pool, sizes[i], 160);
        uint64_t waits = statistics(pool).device_synchronizations - before;
        CHECK(waits <= 160 / 16 || waits <= 160 * sizes[i] / (64 * MIB));
        CHECK_EQUAL(0, statistics(pool).events_recorded);
        /* the bound of deferred memory depends on the device's, see no_stream_limit_bytes */
        size_t deferred = 16 * sizes[i] < total / 512 ? 16 * sizes[i] : total / 512;
        CHECK(statistics(pool).reserved <=
              (deferred > 64 * MIB ? deferred : 64 * MIB) + 36 * MIB);
        adds_up(pool);
        end_pool(pool);
    }
}

/* Each pair requests the context's id. Device-wide waits and events come on top. */
TEST(pair_without_a_stream_makes_two_driver_calls_and_few_more)
{
    use_driver(0);
    if (!on_sim())
        skip();
    for (int mode = TARN_POOL_NO_STREAM_SYNCHRONIZE; mode <= TARN_POOL_NO_STREAM_EVENT;
         mode++) {
        tarn_resource *pool = pool_by((tarn_pool_no_stream_policy)mode, 0);
        CHECK(calls_of(pool, MIB, 640) <= 2 * 640 + 640 / 2);
        end_pool(pool);
    }
    tarn_resource *one = pool_by(TARN_POOL_NO_STREAM_SINGLE, 0);
    CHECK_EQUAL(0, calls_of(one, 100 * KIB, 100));
    end_pool(one);
}

TEST(statistics_tell_what_is_held_back)
{
    use_driver(0);
    tarn_resource *pool = pool_by(TARN_POOL_NO_STREAM_SYNCHRONIZE, 3 * MIB);
    tarn_device_ptr block = take(pool, MIB, NULL);

    put(pool, take(pool, 2 * MIB, TARN_STREAM_NONE), 2 * MIB, TARN_STREAM_NONE);
    CHECK_EQUAL(2 * MIB, statistics(pool).no_stream_deferred);
    put(pool, block, MIB, TARN_STREAM_NONE);
    CHECK_EQUAL(3 * MIB, statistics(pool).no_stream_deferred);
    CHECK_EQUAL(0, statistics(pool).device_synchronizations);
    block = take(pool, 3 * MIB, TARN_STREAM_NONE); /* it waits instead of growing */
    CHECK_EQUAL(0, statistics(pool).no_stream_deferred);
    CHECK_EQUAL(1, statistics(pool).device_synchronizations);
    put(pool, block, 3 * MIB, NULL);
    end_pool(pool);
}

TEST(streamless_mode_has_three_values)
{
    tarn_pool_options options = {.size = sizeof options,
                                 .no_stream_policy = (tarn_pool_no_stream_policy)3};
    tarn_resource *pool = NULL;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_create(0, NULL, &options, &pool));
    CHECK_MESSAGE("no_stream_policy 3");
}

/* --- by events --- */

TEST(event_is_recorded_at_half_and_nobody_waits_for_it)
{
    use_driver(0);
    tarn_resource *pool = pool_by(TARN_POOL_NO_STREAM_EVENT, 8 * MIB);
    tarn_stream stream = new_stream();
    struct gate gate;

    loop(pool, MIB, 3);
    CHECK_EQUAL(0, statistics(pool).events_recorded);
    loop(pool, MIB, 1);
    CHECK_EQUAL(1, statistics(pool).events_recorded);
    loop(pool, MIB, 200);
    CHECK_EQUAL(0, statistics(pool).device_synchronizations);
    CHECK(statistics(pool).reserved <= 24 * MIB);
    hold_up(stream, &gate);
    /* Up to the bound, the pool does not wait for the stream that is held up. */
    tarn_device_ptr blocks[6];
    for (int i = 0; i < 6; i++)
        blocks[i] = take(pool, MIB, TARN_STREAM_NONE);
    for (int i = 0; i < 6; i++)
        put(pool, blocks[i], MIB, TARN_STREAM_NONE);
    loop(pool, MIB, 1);
    let_on(&gate);
    CHECK_EQUAL(0, statistics(pool).device_synchronizations);
    CU(cuStreamDestroy_v2(stream));
    adds_up(pool);
    end_pool(pool);
}

TEST(wait_for_an_event_leaves_the_capture_mode_of_its_thread)
{
    int (*exchange)(int *mode), mode = CAPTURE_GLOBAL;

    use_driver(0);
    if (!on_sim())
        skip();
    find_call("cuThreadExchangeStreamCaptureMode", &exchange);
    tarn_resource *pool = pool_by(TARN_POOL_NO_STREAM_EVENT, 8 * MIB);
    sim_configure("fail=call:cuEventQuery"); /* so the pool has to wait */
    loop(pool, MIB, 100);
    sim_configure(NULL);
    CHECK(statistics(pool).reserved <= 24 * MIB);
    CHECK_EQUAL(0, statistics(pool).device_synchronizations);
    CHECK_EQUAL(0, exchange(&mode));
    CHECK_EQUAL(CAPTURE_GLOBAL, mode);
    end_pool(pool);
}

/* The event covers the first free alone. After the wait there is no other event that a search
 * could query. */
TEST(pool_serves_what_the_event_covers_for_which_it_waited)
{
    use_driver(0);
    if (!on_sim())
        skip();
    tarn_resource *pool = pool_by(TARN_POOL_NO_STREAM_EVENT, 4 * MIB);
    tarn_device_ptr large = take(pool, 3 * MIB, TARN_STREAM_NONE),
                    small = take(pool, MIB, TARN_STREAM_NONE);
    tarn_stream stream = new_stream();
    struct gate gate;

    hold_up(stream, &gate); /* the event is not complete when the pool queries it */
    put(pool, large, 3 * MIB, TARN_STREAM_NONE);
    put(pool, small, MIB, TARN_STREAM_NONE);
    CHECK_EQUAL(4 * MIB, statistics(pool).no_stream_deferred);
    uint64_t reserved = statistics(pool).reserved;
    CHECK_EQUAL(1, statistics(pool).events_recorded);
    let_on(&gate);
    sim_configure("fail=call:cuEventQuery");
    CHECK_EQUAL(large, take(pool, 3 * MIB, TARN_STREAM_NONE));
    sim_configure(NULL);
    CHECK_EQUAL(MIB, statistics(pool).no_stream_deferred);
    CHECK_EQUAL(reserved, statistics(pool).reserved);
    CHECK_EQUAL(0, statistics(pool).device_synchronizations);
    put(pool, large, 3 * MIB, TARN_STREAM_NONE);
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}

TEST(streams_have_memory_of_no_stream_behind_its_event)
{
    use_driver(0);
    tarn_pool_options options = {.size = sizeof options,
                                 .maximum_bytes = 4 * MIB,
                                 .no_stream_policy = TARN_POOL_NO_STREAM_EVENT,
                                 .no_stream_limit_bytes = 2 * MIB};
    tarn_resource *pool = new_pool(&options);
    tarn_stream held = new_stream(), other = new_stream();
    struct gate gate;

    tarn_device_ptr block = take(pool, 3 * MIB, TARN_STREAM_NONE);
    hold_up(held, &gate);
    CU(cuMemsetD8Async(block, 1, 3 * MIB, held));
    put(pool, block, 3 * MIB, TARN_STREAM_NONE);
    block = take(pool, 3 * MIB, other); /* it does not wait here */
    CHECK_EQUAL(1, statistics(pool).steals);
    CU(cuMemsetD8Async(block, 2, 3 * MIB, other));
    let_on(&gate);
    unsigned char seen = 0;
    CU(cuMemcpyDtoH_v2(&seen, block, 1));
    CHECK_EQUAL(2, seen);
    put(pool, block, 3 * MIB, other);
    CU(cuStreamDestroy_v2(held));
    CU(cuStreamDestroy_v2(other));
    end_pool(pool);
}

/* An event would end them; a device-wide wait does not. */
static void is_left_alone(tarn_stream stream, tarn_stream value, tarn_resource *pool)
{
    void *graph = NULL;

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_GLOBAL));
    if (value != stream)
        CHECK_OK(tarn_stream_announce_capture(value, true));
    loop(pool, MIB, 40);
    CU(cuStreamEndCapture(stream, &graph));
    if (value != stream)
        CHECK_OK(tarn_stream_announce_capture(value, false));
    CU(cuGraphDestroy(graph));
    CHECK_EQUAL(0, statistics(pool).events_recorded);
    CHECK(statistics(pool).device_synchronizations > 0);
    end_pool(pool);
}

TEST(events_leave_captures_alone_that_are_known)
{
    use_driver(0);
    tarn_stream blocking, stream = new_stream(), opened;

    CU(cuStreamCreate(&blocking, 0));
    is_left_alone(blocking, blocking, pool_by(TARN_POOL_NO_STREAM_EVENT, 4 * MIB));
    CHECK_OK(tarn_stream_register(0, stream, &opened));
    is_left_alone(stream, opened, pool_by(TARN_POOL_NO_STREAM_EVENT, 4 * MIB));
    CHECK_OK(tarn_stream_unregister(opened));
    CU(cuStreamDestroy_v2(blocking));
    CU(cuStreamDestroy_v2(stream));
}

TEST(events_leave_a_capture_alone_that_has_memory_of_the_pool)
{
    use_driver(0);
    tarn_resource *pool = pool_by(TARN_POOL_NO_STREAM_EVENT, 4 * MIB);
    tarn_stream stream = new_stream();
    void *graph = NULL;

    CU(cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED));
    tarn_device_ptr block = take(pool, MIB, stream);
    tarn_pool_capture *memory = NULL;
    CHECK_OK(tarn_pool_get_capture(pool, stream, &memory));
    loop(pool, MIB, 40);
    CHECK_EQUAL(0, statistics(pool).events_recorded);
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphDestroy(graph));
    CHECK_OK(tarn_pool_capture_release(memory, stream));
    loop(pool, MIB, 40);
    CHECK(statistics(pool).events_recorded > 0);
    put(pool, block, MIB, TARN_STREAM_NONE);
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}

/* --- one stream --- */

TEST(program_of_one_stream_has_its_memory_again_at_once)
{
    use_driver(0);
    tarn_resource *pool = pool_by(TARN_POOL_NO_STREAM_SINGLE, 0);
    tarn_stream stream = new_stream();
    struct gate gate;

    CHECK(tarn_resource_supports_no_stream(pool));
    tarn_device_ptr block = take(pool, 3 * MIB, TARN_STREAM_NONE);
    hold_up(stream, &gate);
    put(pool, block, 3 * MIB, TARN_STREAM_NONE);
    CHECK_EQUAL(0, statistics(pool).no_stream_deferred);
    CHECK_EQUAL(block, take(pool, 3 * MIB, TARN_STREAM_NONE));
    put(pool, block, 3 * MIB, TARN_STREAM_DEFAULT);
    CHECK_EQUAL(block, take(pool, 3 * MIB, TARN_STREAM_NONE));
    put(pool, block, 3 * MIB, TARN_STREAM_NONE);
    let_on(&gate);
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
}

/* --- a context that was reset --- */

TEST(pool_of_a_context_that_was_reset_serves_nobody)
{
    use_driver(0);
    tarn_resource *pool = pool_by(TARN_POOL_NO_STREAM_SYNCHRONIZE, 0);
    tarn_device_ptr kept = take(pool, MIB, TARN_STREAM_NONE), block = 77;

    loop(pool, MIB, 2);
    CU(cuDevicePrimaryCtxReset_v2(0));
    CHECK(tarn_resource_allocate(pool, MIB, 0, TARN_STREAM_NONE, &block) != TARN_OK);
    CHECK_EQUAL(77, block);
    put(pool, kept, MIB, TARN_STREAM_NONE);
    end_pool(pool);
}
