/* mutex_assert.h -- debug builds abort where a function is called without the mutex that
 * it requires.
 *
 * pool/lock.h has the same for the locks of a pool. tests/architecture/locks.py checks
 * that a function asserts the locks that its comment names, with "`lock` held".
 */
#ifndef TARN_BASE_MUTEX_ASSERT_H
#define TARN_BASE_MUTEX_ASSERT_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* In debug builds, abort with a message if the calling thread does not hold the mutex, a
 * pthread_mutex_t. Without glibc nothing is checked. */
#if defined(TARN_DEBUG) && defined(__GLIBC__)
#define tarn__assert_mutex_held(mutex) tarn__mutex_assert(mutex, #mutex, __func__)
#else
#define tarn__assert_mutex_held(mutex) ((void)sizeof *(mutex))
#endif

void tarn__mutex_assert(const pthread_mutex_t *mutex, const char *what,
                        const char *function);

/* Report that `function` was called without the lock `what`, and abort. */
static inline void tarn__mutex_assert_failed(const char *what, const char *function)
{
    fprintf(stderr, "tarn: %s() was called without the lock %s\n", function, what);
    abort();
}

#endif
