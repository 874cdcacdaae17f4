/* Test what a pool does with each host allocation failing: it is made, grows, compacts, steals,
 * captures, suspends, and reports; and plans. */
#include "pools_used.h"
#include "random_plan.h"
#include <time.h>

static tarn_plan *plan;

static tarn_status create(void)
{
    return tarn_pool_create(0, upstream, &options, &out.resource);
}

static void end_created(void)
{
    CHECK_OK(tarn_resource_release(out.resource));
    CHECK_OK(tarn_resource_release(upstream));
    tarn_plan_release(plan);
    upstream = NULL;
    plan = NULL;
}

static void begin_plain(void)
{
    options = (tarn_pool_options){.size = sizeof options};
}

static void begin_initial(void)
{
    begin_plain();
    options.initial_bytes = 16 * MIB;
    options.maximum_bytes = 64 * MIB;
}

static void begin_with_thread(void)
{
    begin_plain();
    options.background_thread = true;
}

static void begin_on_cuda(void)
{
    begin_initial();
    CHECK_OK(tarn_cuda_create(0, &upstream));
}

static void begin_with_plan(void)
{
    const struct random_plan wanted = {.seed = 1,
                                       .slots = 100,
                                       .streams = 2,
                                       .threads = 1,
                                       .height = 4096,
                                       .largest = 64};

    begin_plain();
    plan = random_plan(&wanted);
    options.plan = plan;
}

static void begin_that_learns(void)
{
    begin_plain();
    options.learn = options.detect_steps = true;
}

TEST(pool_is_created_or_not)
{
    static const struct scenario scenarios[] = {
        {"tarn_pool_create", begin_plain, create, end_created},
        {"tarn_pool_create with memory", begin_initial, create, end_created},
        {"tarn_pool_create with a thread", begin_with_thread, create, end_created},
        {"tarn_pool_create on cuda", begin_on_cuda, create, end_created},
        {"tarn_pool_create with a plan", begin_with_plan, create, end_created},
        {"tarn_pool_create that learns", begin_that_learns, create, end_created},
    };

    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        scenario_run(&scenarios[i], 3);
}

/* --- a pool that is used --- */

static void begin_small(void)
{
    options = (tarn_pool_options){.size = sizeof options, .maximum_bytes = 20 * MIB};
    begin_pool();
}

static void begin_tight(void)
{
    options = (tarn_pool_options){.size = sizeof options,
                                  .maximum_bytes = 20 * MIB,
                                  .policy = TARN_POOL_POLICY_TIGHT};
    begin_pool();
}

static void begin_segments(void)
{
    options = (tarn_pool_options){.size = sizeof options, .maximum_bytes = 20 * MIB};
    use_driver(0);
    one = new_stream();
    other = new_stream();
    CHECK_OK(tarn_cuda_create(0, &upstream));
    CHECK_OK(tarn_pool_create(0, upstream, &options, &pool));
}

/* Memory moves: two streams have alternate pages, and a block needs half of all. */
static tarn_status move(void)
{
    tarn_status status = TARN_OK;

    for (int i = 0; i < 8 && status == TARN_OK; i++)
        status = get(2 * MIB, i & 1 ? one : other);
    for (int i = 0; i < 4 && status == TARN_OK; i++)
        drop(i, other);
    if (status == TARN_OK)
        status = get(8 * MIB, one);
    if (status == TARN_OK)
        status = tarn_resource_trim(pool, 0, NULL);
    return drop_all(status, one);
}

static tarn_status use_small_blocks(void)
{
    tarn_status status = TARN_OK;

    for (int i = 0; i < 60 && status == TARN_OK; i++)
        status = get((size_t)1000 * (unsigned)(i + 1), i % 3 ? one : other);
    return drop_all(status, TARN_STREAM_NONE);
}

static tarn_status steal(void)
{
    tarn_status status = TARN_OK;

    for (int i = 0; i < 10 && status == TARN_OK; i++)
        status = get(2 * MIB, one);
    while (live.count > 2 && status == TARN_OK)
        drop(1, one);
    for (int i = 0; i < 4 && status == TARN_OK; i++)
        status = get(3 * MIB, other);
    return drop_all(status, other);
}

static tarn_status use_many_streams(void)
{
    tarn_stream streams[24];
    tarn_status status = TARN_OK;

    for (int i = 0; i < 24; i++)
        streams[i] = new_stream();
    for (int i = 0; i < 24 && status == TARN_OK; i++)
        status = get(64 * KIB, streams[i]);
    for (int i = 23; live.count > 0; i--)
        drop(live.count - 1, streams[i < 0 ? 0 : i]);
    for (int i = 0; i < 24; i++)
        CU(cuStreamDestroy_v2(streams[i]));
    return status;
}

static void check_kept_bytes(void)
{
    unsigned char bytes[2] = {0};

    CU(cuMemcpyDtoH_v2(bytes, live.at[0], 1));
    CU(cuMemcpyDtoH_v2(bytes + 1, live.at[0] + live.bytes[0] - 1, 1));
    CHECK(bytes[0] == 42 && bytes[1] == 42);
}

/* A suspension that fails leaves the pool as it was. */
static tarn_status try_to_suspend(tarn_pool_suspend_mode mode)
{
    tarn_status status = tarn_pool_suspend(pool, mode);
    bool is_suspended = status == TARN_OK;

    CHECK_EQUAL(is_suspended ? statistics(pool).reserved : 0, statistics(pool).suspended);
    if (is_suspended)
        return TARN_OK;
    CHECK_STATUS(TARN_OUT_OF_MEMORY, status);
    CHECK(strpbrk(tarn_error_last()->message, "0123456789") != NULL);
    check_kept_bytes();
    CHECK_OK(get(64 * KIB, one)); /* it needs no more memory */
    drop(live.count - 1, one);
    return status;
}

/* Suspend and resume, in two tries each. What fails once may fail again. */
static tarn_status suspend_in(tarn_pool_suspend_mode mode)
{
    tarn_status status = get(3 * MIB, one);

    if (status == TARN_OK)
        status = get(64 * KIB, one);
    if (status != TARN_OK)
        return drop_all(status, one);
    drop(1, one);
    for (int i = 0; i < 2; i++) {
        CU(cuMemsetD8_v2(live.at[0], 42, live.bytes[0]));
        status = try_to_suspend(mode);
        if (status != TARN_OK)
            status = try_to_suspend(mode);
        if (status != TARN_OK)
            break;
        CHECK_STATUS(TARN_SUSPENDED, get(MIB, one));
        CHECK_OK(tarn_pool_resume(pool)); /* it needs no host memory */
        CHECK_EQUAL(0, statistics(pool).suspended);
        if (mode == TARN_POOL_SUSPEND_KEEP)
            check_kept_bytes();
    }
    return drop_all(status, one);
}

static tarn_status suspend(void)
{
    return suspend_in(TARN_POOL_SUSPEND_KEEP);
}

static tarn_status suspend_without_contents(void)
{
    return suspend_in(TARN_POOL_SUSPEND_DISCARD);
}

static tarn_status capture(void)
{
    tarn_pool_capture *memory = NULL;
    void *graph = NULL;

    CU(cuStreamBeginCapture_v2(one, CAPTURE_RELAXED));
    tarn_status status = get(MIB, one);
    if (status == TARN_OK)
        status = get(3 * MIB, one);
    if (status == TARN_OK) {
        drop(0, one);
        status = tarn_pool_get_capture(pool, one, &memory);
    }
    CU(cuStreamEndCapture(one, &graph));
    drop_all(status, other);
    if (memory)
        CHECK_OK(tarn_pool_capture_release(memory, other));
    CU(cuGraphDestroy(graph));
    return status;
}

static bool count_block(void *data, const tarn_pool_block *block)
{
    (void)block;
    ++*(unsigned *)data;
    return true;
}

static tarn_status look(void)
{
    unsigned blocks = 0;
    tarn_status status = get(MIB, one);

    if (status == TARN_OK)
        status = tarn_pool_snapshot(pool, count_block, &blocks);
    return drop_all(status, one);
}

static unsigned called;

static bool note_call(void *data, tarn_resource *of, size_t bytes, unsigned tries)
{
    (void)data;
    (void)of;
    (void)bytes;
    (void)tries;
    called++;
    return false;
}

/* More than there can be: a report is made, where there is memory for one. */
static tarn_status report(void)
{
    tarn_pool_oom_report seen = {.size = sizeof seen};
    tarn_status status = tarn_pool_add_oom_callback(pool, note_call, NULL);

    if (status != TARN_OK)
        return status;
    tarn_device_ptr block = 77;
    CHECK_STATUS(TARN_OUT_OF_MEMORY,
                 tarn_resource_allocate(pool, 64 * MIB, 0, one, &block));
    CHECK_EQUAL(77, block);
    (void)tarn_pool_last_oom_report(&seen);
    CHECK_OK(tarn_pool_remove_oom_callback(pool, note_call, NULL));
    return TARN_OK;
}

TEST(pool_works_or_says_that_memory_is_short)
{
    static const struct scenario scenarios[] = {
        {"a pool moves memory", begin_small, move, end_used},
        {"a tight pool moves memory", begin_tight, move, end_used},
        {"a pool of segments", begin_segments, move, end_used},
        {"small blocks", begin_small, use_small_blocks, end_used},
        {"steals", begin_small, steal, end_used},
        {"many streams", begin_small, use_many_streams, end_used},
        {"suspension", begin_small, suspend, end_used},
        {"suspension without contents", begin_small, suspend_without_contents, end_used},
        {"captures", begin_small, capture, end_used},
        {"snapshots", begin_small, look, end_used},
        {"reports", begin_small, report, end_used},
    };

    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        scenario_run(&scenarios[i], 0);
}

/* --- a pool that learns --- */

static void repeat_step(void)
{
    CHECK_OK(tarn_pool_mark_step(pool));
    for (size_t i = 0; i < 40; i++)
        CHECK_OK(get((i + 1) * 64 * KIB, one));
    drop_all(TARN_OK, one);
}

/* A mark needs memory for the step that it has planned, and a thread. Without them it succeeds,
 * and the step is planned when it comes again. */
TEST(a_repeated_step_is_planned_once_there_is_memory)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    unsigned nth = 0, failed = 1;

    options = (tarn_pool_options){.size = sizeof options, .learn = true};
    while (failed > 0) {
        begin_pool();
        repeat_step();
        repeat_step();
        failing_begin(++nth, FAILING_ONCE);
        CHECK_OK(tarn_pool_mark_step(pool));
        failed = failing_end();
        for (int i = 0; i < 60000 && statistics(pool).plans_made == 0; i++) {
            nanosleep(&pause, NULL);
            repeat_step();
        }
        CHECK_EQUAL(1, statistics(pool).plans_made);
        end_used();
    }
    CHECK(nth > 3);
}
