/* Test functions that a user sets: no thread runs them after they were removed. */
#define _GNU_SOURCE
#include "base/hook.h"
#include "test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void function(void *data);

static struct tarn__hook hook;

static bool call_it(void)
{
    struct tarn__hook_call call;

    if (!tarn__hook_begin(&hook, &call))
        return false;
    ((function *)call.function)(call.data);
    tarn__hook_end(&call);
    return true;
}

static void set(function *to, void *data)
{
    tarn__hook_set(&hook, (tarn__any_function *)to, data);
}

static void count(void *data)
{
    ++*(int *)data;
}

TEST(hook_is_called_with_its_data_while_it_is_set)
{
    int one = 0, other = 0;

    CHECK(!call_it());
    set(count, &one);
    CHECK(call_it() && call_it());
    set(count, &other);
    CHECK(call_it());
    set(NULL, NULL);
    CHECK(!call_it());
    CHECK(one == 2 && other == 1);
}

/* --- removed while it runs --- */

struct visit {
    atomic_bool is_inside, may_leave, has_left;
};

static void stay(void *data)
{
    struct visit *visit = data;

    atomic_store(&visit->is_inside, true);
    while (!atomic_load(&visit->may_leave))
        usleep(500);
    atomic_store(&visit->has_left, true);
}

static void *visit_it(void *unused)
{
    (void)unused;
    CHECK(call_it());
    return NULL;
}

static void *take_away(void *data)
{
    set(NULL, NULL);
    CHECK(atomic_load(&((struct visit *)data)->has_left));
    return NULL;
}

TEST(hook_that_is_taken_away_is_left_by_all_threads)
{
    struct visit visit = {false};
    pthread_t threads[2];

    set(stay, &visit);
    CHECK_EQUAL(0, pthread_create(&threads[0], NULL, visit_it, NULL));
    while (!atomic_load(&visit.is_inside))
        usleep(500);
    CHECK_EQUAL(0, pthread_create(&threads[1], NULL, take_away, &visit));
    usleep(20000); /* otherwise the test shows less */
    atomic_store(&visit.may_leave, true);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    CHECK(!call_it());
}

static void take_itself_away(void *data)
{
    ++*(int *)data;
    set(NULL, NULL);
    CHECK(!call_it());
}

static void replace_itself(void *data)
{
    ++*(int *)data;
    set(take_itself_away, data);
    CHECK(call_it());
}

TEST(hook_may_change_itself)
{
    int calls = 0;

    set(replace_itself, &calls);
    CHECK(call_it());
    CHECK(!call_it());
    CHECK_EQUAL(2, calls);
}

/* --- data that is freed at once --- */

static atomic_bool is_over;

static void use(void *data)
{
    CHECK_EQUAL(42, *(int *)data);
}

static void *call_for_ever(void *unused)
{
    (void)unused;
    while (!atomic_load(&is_over))
        call_it();
    return NULL;
}

TEST(data_of_a_hook_may_be_freed_once_another_is_set)
{
    pthread_t threads[2];

    atomic_store(&is_over, false);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, call_for_ever, NULL));
    for (int *last = NULL, i = 0; i < 300; i++) {
        int *data = i == 299 ? NULL : malloc(sizeof *data);
        if (data)
            *data = 42;
        set(data ? use : NULL, data);
        if (last)
            *last = 0;
        free(last);
        last = data;
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
}

/* --- forks --- */

static bool child_ends_well(pid_t child)
{
    int status = 1;

    return waitpid(child, &status, 0) == child && status == 0;
}

/* Threads that ran it do not exist in the child, so no call waits for them. */
TEST(forked_child_waits_for_no_thread_of_its_parent)
{
    struct visit visit = {false};
    pthread_t thread;

    set(stay, &visit);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, visit_it, NULL));
    while (!atomic_load(&visit.is_inside))
        usleep(500);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        set(NULL, NULL);
        _exit(call_it());
    }
    CHECK(child_ends_well(child));
    atomic_store(&visit.may_leave, true);
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    set(NULL, NULL);
}

static void fork_inside(void *data)
{
    *(pid_t *)data = fork();
}

/* The child's own call goes on, and is counted. */
TEST(hook_that_forks_ends_in_both_processes)
{
    pid_t child = -1;

    set(fork_inside, &child);
    CHECK(call_it());
    if (child == 0) {
        alarm(20);
        set(NULL, NULL);
        _exit(0);
    }
    CHECK(child_ends_well(child));
    set(NULL, NULL);
}

/* The child works, whatever another thread does with the lock at the time of the fork. */
TEST(forked_child_may_set_and_call_hooks)
{
    pthread_t thread;
    int number = 42;

    set(use, &number);
    atomic_store(&is_over, false);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, call_for_ever, NULL));
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            call_it();
            set(NULL, NULL);
            _exit(call_it());
        }
        CHECK(child_ends_well(child));
    }
    atomic_store(&is_over, true);
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    set(NULL, NULL);
}
