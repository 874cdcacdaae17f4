/* mutex_assert.c -- asking glibc which thread holds a mutex. */
#define _GNU_SOURCE
#include "base/mutex_assert.h"
#include <unistd.h>

#if defined(TARN_DEBUG) && defined(__GLIBC__)
/* glibc notes the id of the thread that holds a mutex, and 0 if none does. */
void tarn__mutex_assert(const pthread_mutex_t *mutex, const char *what,
                        const char *function)
{
    if (mutex->__data.__owner != gettid())
        tarn__mutex_assert_failed(what, function);
}
#endif
