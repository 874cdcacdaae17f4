/* Test the assertion that a thread holds a mutex. tests/architecture/assertions.py checks
 * where it stands. */
#define _GNU_SOURCE
#include "base/mutex.h"
#include "base/mutex_assert.h"
#include "aborts.h"
#include "test.h"

static struct tarn__mutex lock;

static void assert_it(void)
{
    tarn__assert_mutex_held(&lock.mutex);
}

/* Return true if the assertion that this thread has the mutex ends the program. */
static bool assertion_aborts(void)
{
    return test_aborts(assert_it);
}

static void *assert_elsewhere(void *out)
{
    *(bool *)out = assertion_aborts();
    return NULL;
}

static bool is_debug_build(void)
{
#if defined(TARN_DEBUG) && defined(__GLIBC__)
    return true;
#else
    return false;
#endif
}

TEST(mutex_that_is_missing_ends_a_debug_build)
{
    bool aborts_elsewhere = false;
    pthread_t thread;

    tarn__mutex_init(&lock, NULL);
    CHECK_EQUAL(is_debug_build(), assertion_aborts());
    tarn__mutex_lock(&lock);
    CHECK(!assertion_aborts());
    CHECK_EQUAL(0, pthread_create(&thread, NULL, assert_elsewhere, &aborts_elsewhere));
    pthread_join(thread, NULL);
    tarn__mutex_unlock(&lock);
    CHECK_EQUAL(is_debug_build(), aborts_elsewhere);
    CHECK_EQUAL(is_debug_build(), assertion_aborts());
    tarn__mutex_destroy(&lock);
}
