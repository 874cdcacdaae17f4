/* The lock of a pool: one thread at a time, and who waits gets it. */
#define _GNU_SOURCE
#include "pool/lock.h"
#include "test.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 5000 };

static struct tarn__lock lock;
static unsigned long turns; /* not atomic: the lock is what keeps it right */

static void *take_turns(void *data)
{
    (void)data;
    for (int i = 0; i < ROUNDS; i++) {
        tarn__lock_take(&lock);
        turns++;
        tarn__lock_leave(&lock);
    }
    return NULL;
}

TEST(lock_lets_in_one_thread_at_a_time)
{
    pthread_t threads[THREADS];

    turns = 0;
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, take_turns, NULL));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL((unsigned long)THREADS * ROUNDS, turns);
}

/* It sleeps by then; that it does is not what is asked, but that it comes back. */
TEST(lock_that_is_held_for_long_is_waited_for)
{
    const struct timespec a_while = {.tv_nsec = 20 * 1000 * 1000};
    pthread_t thread;

    turns = 0;
    tarn__lock_take(&lock);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, take_turns, NULL));
    nanosleep(&a_while, NULL);
    CHECK_EQUAL(0, turns);
    tarn__lock_leave(&lock);
    pthread_join(thread, NULL);
    CHECK_EQUAL(ROUNDS, turns);
}

static bool had;

static void *take_while_cancelled(void *data)
{
    (void)data;
    pthread_cancel(pthread_self()); /* at the next call that can end it */
    tarn__lock_take(&lock);
    had = true;
    tarn__lock_leave(&lock);
    pthread_testcancel();
    return NULL;
}

/* It would end with the other locks that it has. */
TEST(lock_is_waited_for_by_a_thread_that_is_cancelled)
{
    const struct timespec a_while = {.tv_nsec = 20 * 1000 * 1000};
    pthread_t thread;
    void *end = NULL;

    had = false;
    tarn__lock_take(&lock);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, take_while_cancelled, NULL));
    nanosleep(&a_while, NULL);
    tarn__lock_leave(&lock);
    pthread_join(thread, &end);
    CHECK(had);
    CHECK(end == PTHREAD_CANCELED);
    CHECK(tarn__lock_try(&lock));
    tarn__lock_leave(&lock);
}

TEST(lock_that_is_held_is_not_had_by_who_only_tries)
{
    CHECK(tarn__lock_try(&lock));
    CHECK(!tarn__lock_try(&lock));
    tarn__lock_leave(&lock);
    CHECK(tarn__lock_try(&lock));
    tarn__lock_leave(&lock);
}

/* Return how a child ends that asserts that it holds the lock. */
static int assert_in_child(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        close(STDERR_FILENO);
        tarn__lock_assert_held(&lock);
        _exit(0);
    }
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    return status;
}

TEST(lock_that_is_missing_ends_a_debug_build)
{
    int status = assert_in_child();

#ifdef TARN_DEBUG
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
    tarn__lock_take(&lock);
    status = assert_in_child();
    tarn__lock_leave(&lock);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
