/* lock.c -- the single lock, waits for progress, and ids. */
#include "sim/core/lock.h"
#include "base/mutex_assert.h"

pthread_mutex_t sim_lock_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
static unsigned progress_waiters;
static uint64_t last_id = 6;

void sim_lock(void)
{
    pthread_mutex_lock(&sim_lock_mutex);
}

void sim_lock_release(void)
{
    pthread_mutex_unlock(&sim_lock_mutex);
}

CUresult sim_lock_leave(CUresult result)
{
    sim_lock_release();
    return result;
}

void sim_lock_wait(pthread_cond_t *condition)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    pthread_cond_wait(condition, &sim_lock_mutex);
}

void sim_lock_wait_progress(void)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    progress_waiters++;
    sim_lock_wait(&progress);
    progress_waiters--;
}

bool sim_lock_wait_progress_until(const struct timespec *deadline)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    progress_waiters++;
    bool woken = pthread_cond_timedwait(&progress, &sim_lock_mutex, deadline) == 0;
    progress_waiters--;
    return woken;
}

void sim_lock_wake(void)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    if (progress_waiters)
        pthread_cond_broadcast(&progress);
}

uint64_t sim_lock_next_id(void)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    return ++last_id;
}

void sim_lock_release_in_child(void)
{
    progress = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    progress_waiters = 0;
    sim_lock_release();
}
