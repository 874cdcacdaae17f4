/* hooks.c -- functions that the host gives: a function and its argument change together.
 */
#include "nrt/hooks.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tarn__hooks_lock(void)
{
    pthread_mutex_lock(&lock);
}

void tarn__hooks_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void tarn__hook_set(struct tarn__hook *hook, tarn__any_function *function, void *data)
{
    tarn__hooks_lock();
    *hook = (struct tarn__hook){function, data};
    tarn__hooks_unlock();
}

struct tarn__hook tarn__hook_get(const struct tarn__hook *hook)
{
    tarn__hooks_lock();
    struct tarn__hook got = *hook;
    tarn__hooks_unlock();
    return got;
}
