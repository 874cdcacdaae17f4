/* Test a pool that learns without host memory or without a thread. The linker sends
 * the calls here that are to fail. */
#include "learn.h"
#include <errno.h>
#include <stdatomic.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *data);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *data);

static atomic_int left = INT32_MAX; /* host allocations until one fails */
static atomic_bool no_thread, is_failed;

static bool fails(void)
{
    if (atomic_load(&left) == INT32_MAX || atomic_fetch_sub(&left, 1) != 0)
        return false;
    atomic_store(&is_failed, true);
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *data)
{
    return atomic_load(&no_thread)
               ? EAGAIN
               : __real_pthread_create(out, attributes, function, data);
}

static tarn_stream stream;
static const struct step step = {.seed = 1, .count = 40, .streams = 1};

static void begin(void)
{
    use_driver(0);
    stream = new_stream();
}

static void end(tarn_resource *pool)
{
    adds_up(pool);
    end_pool(pool);
    CU(cuStreamDestroy_v2(stream));
}

TEST(without_a_thread_nothing_is_planned)
{
    begin();
    tarn_resource *pool = learning_pool();
    atomic_store(&no_thread, true);
    for (int i = 0; i < 6; i++) {
        mark(pool);
        step_run(pool, &step, &stream);
    }
    atomic_store(&no_thread, false);
    CHECK_EQUAL(TARN_POOL_PLAN_OFF_UNREPEATED, statistics(pool).plan_state);
    CHECK_EQUAL(0, statistics(pool).plans_made);
    CHECK_EQUAL(0, statistics(pool).planned);
    end(pool);
}

TEST(a_thread_that_can_be_created_later_plans_later)
{
    begin();
    tarn_resource *pool = learning_pool();
    mark(pool);
    step_run(pool, &step, &stream);
    mark(pool);
    step_run(pool, &step, &stream);
    atomic_store(&no_thread, true);
    mark(pool);
    atomic_store(&no_thread, false);
    step_run(pool, &step, &stream);
    mark(pool);
    wait_for_plans(pool, 1);
    step_run(pool, &step, &stream);
    CHECK_EQUAL(step.count, statistics(pool).planned);
    end(pool);
}

/* Learn a step while one host allocation of a mark or of the thread fails. The pool may have
 * no plan then; at the next repetition it has. */
static bool learn_with_failure(int failing)
{
    begin();
    tarn_resource *pool = learning_pool();
    mark(pool);
    step_run(pool, &step, &stream);
    mark(pool);
    step_run(pool, &step, &stream);
    atomic_store(&is_failed, false);
    atomic_store(&left, failing);
    mark(pool);
    const struct timespec pause = {.tv_nsec = 1000000};
    /* until a plan is made, or the failure has happened and its consequence was entered */
    for (int i = 0; i < test_patience(60000) && !statistics(pool).plans_made &&
                    !atomic_load(&is_failed);
         i++) {
        nanosleep(&pause, NULL);
        mark(pool);
    }
    bool has_failed = atomic_load(&is_failed);
    atomic_store(&left, INT32_MAX);
    for (int i = 0; i < test_patience(60000) && !statistics(pool).plans_made; i++) {
        step_run(pool, &step, &stream);
        mark(pool);
        nanosleep(&pause, NULL);
    }
    CHECK_EQUAL(1, statistics(pool).plans_made);
    uint64_t planned = statistics(pool).planned;
    step_run(pool, &step, &stream);
    CHECK_EQUAL(step.count, statistics(pool).planned - planned);
    end(pool);
    return has_failed;
}

TEST(a_step_is_planned_later_if_host_memory_was_short)
{
    int failing = 0;

    while (failing < 1000 && learn_with_failure(failing))
        failing++;
    CHECK(failing > 20 && failing < 1000);
}

/* Record a step while one host allocation fails: the step is not learned, and its allocations
 * succeed or report that memory is short. */
TEST(a_step_is_recorded_or_not_if_host_memory_is_short)
{
    for (int failing = 0; failing < 60; failing++) {
        begin();
        tarn_resource *pool = learning_pool();
        step_run(pool, &step, &stream);
        mark(pool);
        tarn_device_ptr block = 77;
        atomic_store(&left, failing);
        for (int i = 0; i < 8; i++)
            if (tarn_resource_allocate(pool, MIB, 0, stream, &block) == TARN_OK)
                put(pool, block, MIB, stream);
        atomic_store(&left, INT32_MAX);
        learn_step(pool, &step, &stream);
        step_run(pool, &step, &stream);
        CHECK(statistics(pool).planned > 0);
        end(pool);
    }
}
