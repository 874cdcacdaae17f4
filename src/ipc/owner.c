/* owner.c -- the lock of the owner's side. */
#include "ipc/owner.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tarn__owner_lock(void)
{
    pthread_mutex_lock(&lock);
}

void tarn__owner_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void tarn__owner_wait(pthread_cond_t *condition)
{
    pthread_cond_wait(condition, &lock);
}
