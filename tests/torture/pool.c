/* What a pool does beyond a block in and out, with its 1st, 2nd, 3rd ... driver call
 * failing: it grows, steals, moves, trims, sleeps, wakes, captures, and ends after a reset.
 * After every failure its accounting adds up, all its memory is available again, and nothing leaks. */
#include "pools_tortured.h"
#include "random_plan.h"

static const tarn_plan *plan; /* that the pools of scenarios follow; NULL: none */

static tarn_resource *make(size_t maximum)
{
    tarn_pool_options options = {
        .size = sizeof options, .maximum_bytes = maximum, .plan = plan};
    tarn_resource *pool = NULL;

    IN_THE_END(tarn_pool_create(0, NULL, &options, &pool));
    return pool;
}

static void move_and_trim(void)
{
    tarn_resource *pool = make(20 * MIB);
    tarn_device_ptr blocks[8];
    size_t released;

    for (int i = 0; i < 8; i++)
        blocks[i] = get(pool, 2 * MIB, i & 1 ? one : other);
    for (int i = 0; i < 8; i += 2)
        put_block(pool, blocks[i], 2 * MIB, other);
    blocks[0] = get(pool, 2 * MIB, one);
    put_block(pool, blocks[0], 2 * MIB, TARN_STREAM_NONE);
    blocks[0] = get(pool, 8 * MIB, one);
    put_block(pool, blocks[0], 8 * MIB, one);
    for (int i = 1; i < 8; i += 2)
        put_block(pool, blocks[i], 2 * MIB, one);
    IN_THE_END(tarn_pool_set_maximum(pool, 10 * MIB));
    IN_THE_END(tarn_resource_trim(pool, 4 * MIB, &released));
    adds_up(pool);
    IN_THE_END(tarn_pool_set_maximum(pool, 20 * MIB));
    put_block(pool, get(pool, 18 * MIB, other), 18 * MIB, other);
    end_seen(pool);
}

/* Frees of two streams whose work is not done, behind waits: a block of one, and
 * neighbours of both. No call here may wait for the device. */
static void steal(void)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .maximum_bytes = 20 * MIB,
                                       .oom_policy = TARN_POOL_OOM_FAIL,
                                       .plan = plan};
    const tarn_stream raw[2] = {other, third};
    tarn_device_ptr blocks[10];
    tarn_stream source_streams[2];
    tarn_resource *pool = NULL;
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

    IN_THE_END(tarn_pool_create(0, NULL, &options, &pool));
    for (int i = 0; i < 10; i++)
        blocks[i] = get(pool, 2 * MIB, one);
    for (int i = 0; i < 2; i++) {
        IN_THE_END(tarn_stream_register(0, raw[i], &source_streams[i]));
        if (cu.cuLaunchHostFunc(raw[i], wait_at_gate, &gate) != 0)
            CU(cuLaunchHostFunc(raw[i], wait_at_gate, &gate));
    }
    put_block(pool, blocks[0], 2 * MIB, source_streams[0]);
    blocks[0] = get(pool, 2 * MIB, one);
    put_block(pool, blocks[4], 2 * MIB, source_streams[0]);
    put_block(pool, blocks[5], 2 * MIB, source_streams[1]);
    blocks[4] = get(pool, 4 * MIB, one);
    pthread_mutex_lock(&gate.lock);
    gate.is_open = true;
    pthread_cond_broadcast(&gate.change);
    pthread_mutex_unlock(&gate.lock);
    for (int i = 0; i < 10; i++)
        if (i != 5)
            put_block(pool, blocks[i], i == 4 ? 4 * MIB : 2 * MIB, one);
    for (int i = 0; i < 2; i++)
        IN_THE_END(tarn_stream_unregister(source_streams[i]));
    put_block(pool, get(pool, 20 * MIB, one), 20 * MIB, one);
    IN_THE_END(tarn_driver_synchronize(0)); /* the gate belongs to the test */
    end_seen(pool);
}

static void suspend_and_resume(void)
{
    tarn_resource *pool = make(0);
    tarn_device_ptr block = get(pool, 3 * MIB, one);

    put_block(pool, get(pool, 64 * KIB, one), 64 * KIB, one);
    for (int mode = 0; mode < 2; mode++) {
        if (tarn_pool_suspend(pool, mode) != TARN_OK) {
            CHECK_EQUAL(0, statistics(pool).suspended);
            CHECK_OK(tarn_pool_suspend(pool, mode));
        }
        CHECK_EQUAL(statistics(pool).reserved, statistics(pool).suspended);
        if (tarn_pool_resume(pool) != TARN_OK) {
            CHECK_EQUAL(statistics(pool).reserved, statistics(pool).suspended);
            CHECK_OK(tarn_pool_resume(pool));
        }
        adds_up(pool);
    }
    put_block(pool, block, 3 * MIB, one);
    end_seen(pool);
}

static void capture(void)
{
    tarn_resource *pool = make(16 * MIB);
    tarn_device_ptr before = get(pool, MIB, one), inside, kept;
    tarn_pool_capture *memory = NULL;
    void *graph = NULL;

    /* The failing call may also be one of the test itself. */
    if (cu.cuStreamBeginCapture_v2(one, CAPTURE_RELAXED) != 0)
        CU(cuStreamBeginCapture_v2(one, CAPTURE_RELAXED));
    inside = get(pool, MIB, one);
    kept = get(pool, 3 * MIB, one);
    put_block(pool, before, MIB, one);
    put_block(pool, inside, MIB, one);
    IN_THE_END(tarn_pool_get_capture(pool, one, &memory));
    if (cu.cuStreamEndCapture(one, &graph) != 0)
        cu.cuStreamEndCapture(one, &graph);
    IN_THE_END(tarn_pool_capture_release(memory, other));
    put_block(pool, kept, 3 * MIB, other);
    put_block(pool, get(pool, 16 * MIB, one), 16 * MIB, one);
    if (graph && cu.cuGraphDestroy(graph) != 0)
        CU(cuGraphDestroy(graph));
    end_seen(pool);
}

/* No-stream allocations and frees; in the end all of the memory is available on one
 * stream. */
static void without_a_stream_by(tarn_pool_no_stream_policy no_stream_policy)
{
    tarn_pool_options options = {.size = sizeof options,
                                 .maximum_bytes = 8 * MIB,
                                 .no_stream_policy = no_stream_policy,
                                 .no_stream_limit_bytes = 2 * MIB,
                                 .plan = plan};
    tarn_resource *pool = NULL;

    IN_THE_END(tarn_pool_create(0, NULL, &options, &pool));
    tarn_device_ptr kept = get(pool, MIB, one);
    for (int i = 0; i < 6; i++)
        put_block(pool, get(pool, MIB, TARN_STREAM_NONE), MIB,
                  i == 4 ? one : TARN_STREAM_NONE);
    put_block(pool, kept, MIB, TARN_STREAM_NONE);
    put_block(pool, get(pool, 8 * MIB, other), 8 * MIB, TARN_STREAM_NONE);
    put_block(pool, get(pool, 8 * MIB, TARN_STREAM_NONE), 8 * MIB, other);
    end_seen(pool);
}

static void without_a_stream(void)
{
    without_a_stream_by(TARN_POOL_NO_STREAM_SYNCHRONIZE);
}

static void without_a_stream_by_events(void)
{
    without_a_stream_by(TARN_POOL_NO_STREAM_EVENT);
}

/* --- the end of a pool whose context was reset --- */

static tarn_status make_async(int device, tarn_resource **out)
{
    return tarn_async_create(device, NULL, out);
}

/* A block that its thread frees on the default stream does not show the reset to the
 * pool. */
static void end_after_a_reset(tarn_status (*make_upstream)(int, tarn_resource **),
                              bool suspended)
{
    tarn_pool_options options = {.size = sizeof options, .initial_bytes = 8 * MIB};
    tarn_resource *upstream = NULL, *pool = NULL;

    if (make_upstream)
        IN_THE_END(make_upstream(0, &upstream));
    IN_THE_END(tarn_pool_create(0, upstream, &options, &pool));
    put_block(pool, get(pool, 1000, NULL), 1000, NULL);
    tarn_device_ptr block = get(pool, 1000, NULL);
    if (suspended)
        IN_THE_END(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_KEEP));
    if (cu.cuDevicePrimaryCtxReset_v2(0) != 0)
        CU(cuDevicePrimaryCtxReset_v2(0));
    IN_THE_END(tarn_resource_deallocate(pool, block, 1000, 0, NULL));
    CHECK_OK(tarn_resource_release(pool));
    IN_THE_END(tarn_resource_release(upstream));
}

static void end_vmm_after_a_reset(void)
{
    end_after_a_reset(NULL, false);
}

static void end_suspended_after_a_reset(void)
{
    end_after_a_reset(NULL, true);
}

static void end_on_cuda_after_a_reset(void)
{
    end_after_a_reset(tarn_cuda_create, false);
}

static void end_on_async_after_a_reset(void)
{
    end_after_a_reset(make_async, false);
}

static tarn_status make_exportable(int device, tarn_resource **out)
{
    return tarn_exportable_create(device, NULL, out);
}

static void end_on_exportable_after_a_reset(void)
{
    end_after_a_reset(make_exportable, false);
}

static void once(void (*scenario)(void))
{
    scenario();
}

static void played(void (*scenario)(void))
{
    with_streams(once, scenario);
}

/* With no call failing they have their intended effect. */
TEST(scenarios_do_what_is_to_be_seen_failing)
{
    if (!on_sim())
        skip();
    played(move_and_trim);
    CHECK(seen.grown > 0 && seen.moves > 0 && seen.shrinks > 0);
    played(steal);
    CHECK(seen.steals > 0 && seen.stream_waits > 1);
    played(without_a_stream);
    CHECK(seen.device_synchronizations > 1);
    played(without_a_stream_by_events);
    CHECK(seen.events_recorded > 0);
}

TEST(pool_steals_whatever_call_fails)
{
    tortured(steal);
}

/* Each plan is of the sizes of the scenarios, and its blocks are in each other's way. */
TEST(pool_follows_a_plan_whatever_call_fails)
{
    static const uint32_t sizes[] = {2 * MIB / 512, 4 * MIB / 512, 8 * MIB / 512};
    uint64_t planned = 0;

    for (uint64_t seed = 0; seed < 3; seed++) {
        const struct random_plan wanted = {.seed = seed,
                                           .slots = 4096,
                                           .streams = 1 + (uint32_t)seed,
                                           .threads = 1,
                                           .height = (uint32_t)(20 * MIB / 512),
                                           .sizes = sizes,
                                           .size_count = 3,
                                           /* the pool has no page to spare */
                                           .unit = (uint32_t)(2 * MIB / 512)};
        tarn_plan *random = random_plan(&wanted);
        CHECK(random != NULL);
        plan = random;
        tortured(steal);
        planned += seen.planned;
        tortured(move_and_trim);
        planned += seen.planned;
        if (seed == 0) {
            tortured(suspend_and_resume);
            tortured(capture);
        }
        plan = NULL;
        tarn_plan_release(random);
    }
    CHECK(planned > 0);
}

/* Planned blocks wait for the device, as others do. */
TEST(pool_follows_a_plan_of_no_stream_whatever_call_fails)
{
    static const uint32_t sizes[] = {MIB / 512, 8 * MIB / 512};
    const struct random_plan wanted = {.seed = 1,
                                       .slots = 512,
                                       .streams = 1,
                                       .threads = 1,
                                       .height = 8 * MIB / 512,
                                       .sizes = sizes,
                                       .size_count = 2,
                                       .unit = MIB / 512};
    tarn_plan *random = random_plan(&wanted);

    CHECK(random != NULL);
    plan = random;
    tortured(without_a_stream);
    CHECK(seen.planned > 0 && seen.device_synchronizations > 1);
    tortured(without_a_stream_by_events);
    CHECK(seen.planned > 0);
    plan = NULL;
    tarn_plan_release(random);
}

TEST(pool_moves_and_trims_whatever_call_fails)
{
    tortured(move_and_trim);
}

TEST(pool_suspends_and_resumes_whatever_call_fails)
{
    tortured(suspend_and_resume);
}

TEST(pool_supports_captures_whatever_call_fails)
{
    tortured(capture);
}

TEST(pool_supports_no_stream_whatever_call_fails)
{
    tortured(without_a_stream);
}

TEST(pool_supports_no_stream_by_events_whatever_call_fails)
{
    tortured(without_a_stream_by_events);
}

/* Without streams of its own, which would end with the context. */
static void tortured_by_resets(void (*scenario)(void))
{
    if (!on_sim() || THREADS_ARE_WATCHED)
        skip();
    use_driver(0);
    torture(scenario);
    use_driver(0);
}

TEST(pool_ends_after_a_reset_whatever_call_fails)
{
    tortured_by_resets(end_vmm_after_a_reset);
    tortured_by_resets(end_suspended_after_a_reset);
}

TEST(pool_on_an_upstream_ends_after_a_reset_whatever_call_fails)
{
    tortured_by_resets(end_on_cuda_after_a_reset);
    tortured_by_resets(end_on_async_after_a_reset);
    tortured_by_resets(end_on_exportable_after_a_reset);
}
