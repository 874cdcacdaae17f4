/* lock.c -- the single lock, waits for progress, and ids. */
#include "sim/core/lock.h"
#include "base/cancellation.h"
#include "base/mutex_assert.h"

pthread_mutex_t sim_lock_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
static unsigned progress_waiters;
static uint64_t last_id = 6;

/* Of the thread that holds the lock, before it did. */
static int cancellation;

/* A thread that is cancelled in a system call would keep the lock. */
void sim_lock(void)
{
    int before = tarn__cancellation_off();

    pthread_mutex_lock(&sim_lock_mutex);
    cancellation = before;
}

void sim_lock_release(void)
{
    const int before = cancellation;

    pthread_mutex_unlock(&sim_lock_mutex);
    tarn__cancellation_restore(&before);
}

CUresult sim_lock_leave(CUresult result)
{
    sim_lock_release();
    return result;
}

void sim_lock_wait(pthread_cond_t *condition)
{
    tarn__assert_mutex_held(&sim_lock_mutex);

    int before = cancellation;
    pthread_cond_wait(condition, &sim_lock_mutex);
    cancellation = before;
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

    int before = cancellation;
    progress_waiters++;
    bool woken = pthread_cond_timedwait(&progress, &sim_lock_mutex, deadline) == 0;
    cancellation = before;
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
