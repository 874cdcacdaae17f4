/* Test the lock of a pool: one thread holds it at a time, and waiting threads get it. */
#define _GNU_SOURCE
#include "pool/lock.h"
#include "aborts.h"
#include "test.h"
#include <pthread.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 5000 };

static struct tarn__lock lock;
static unsigned long turns; /* not atomic: the lock protects it */

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

/* It sleeps by then. The test does not check the sleep, but that the thread returns. */
TEST(lock_that_is_held_for_long_is_waited_for)
{
    const struct timespec a_while = {.tv_nsec = 20 * 1000 * 1000};
    pthread_t thread;

    turns = 0;
    tarn__lock_take(&lock);
    int error = pthread_create(&thread, NULL, take_turns, NULL);
    nanosleep(&a_while, NULL);
    unsigned long too_early = turns;
    tarn__lock_leave(&lock); /* for the next tests, too */
    CHECK_EQUAL(0, error);
    CHECK_EQUAL(0, too_early);
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

/* It would end with the other locks that it holds. */
TEST(lock_is_waited_for_by_a_thread_that_is_cancelled)
{
    const struct timespec a_while = {.tv_nsec = 20 * 1000 * 1000};
    pthread_t thread;
    void *end = NULL;

    had = false;
    tarn__lock_take(&lock);
    int error = pthread_create(&thread, NULL, take_while_cancelled, NULL);
    nanosleep(&a_while, NULL);
    tarn__lock_leave(&lock);
    CHECK_EQUAL(0, error);
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

static void assert_it(void)
{
    tarn__assert_held(&lock);
}

/* Return true if the assertion that this thread has the lock ends the program. */
static bool assertion_aborts(void)
{
    return test_aborts(assert_it);
}

TEST(lock_that_is_missing_ends_a_debug_build)
{
#ifdef TARN_DEBUG
    CHECK(assertion_aborts());
#endif
    tarn__lock_take(&lock);
    CHECK(!assertion_aborts());
    tarn__lock_leave(&lock);
}

static void release_it(void)
{
    tarn__lock_leave(&lock);
}

TEST(release_of_a_lock_that_is_not_held_ends_a_debug_build)
{
#ifdef TARN_DEBUG
    CHECK(test_aborts(release_it));
#endif
    tarn__lock_take(&lock);
    CHECK(!test_aborts(release_it));
}
