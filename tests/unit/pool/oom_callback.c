/* Test out-of-memory callbacks: which run, how often, and never again after their
 * removal. */
#include "field.h"
#include <unistd.h>

static bool never_added(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    (void)data, (void)pool, (void)bytes, (void)attempt;
    return false;
}

static char asked[16];

static bool note_that_it_was_asked(void *data, tarn_resource *pool, size_t bytes,
                                   unsigned attempt)
{
    (void)pool, (void)bytes, (void)attempt;
    strncat(asked, data, sizeof asked - strlen(asked) - 1);
    return false;
}

static void are_asked(tarn_resource *pool, const char *wanted)
{
    asked[0] = 0;
    CHECK(is_refused(pool, 3 * MIB, NULL));
    assert_string_equal(wanted, asked);
}

TEST(callbacks_are_eight_at_most)
{
    char a[] = "a";

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    for (int i = 0; i < 8; i++)
        CHECK_OK(tarn_pool_add_oom_callback(pool, note_that_it_was_asked, a));
    CHECK_STATUS(TARN_LIMIT_REACHED,
                 tarn_pool_add_oom_callback(pool, note_that_it_was_asked, a));
    are_asked(pool, "aaaaaaaa");
    CHECK_OK(tarn_pool_remove_oom_callback(pool, note_that_it_was_asked, a));
    CHECK_OK(tarn_pool_add_oom_callback(pool, note_that_it_was_asked, a));
    end_pool(pool);
}

TEST(callbacks_are_asked_in_the_order_of_their_coming_whoever_left)
{
    char a[] = "a", b[] = "b", c[] = "c", d[] = "d";

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB), *cuda;
    for (char **one = (char *[]){a, b, c, d, NULL}; *one; one++)
        CHECK_OK(tarn_pool_add_oom_callback(pool, note_that_it_was_asked, *one));
    are_asked(pool, "abcd");
    CHECK_OK(tarn_pool_remove_oom_callback(pool, note_that_it_was_asked, b));
    are_asked(pool, "acd");
    CHECK_STATUS(TARN_NOT_FOUND,
                 tarn_pool_remove_oom_callback(pool, note_that_it_was_asked, b));
    CHECK_STATUS(TARN_NOT_FOUND, tarn_pool_remove_oom_callback(pool, never_added, a));
    are_asked(pool, "acd");
    CHECK_OK(tarn_pool_remove_oom_callback(pool, note_that_it_was_asked, d));
    CHECK_OK(tarn_pool_add_oom_callback(pool, note_that_it_was_asked, b));
    CHECK_OK(tarn_pool_remove_oom_callback(pool, note_that_it_was_asked, a));
    are_asked(pool, "cb");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_pool_add_oom_callback(pool, NULL, a));
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_pool_add_oom_callback(cuda, note_that_it_was_asked, a));
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_pool_remove_oom_callback(cuda, note_that_it_was_asked, a));
    CHECK_OK(tarn_resource_release(cuda));
    end_pool(pool);
}

/* --- how often --- */

/* Claim to have freed memory, and free none. */
static bool promise(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    unsigned *calls = data;

    (void)pool;
    CHECK_EQUAL(3 * MIB, bytes);
    CHECK_EQUAL(*calls, attempt);
    ++*calls;
    return true;
}

TEST(callback_that_promises_for_ever_is_called_sixteen_times_for_a_request)
{
    unsigned calls = 0;

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    CHECK_OK(tarn_pool_add_oom_callback(pool, promise, &calls));
    CHECK(is_refused(pool, 3 * MIB, NULL));
    CHECK_EQUAL(16, calls);
    tarn_pool_oom_report report = {.size = sizeof report};
    CHECK_OK(tarn_pool_last_oom_report(&report));
    CHECK_EQUAL(16, report.attempts);
    calls = 0;
    CHECK(is_refused(pool, 3 * MIB, NULL)); /* the next request has a count of its own */
    CHECK_EQUAL(16, calls);
    end_pool(pool);
}

TEST(each_callback_has_a_call_of_the_sixteen)
{
    unsigned calls[8] = {0}, sum = 0;

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    for (int i = 0; i < 8; i++)
        CHECK_OK(tarn_pool_add_oom_callback(pool, promise, &calls[i]));
    CHECK(is_refused(pool, 3 * MIB, NULL));
    for (int i = 0; i < 8; i++) {
        CHECK_EQUAL(i == 0 ? 9 : 1, calls[i]);
        sum += calls[i];
    }
    CHECK_EQUAL(16, sum);
    end_pool(pool);
}

/* A pool that a callback suspends, and that resumes at its use, searches once more. */
static bool put_to_sleep(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    (void)bytes, (void)attempt;
    ++*(unsigned *)data;
    CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
    return true;
}

TEST(request_that_wakes_its_pool_makes_no_more_calls_than_another)
{
    const tarn_pool_options options = {.size = sizeof options,
                                       .maximum_bytes = 2 * MIB,
                                       .oom_policy = TARN_POOL_OOM_FAIL,
                                       .suspended_policy = TARN_POOL_SUSPENDED_RESUME};
    unsigned calls = 0;

    use_driver(0);
    tarn_resource *pool = new_pool(&options);
    CHECK_OK(tarn_pool_add_oom_callback(pool, put_to_sleep, &calls));
    CHECK(is_refused(pool, 3 * MIB, NULL));
    CHECK(calls > 0 && calls <= 16);
    end_pool(pool);
}

static bool allocate_more(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    (void)attempt;
    ++*(unsigned *)data;
    CHECK(is_refused(pool, bytes + MIB, NULL));
    return false;
}

TEST(what_a_callback_allocates_calls_none)
{
    unsigned calls = 0;

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    CHECK_OK(tarn_pool_add_oom_callback(pool, allocate_more, &calls));
    CHECK(is_refused(pool, 3 * MIB, NULL));
    CHECK_EQUAL(1, calls);
    end_pool(pool);
}

/* --- removed while it runs --- */

static bool remove_itself(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    (void)bytes, (void)attempt;
    ++*(unsigned *)data;
    CHECK_OK(tarn_pool_remove_oom_callback(pool, remove_itself, data));
    CHECK_STATUS(TARN_NOT_FOUND,
                 tarn_pool_remove_oom_callback(pool, remove_itself, data));
    return true;
}

TEST(callback_that_removes_itself_is_not_called_again)
{
    unsigned calls = 0, others = 0;

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    CHECK_OK(tarn_pool_add_oom_callback(pool, remove_itself, &calls));
    CHECK_OK(tarn_pool_add_oom_callback(pool, allocate_more, &others));
    for (int i = 0; i < 2; i++)
        CHECK(is_refused(pool, 3 * MIB, NULL));
    CHECK_EQUAL(1, calls);
    CHECK_EQUAL(2, others);
    end_pool(pool);
}

static unsigned number_of_calls;

/* A callback that registers its successor: there is a slot although eight are registered.
 */
static bool replace_itself(void *data, tarn_resource *pool, size_t bytes,
                           unsigned attempt)
{
    (void)bytes;
    CHECK_EQUAL(0, attempt);
    number_of_calls++;
    CHECK_OK(tarn_pool_remove_oom_callback(pool, replace_itself, data));
    CHECK_OK(tarn_pool_add_oom_callback(pool, replace_itself, data));
    return true;
}

TEST(callback_that_is_added_again_and_again_ends_after_sixteen_calls)
{
    char a[] = "a";

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    for (int i = 0; i < 7; i++)
        CHECK_OK(tarn_pool_add_oom_callback(pool, note_that_it_was_asked, a));
    CHECK_OK(tarn_pool_add_oom_callback(pool, replace_itself, NULL));
    number_of_calls = 0;
    CHECK(is_refused(pool, 3 * MIB, NULL));
    CHECK_EQUAL(9, number_of_calls);
    end_pool(pool);
}

static bool must_not_run(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    (void)pool, (void)bytes, (void)attempt;
    *(bool *)data = true;
    return false;
}

static bool remove_the_next(void *data, tarn_resource *pool, size_t bytes,
                            unsigned attempt)
{
    (void)bytes;
    CHECK_STATUS(attempt == 0 ? TARN_OK : TARN_NOT_FOUND,
                 tarn_pool_remove_oom_callback(pool, must_not_run, data));
    return attempt == 0;
}

TEST(callback_that_another_one_removes_is_not_called_for_the_same_request)
{
    bool has_run = false;

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    CHECK_OK(tarn_pool_add_oom_callback(pool, remove_the_next, &has_run));
    CHECK_OK(tarn_pool_add_oom_callback(pool, must_not_run, &has_run));
    CHECK(is_refused(pool, 3 * MIB, NULL));
    CHECK(!has_run);
    end_pool(pool);
}

/* --- by another thread --- */

struct visit {
    tarn_resource *pool;
    tarn_pool_oom_callback call;
    atomic_int inside, removed;
    atomic_bool may_leave, has_left;
};

static bool stay(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    struct visit *visit = data;

    (void)pool, (void)bytes, (void)attempt;
    atomic_fetch_add(&visit->inside, 1);
    while (!atomic_load(&visit->may_leave))
        usleep(500);
    atomic_store(&visit->has_left, true);
    return true;
}

static void *allocate_too_much(void *data)
{
    struct visit *visit = data;

    CHECK(is_refused(visit->pool, 3 * MIB, NULL));
    return NULL;
}

static void *remove_it(void *data)
{
    struct visit *visit = data;

    CHECK_OK(tarn_pool_remove_oom_callback(visit->pool, visit->call, visit));
    CHECK(atomic_load(&visit->has_left)); /* its data may be freed now */
    return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *), void *data)
{
    CHECK_EQUAL(0, pthread_create(thread, NULL, run, data));
}

TEST(removal_waits_for_a_call_on_another_thread)
{
    struct visit visit = {.call = stay};
    pthread_t threads[2];

    use_driver(0);
    visit.pool = strict_pool(2 * MIB);
    CHECK_OK(tarn_pool_add_oom_callback(visit.pool, stay, &visit));
    start(&threads[0], allocate_too_much, &visit);
    while (!atomic_load(&visit.inside))
        usleep(500);
    start(&threads[1], remove_it, &visit);
    usleep(20000); /* otherwise the test shows less */
    atomic_store(&visit.may_leave, true);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    CHECK_EQUAL(1, atomic_load(&visit.inside)); /* it was not called again */
    end_pool(visit.pool);
}

/* All threads enter the callback before one removes it. They do not wait for calls of
 * their own. */
static bool meet_and_remove(void *data, tarn_resource *pool, size_t bytes,
                            unsigned attempt)
{
    struct visit *visit = data;

    (void)bytes, (void)attempt;
    atomic_fetch_add(&visit->inside, 1);
    while (atomic_load(&visit->inside) < 2)
        usleep(500);
    if (tarn_pool_remove_oom_callback(pool, meet_and_remove, data) == TARN_OK)
        atomic_fetch_add(&visit->removed, 1);
    return false;
}

static void removed_by_two_threads_at_once(int registrations)
{
    struct visit visit = {0};
    pthread_t threads[2];

    visit.pool = strict_pool(2 * MIB);
    for (int i = 0; i < registrations; i++)
        CHECK_OK(tarn_pool_add_oom_callback(visit.pool, meet_and_remove, &visit));
    for (int i = 0; i < 2; i++)
        start(&threads[i], allocate_too_much, &visit);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    CHECK_EQUAL(registrations, atomic_load(&visit.removed));
    CHECK_STATUS(TARN_NOT_FOUND,
                 tarn_pool_remove_oom_callback(visit.pool, meet_and_remove, &visit));
    end_pool(visit.pool);
}

TEST(callback_may_remove_itself_on_two_threads_at_once)
{
    use_driver(0);
    removed_by_two_threads_at_once(1);
    removed_by_two_threads_at_once(2);
}

/* --- data that is freed as soon as its callback is removed --- */

enum { ROUNDS = 300, ALLOCATORS = 2 };

static atomic_bool is_over;

static bool use_data(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    unsigned *number = data;

    (void)pool, (void)bytes;
    CHECK_EQUAL(42, __atomic_load_n(number, __ATOMIC_RELAXED));
    return attempt < 3;
}

static void *allocate_too_much_for_ever(void *pool)
{
    while (!atomic_load(&is_over))
        CHECK(is_refused(pool, 3 * MIB, NULL));
    return NULL;
}

TEST(data_may_be_freed_once_its_callback_is_removed)
{
    pthread_t threads[ALLOCATORS];

    use_driver(0);
    tarn_resource *pool = strict_pool(2 * MIB);
    atomic_store(&is_over, false);
    for (int i = 0; i < ALLOCATORS; i++)
        start(&threads[i], allocate_too_much_for_ever, pool);
    unsigned *number;
    int rounds = 0; /* the threads end whether or not there is memory for all */
    while (rounds < ROUNDS && (number = malloc(sizeof *number))) {
        rounds++;
        *number = 42;
        CHECK_OK(tarn_pool_add_oom_callback(pool, use_data, number));
        sched_yield();
        CHECK_OK(tarn_pool_remove_oom_callback(pool, use_data, number));
        *number = 0;
        free(number);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < ALLOCATORS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    CHECK_EQUAL(ROUNDS, rounds);
    end_pool(pool);
}

/* --- memory of the driver's pools --- */

/* The callback of docs/design/pool.md: `data` is the resource over a pool of the driver. */
static bool trim_driver_pool(void *data, tarn_resource *pool, size_t bytes,
                             unsigned attempt)
{
    size_t released = 0;

    (void)pool, (void)bytes;
    return attempt == 0 && tarn_resource_trim(data, 0, &released) == TARN_OK &&
           released > 0;
}

TEST(callback_trims_the_default_pool_of_the_driver_before_a_request_fails)
{
    tarn_async_options options = {.size = sizeof options,
                                  .release_threshold_bytes = SIZE_MAX,
                                  .use_default_pool = true};
    tarn_resource *driver_pool;
    size_t released = 77;

    use_driver(0);
    CHECK_OK(tarn_async_create(0, &options, &driver_pool));
    put(driver_pool, take(driver_pool, 64 * MIB, NULL), 64 * MIB, NULL);
    CU(cuCtxSynchronize());
    tarn_resource *pool = strict_pool(2 * MIB);
    CHECK_OK(tarn_pool_add_oom_callback(pool, trim_driver_pool, driver_pool));
    CHECK(is_refused(pool, 3 * MIB, NULL)); /* over the maximum of this pool */
    CHECK_OK(tarn_resource_trim(driver_pool, 0, &released));
    CHECK_EQUAL(0, released); /* the callback has released it */
    tarn_pool_oom_report report = {.size = sizeof report};
    CHECK_OK(tarn_pool_last_oom_report(&report));
    CHECK_EQUAL(1, report.attempts);
    end_pool(pool);
    CHECK_OK(tarn_resource_release(driver_pool));
}
