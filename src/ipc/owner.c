/* owner.c -- the lock of the owner's side. */
#include "ipc/owner.h"
#include "base/mutex_assert.h"
#include <stddef.h>

struct tarn__mutex tarn__owner_mutex;

/* Runs when the library is loaded. */
__attribute__((constructor)) static void init_mutex(void)
{
    tarn__mutex_init(&tarn__owner_mutex, NULL);
}

void tarn__owner_lock(void)
{
    tarn__mutex_lock(&tarn__owner_mutex);
}

void tarn__owner_unlock(void)
{
    tarn__mutex_unlock(&tarn__owner_mutex);
}

void tarn__owner_wait(pthread_cond_t *condition)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    pthread_cond_wait(condition, &tarn__owner_mutex.mutex);
}
