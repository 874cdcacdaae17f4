/* owner.c -- the lock of the owner's side. */
#include "ipc/owner.h"
#include "base/mutex_assert.h"

pthread_mutex_t tarn__owner_mutex = PTHREAD_MUTEX_INITIALIZER;

void tarn__owner_lock(void)
{
    pthread_mutex_lock(&tarn__owner_mutex);
}

void tarn__owner_unlock(void)
{
    pthread_mutex_unlock(&tarn__owner_mutex);
}

void tarn__owner_wait(pthread_cond_t *condition)
{
    tarn__assert_mutex_held(&tarn__owner_mutex);

    pthread_cond_wait(condition, &tarn__owner_mutex);
}
