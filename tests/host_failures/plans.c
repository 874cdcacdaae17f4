/* Test the ends of plans with each host allocation failing: a plan does not pay, or the device is
 * reset while a pool follows one. */
#include "../unit/pool/learn.h"
#include "driver_calls.h"
#include "pools_used.h"

enum { BEGINNING = 40, OTHERS = 20, LONG = 4000 };

static char warning[256];

static void note_warning(void *data, const char *message)
{
    (void)data;
    snprintf(warning, sizeof warning, "%s", message);
}

static void begin_with_plan(void)
{
    const struct random_plan wanted = {.seed = 1,
                                       .slots = 100,
                                       .streams = 1,
                                       .threads = 1,
                                       .height = 4096,
                                       .largest = 64};
    tarn_plan *plan = random_plan(&wanted);

    CHECK(plan != NULL);
    options = (tarn_pool_options){
        .size = sizeof options, .maximum_bytes = 20 * MIB, .plan = plan};
    begin_pool();
    options.plan = NULL;
    tarn_plan_release(plan);
    warning[0] = 0;
}

/* Allocate and free the first blocks of the step that begin_that_learned() has learned. */
static tarn_status run_beginning(void)
{
    tarn_status status = TARN_OK;

    for (size_t i = 0; i < BEGINNING && status == TARN_OK; i++) {
        status = get((i + 1) * 8 * KIB, one);
        drop_all(status, one);
    }
    return status;
}

/* A pool that follows a plan of its own. */
static void begin_that_learned(void)
{
    options = (tarn_pool_options){
        .size = sizeof options, .maximum_bytes = 20 * MIB, .learn = true};
    begin_pool();
    for (int i = 0; i < 2; i++) {
        mark(pool);
        CHECK_OK(run_beginning());
    }
    mark(pool);
    wait_for_plans(pool, 1);
    CHECK_OK(run_beginning());
    mark(pool);
    CHECK_EQUAL(BEGINNING, statistics(pool).planned);
}

/* Run a step whose blocks are live at once. */
static tarn_status run_found_step(void)
{
    tarn_status status = TARN_OK;

    for (size_t i = 0; i < BEGINNING && status == TARN_OK; i++)
        status = get((i + 1) * 8 * KIB, one);
    return drop_all(status, one);
}

/* Repeat that step until the pool plans it and follows the plan. */
static void repeat_until_planned(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    uint64_t planned = statistics(pool).planned;

    for (int i = 0; i < 60000 && statistics(pool).planned == planned; i++) {
        CHECK_OK(run_found_step());
        nanosleep(&pause, NULL);
    }
    CHECK(statistics(pool).planned > planned);
}

/* A pool that follows a plan of steps that it has found. */
static void begin_that_found(void)
{
    options = (tarn_pool_options){.size = sizeof options,
                                  .maximum_bytes = 20 * MIB,
                                  .learn = true,
                                  .detect_steps = true};
    begin_pool();
    repeat_until_planned();
}

/* Run steps that begin as a learned one does, and have few bytes of a plan. No two are equal, so
 * none is learned. */
static tarn_status run_other_work(void)
{
    static size_t serial;
    tarn_status status = TARN_OK;

    for (int step = 0; step < 8 && status == TARN_OK; step++) {
        mark(pool);
        status = run_beginning();
        serial++;
        for (size_t i = 0; i < OTHERS && status == TARN_OK; i++)
            status = get(768 * KIB + (serial % 256) * 512, i & 1 ? one : other);
        drop_all(status, one);
    }
    mark(pool);
    return status;
}

static tarn_status turn_plan_off(void)
{
    tarn_status status = run_other_work();

    if (status != TARN_OK)
        return status;
    CHECK_EQUAL(TARN_POOL_PLAN_OFF_MISSED, statistics(pool).plan_state);
    CHECK(strstr(warning, "pool: the plan is off: ") != NULL);
    return TARN_OK;
}

/* Without memory to record it, a step is of an unknown shape, and the plan is not judged by it. */
static tarn_status drop_learned_plan(void)
{
    tarn_status status = run_other_work();

    failing_end();
    CHECK_OK(run_other_work());
    CHECK_EQUAL(TARN_POOL_PLAN_LEARNING, statistics(pool).plan_state);
    uint64_t planned = statistics(pool).planned;
    CHECK_OK(run_beginning());
    CHECK_EQUAL(planned, statistics(pool).planned);
    return status;
}

/* The pool finds no step for long. It finds steps again, whatever memory it had meanwhile. */
static tarn_status lose_found_steps(void)
{
    tarn_status status = TARN_OK;

    for (int i = 0; i < LONG && status == TARN_OK; i++) {
        status = get(MIB, i & 1 ? one : other);
        drop_all(status, one);
    }
    failing_end();
    repeat_until_planned();
    return status;
}

/* --- a reset --- */

/* The pool reports the reset, whatever memory the host has. */
static tarn_status reset(void)
{
    tarn_device_ptr block = 77;
    tarn_status status = TARN_OK;

    if (!options.detect_steps)
        mark(pool);
    for (size_t i = 0; i < BEGINNING / 2 && status == TARN_OK; i++)
        status = get((i + 1) * 8 * KIB, one);
    if (status != TARN_OK)
        return drop_all(status, one);
    reset_the_device();
    if (tarn_resource_allocate(pool, 4 * MIB, 0, NULL, &block) == TARN_OUT_OF_MEMORY)
        failing_end();
    CHECK_EQUAL(77, block);
    CHECK_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_allocate(pool, 4 * MIB, 0, NULL, &block));
    CHECK_MESSAGE("was reset");
    CHECK_EQUAL(77, block);
    drop_all(status, NULL);
    CHECK_EQUAL(0, tarn_resource_live_blocks(pool));
    mark(pool);
    return TARN_OK;
}

static void end_reset(void)
{
    end_pool(pool);
}

TEST(a_plan_ends_or_memory_is_short)
{
    static const struct scenario scenarios[] = {
        {"a plan that is turned off", begin_with_plan, turn_plan_off, end_used},
        {"a learned plan that is dropped", begin_that_learned, drop_learned_plan,
         end_used},
        {"found steps that change", begin_that_found, lose_found_steps, end_used},
        {"a reset while a plan is followed", begin_with_plan, reset, end_reset},
        {"a reset while a learned plan is followed", begin_that_learned, reset,
         end_reset},
        {"a reset while found steps are planned", begin_that_found, reset, end_reset},
    };

    tarn_set_warning_handler(note_warning, NULL);
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        scenario_run(&scenarios[i], 1);
    tarn_set_warning_handler(NULL, NULL);
}
