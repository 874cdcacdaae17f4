/* The ends of learned plans, and suspensions beside them, with driver calls failing: a plan is
 * dropped, learning ends and the memory is returned, the device is reset or lost. */
#include "../unit/pool/learn.h"
#include "child.h"
#include "pools_tortured.h"

enum { BEGINNING = 40, OTHERS = 20, LARGE = 4, MOST = 256 * MIB, KEPT = 3 * MIB };

static tarn_resource *learner;
static tarn_device_ptr kept;   /* a block of all steps */
static tarn_stream streams[2]; /* registered: allocations on them make few driver calls */

/* Allocate and free the first blocks of the step that the pool learns. */
static void run_beginning(void)
{
    for (size_t i = 1; i <= BEGINNING; i++)
        put_block(learner, get(learner, i * 8 * KIB, streams[0]), i * 8 * KIB,
                  streams[0]);
}

/* Have the pool follow a plan; no call fails. */
static void begin_that_learned(bool grow_first)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .maximum_bytes = MOST,
                                       .grow_first = grow_first,
                                       .learn = true};

    CHECK_OK(tarn_stream_register(0, one, &streams[0]));
    CHECK_OK(tarn_stream_register(0, other, &streams[1]));
    learner = new_pool(&options);
    kept = take(learner, KEPT, streams[0]);
    CU(cuMemsetD8_v2(kept, 42, KEPT));
    for (int i = 0; i < 2; i++) {
        mark(learner);
        run_beginning();
    }
    mark(learner);
    wait_for_plans(learner, 1);
    run_beginning();
    mark(learner);
    CHECK_EQUAL(BEGINNING, statistics(learner).planned);
}

static void begin(void)
{
    begin_that_learned(false);
}

static void begin_growing(void)
{
    begin_that_learned(true);
}

static void check_kept(void)
{
    unsigned char bytes[2] = {0};

    CU(cuMemcpyDtoH_v2(bytes, kept, 1));
    CU(cuMemcpyDtoH_v2(bytes + 1, kept + KEPT - 1, 1));
    CHECK(bytes[0] == 42 && bytes[1] == 42);
}

/* No call fails any more: the maximum can be allocated, and all memory is returned. */
static void end(void)
{
    size_t released;

    check_kept();
    put(learner, kept, KEPT, streams[0]);
    adds_up(learner);
    put(learner, take(learner, MOST, streams[0]), MOST, streams[0]);
    CHECK_OK(tarn_resource_trim(learner, 0, &released));
    CHECK_EQUAL(0, statistics(learner).reserved);
    end_seen(learner);
    for (int i = 0; i < 2; i++)
        CHECK_OK(tarn_stream_unregister(streams[i]));
}

/* A case: prepare, act with the 1st, 2nd, 3rd ... driver call of `act` failing, and check. */
struct scenario {
    void (*prepare)(void);
    void (*act)(void);
    void (*check)(void);
};

/* Returns the number of failed calls. */
static unsigned long long act(const struct scenario *scenario, const char *faults)
{
    unsigned long long before = sim_live_bytes();

    scenario->prepare();
    sim_configure(faults);
    scenario->act();
    unsigned long long count = sim_faults();
    sim_configure(NULL);
    scenario->check();
    if (sim_live_bytes() != before)
        fail_msg("with %s, %llu bytes leak", faults, sim_live_bytes() - before);
    return count;
}

static const struct scenario *present;

static void each_call_fails(void (*ignored)(void))
{
    char faults[64];
    unsigned nth = 0;

    (void)ignored;
    do
        snprintf(faults, sizeof faults, "fail=nth:%u", ++nth);
    while (act(present, faults) > 0);
    CHECK(nth > 3);
}

static void tortured_scenario(const struct scenario *scenario)
{
    if (!on_sim() || THREADS_ARE_WATCHED)
        skip();
    present = scenario;
    with_streams(each_call_fails, NULL);
}

/* --- a device that is lost --- */

static void begin_with_streams(void)
{
    use_driver(0);
    one = new_stream();
    other = new_stream();
    begin();
}

enum { LOST_MOST = 60 };

static unsigned lost_at;

/* Allocate and free as long as that works. */
static void run_on_lost_device(void)
{
    tarn_device_ptr blocks[OTHERS];

    for (size_t step = 0; step < 3; step++) {
        int count = 0;
        CHILD_STATUS(TARN_OK, tarn_pool_mark_step(learner));
        for (; count < OTHERS; count++) {
            blocks[count] = 77;
            if (tarn_resource_allocate(learner, (step + 1) * MIB, 0, streams[count & 1],
                                       &blocks[count]) != TARN_OK) {
                CHILD_CHECK(blocks[count] == 77);
                break;
            }
        }
        while (count-- > 0)
            CHILD_STATUS(TARN_OK, tarn_resource_deallocate(learner, blocks[count],
                                                           (step + 1) * MIB, 0,
                                                           streams[count & 1]));
    }
    CHILD_STATUS(TARN_OK, tarn_pool_mark_step(learner));
}

static void lose_the_device(void)
{
    tarn_device_ptr block = 77;
    char faults[64];

    begin_with_streams();
    snprintf(faults, sizeof faults, "lost=%u", lost_at);
    sim_configure(faults);
    run_on_lost_device();
    CHILD_CHECK(sim_faults() > 0);
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_allocate(learner, MOST / 2, 0, streams[0], &block));
    CHILD_CHECK(block == 77);
    unsigned long long calls = sim_calls();
    run_on_lost_device();
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_pool_suspend(learner, TARN_POOL_SUSPEND_KEEP));
    CHILD_MESSAGE("lost");
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(learner, kept, KEPT, 0, streams[0]));
    CHILD_CHECK(sim_calls() == calls);
    CHILD_STATUS(TARN_OK, tarn_resource_release(learner));
}

/* Before the other tests: the children open a driver of their own. */
TEST(a_pool_with_a_plan_ends_wherever_the_device_is_lost)
{
    if (!has_sim() || THREADS_ARE_WATCHED)
        skip();
    for (lost_at = 1; lost_at <= LOST_MOST; lost_at++)
        in_child(lose_the_device);
}

/* --- a device that is reset --- */

/* A step with a plan; the device is reset in it. The program frees all of its blocks then. */
static void reset_in_a_step(void)
{
    tarn_device_ptr blocks[OTHERS], block = 77;

    mark(learner);
    for (size_t i = 0; i < OTHERS; i++)
        blocks[i] = get(learner, (i + 1) * 8 * KIB, streams[0]);
    if (cu.cuDevicePrimaryCtxReset_v2(0) != 0)
        CU(cuDevicePrimaryCtxReset_v2(0));
    CHECK(tarn_resource_allocate(learner, 64 * MIB, 0, NULL, &block) != TARN_OK);
    CHECK_EQUAL(77, block);
    for (size_t i = 0; i < OTHERS; i++)
        IN_THE_END(tarn_resource_deallocate(learner, blocks[i], (i + 1) * 8 * KIB, 0,
                                            streams[0]));
    mark(learner);
    CHECK(tarn_resource_allocate(learner, 64 * MIB, 0, NULL, &block) != TARN_OK);
    CHECK_EQUAL(77, block);
}

static void check_reset(void)
{
    tarn_device_ptr block = 77;

    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_allocate(learner, MIB, 0, NULL, &block));
    CHECK_MESSAGE("was reset");
    CHECK_EQUAL(0, tarn_resource_live_blocks(learner));
    end_pool(learner);
    for (int i = 0; i < 2; i++)
        CHECK_OK(tarn_stream_unregister(streams[i]));
    use_driver(0);
}

TEST(a_pool_with_a_plan_ends_after_a_reset_whatever_call_fails)
{
    static const struct scenario scenario = {begin_with_streams, reset_in_a_step,
                                             check_reset};

    if (!on_sim() || THREADS_ARE_WATCHED)
        skip();
    present = &scenario;
    each_call_fails(NULL);
}

/* --- a plan that does not pay --- */

/* Run so many steps that begin as the learned one does that its plan is given up. No two are equal,
 * so none is learned. */
static void run_other_work(void)
{
    static size_t serial;
    tarn_device_ptr blocks[OTHERS];

    for (int step = 0; step < 8; step++) {
        mark(learner);
        run_beginning();
        size_t bytes = 768 * KIB + ++serial % 256 * 512;
        for (int i = 0; i < OTHERS; i++)
            blocks[i] = get(learner, bytes, streams[i & 1]);
        for (int i = 0; i < OTHERS; i++)
            put_block(learner, blocks[i], bytes, streams[0]);
    }
    mark(learner);
}

/* An allocation that failed is one more in its step, which is of another shape then. */
static void check_dropped(void)
{
    run_other_work();
    CHECK_EQUAL(TARN_POOL_PLAN_LEARNING, statistics(learner).plan_state);
    end();
}

TEST(a_learned_plan_is_dropped_whatever_call_fails)
{
    tortured_scenario(&(const struct scenario){begin, run_other_work, check_dropped});
}

/* --- learning that ends --- */

/* Run a step whose memory no other stream may use yet. */
static void run_behind(size_t bytes)
{
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    tarn_device_ptr blocks[LARGE];

    if (cu.cuLaunchHostFunc(one, wait_at_gate, &gate) != 0)
        CU(cuLaunchHostFunc(one, wait_at_gate, &gate));
    for (int stream = 0; stream < 2; stream++) {
        for (int i = 0; i < LARGE; i++)
            blocks[i] = get(learner, bytes, streams[stream]);
        for (int i = 0; i < LARGE; i++)
            put_block(learner, blocks[i], bytes, streams[stream]);
    }
    pthread_mutex_lock(&gate.lock);
    gate.is_open = true;
    pthread_cond_broadcast(&gate.change);
    pthread_mutex_unlock(&gate.lock);
    if (cu.cuStreamSynchronize(one) != 0)
        CU(cuStreamSynchronize(one));
    mark(learner);
}

static void run_two_behind(void)
{
    static size_t serial;

    for (int i = 0; i < 2; i++)
        run_behind(16 * MIB + ++serial % 256 * 512);
}

static void check_ended(void)
{
    CHECK_EQUAL(TARN_POOL_PLAN_OFF_MEMORY, statistics(learner).plan_state);
    end();
}

TEST(learning_ends_and_memory_is_returned_whatever_call_fails)
{
    tortured_scenario(
        &(const struct scenario){begin_growing, run_two_behind, check_ended});
}

/* --- suspensions --- */

/* Suspend, with the `nth` call failing; 0: none. The pool is suspended, or as before. Returns true
 * if a call failed. */
static bool suspend_with(unsigned nth)
{
    char faults[64];

    snprintf(faults, sizeof faults, "fail=nth:%u", nth);
    sim_configure(nth ? faults : NULL);
    tarn_status status = tarn_pool_suspend(learner, TARN_POOL_SUSPEND_KEEP);
    bool has_failed = sim_faults() > 0;
    sim_configure(NULL);
    tarn_pool_statistics all = statistics(learner);
    CHECK_EQUAL(status == TARN_OK ? all.reserved : 0, all.suspended);
    if (status != TARN_OK) {
        CHECK(status == TARN_DRIVER_FAILURE || status == TARN_OUT_OF_MEMORY);
        check_kept();
    }
    return has_failed;
}

/* Resume, in the same way. */
static bool resume_with(unsigned nth)
{
    tarn_device_ptr block = 77;
    char faults[64];

    snprintf(faults, sizeof faults, "fail=nth:%u", nth);
    sim_configure(nth ? faults : NULL);
    tarn_status status = tarn_pool_resume(learner);
    bool has_failed = sim_faults() > 0;
    sim_configure(NULL);
    tarn_pool_statistics all = statistics(learner);
    CHECK_EQUAL(status == TARN_OK ? 0 : all.reserved, all.suspended);
    if (status != TARN_OK) {
        CHECK_STATUS(TARN_SUSPENDED,
                     tarn_resource_allocate(learner, MIB, 0, streams[0], &block));
        CHECK_EQUAL(77, block);
    }
    return has_failed;
}

/* The pool follows its plan as before. */
static void check_followed(void)
{
    uint64_t planned = statistics(learner).planned;
    mark(learner);
    run_beginning();
    CHECK_EQUAL(BEGINNING, statistics(learner).planned - planned);
    check_kept();
}

/* Have the same call fail in two tries. */
static void suspend_and_resume(void (*ignored)(void))
{
    bool (*const tries[])(unsigned) = {suspend_with, resume_with};

    (void)ignored;
    begin();
    for (int which = 0; which < 2; which++) {
        unsigned nth = 0;
        for (bool has_failed = true; has_failed;) {
            if (tries[which] == resume_with)
                suspend_with(0);
            has_failed = tries[which](++nth);
            tries[which](nth);
            suspend_with(0);
            resume_with(0);
            CHECK_EQUAL(0, statistics(learner).suspended);
            check_followed();
        }
        CHECK(nth > 10);
    }
    end();
}

TEST(a_pool_with_a_plan_is_suspended_and_resumed_though_two_tries_fail)
{
    if (!on_sim() || THREADS_ARE_WATCHED)
        skip();
    with_streams(suspend_and_resume, NULL);
}
