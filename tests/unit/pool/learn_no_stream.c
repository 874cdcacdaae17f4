/* Test learned plans of work without a stream, whose memory is reused behind a wait for the
 * device. */
#include "learn.h"
#include <stdatomic.h>

static const tarn_stream no_stream[1] = {TARN_STREAM_NONE};

static uint64_t waits(tarn_resource *pool)
{
    return statistics(pool).device_synchronizations;
}

static void run_and_mark(tarn_resource *pool, const struct step *step)
{
    step_run(pool, step, no_stream);
    mark(pool);
}

/* In the mean of some seeds the pool reserves at most 1.02 times the live bytes. */
TEST(steps_without_a_stream_are_planned)
{
    enum { SEEDS = 6 };
    double reserved = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct step step = {
            .seed = seed, .count = 150, .streams = 1, .quantum = 64 * KIB};
        use_driver(0);
        tarn_resource *pool = learning_pool();
        learn_step(pool, &step, no_stream);
        CHECK_EQUAL(0, statistics(pool).plans_worse);
        uint64_t waits_before = waits(pool);
        CHECK_OK(tarn_pool_reset_peaks(pool));
        for (int i = 0; i < 4; i++)
            run_and_mark(pool, &step);
        tarn_pool_statistics after = statistics(pool);
        CHECK_EQUAL(4 * 150, after.planned + after.plan_missed);
        CHECK(after.planned >= 4 * 150 * 98 / 100);
        CHECK(after.recent_peak_reserved <= after.recent_peak_allocated / 100 * 103);
        reserved +=
            (double)after.recent_peak_reserved / (double)after.recent_peak_allocated;
        CHECK(waits(pool) > waits_before);
        adds_up(pool);
        end_pool(pool);
    }
    CHECK(reserved <= 1.02 * SEEDS);
}

/* A step of two large blocks, one after the other. Between them `between` is called. */
static void run_two(tarn_resource *pool, size_t bytes, void (*between)(void))
{
    tarn_device_ptr first = take(pool, 256 * MIB, TARN_STREAM_NONE);
    tarn_device_ptr block = take(pool, bytes, TARN_STREAM_NONE);

    if (between)
        between();
    put(pool, block, bytes, TARN_STREAM_NONE);
    put(pool, take(pool, bytes, TARN_STREAM_NONE), bytes, TARN_STREAM_NONE);
    put(pool, first, 256 * MIB, TARN_STREAM_NONE);
}

static tarn_resource *pool_that_has_learned_two(size_t bytes)
{
    use_driver(0);
    tarn_resource *pool = learning_pool();
    for (int i = 0; i < 2; i++) {
        mark(pool);
        run_two(pool, bytes, NULL);
    }
    mark(pool);
    wait_for_plans(pool, 1);
    return pool;
}

static tarn_stream busy_stream;
static atomic_bool is_done;

static void work_slowly(void *data)
{
    const struct timespec pause = {.tv_nsec = 30000000};

    (void)data;
    nanosleep(&pause, NULL);
    atomic_store(&is_done, true);
}

static void queue_work(void)
{
    atomic_store(&is_done, false);
    CU(cuLaunchHostFunc(busy_stream, work_slowly, NULL));
}

/* Any stream may still use the first block of the two: the second one is handed out when the
 * device is done. */
TEST(a_planned_block_without_a_stream_waits_for_the_device)
{
    tarn_resource *pool = pool_that_has_learned_two(128 * MIB);

    busy_stream = new_stream();
    CHECK_OK(tarn_pool_reset_peaks(pool));
    for (int i = 0; i < 3; i++) {
        uint64_t planned = statistics(pool).planned, waits_before = waits(pool);
        run_two(pool, 128 * MIB, queue_work);
        CHECK(atomic_load(&is_done));
        CHECK_EQUAL(3, statistics(pool).planned - planned);
        CHECK(waits(pool) > waits_before);
        mark(pool);
    }
    CHECK(statistics(pool).recent_peak_reserved <= 390 * MIB);
    CU(cuStreamDestroy_v2(busy_stream));
    end_pool(pool);
}

/* A block below 1/1,024 of the peak is not worth a wait. */
TEST(a_small_block_without_a_stream_waits_for_nothing)
{
    tarn_resource *pool = pool_that_has_learned_two(64 * KIB);
    struct gate gate;

    busy_stream = new_stream();
    hold_up(busy_stream, &gate);
    uint64_t waits_before = waits(pool);
    tarn_device_ptr block = take(pool, 256 * MIB, TARN_STREAM_NONE);
    for (int i = 0; i < 2; i++)
        put(pool, take(pool, 64 * KIB, TARN_STREAM_NONE), 64 * KIB, TARN_STREAM_NONE);
    CHECK_EQUAL(waits_before, waits(pool));
    let_on(&gate);
    put(pool, block, 256 * MIB, TARN_STREAM_NONE);
    CU(cuStreamDestroy_v2(busy_stream));
    end_pool(pool);
}
