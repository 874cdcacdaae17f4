/* lock.c -- waiting for a lock that another thread holds. */
#define _GNU_SOURCE
#include "pool/lock.h"
#include "base/mutex_assert.h"
#include "driver/driver.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

/* Tries at once, for a few hundred nanoseconds; then tries after yields; then sleeps. */
enum { LOOKS = 64, YIELDS = 64, SLEEP_NS = 20 * 1000 };

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* nanosleep() is a cancellation point, and a thread that ended there would keep its
 * locks. As with a mutex, cancellation is off here. */
static void sleep_briefly(void)
{
    const struct timespec time = {.tv_nsec = SLEEP_NS};
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    nanosleep(&time, NULL);
    pthread_setcancelstate(state, NULL);
}

void tarn__lock_back_off(unsigned turn)
{
    if (turn < LOOKS)
        pause_briefly();
    else if (turn < LOOKS + YIELDS)
        sched_yield();
    else
        sleep_briefly();
}

void tarn__lock_wait(struct tarn__lock *lock)
{
    unsigned turn = 0;

    do
        while (atomic_load_explicit(&lock->held, memory_order_relaxed))
            tarn__lock_back_off(turn < LOOKS + YIELDS ? turn++ : turn);
    while (!tarn__lock_try(lock));
}

void tarn__lock_assert(bool holds, const char *what, const char *function)
{
    if (!holds && !tarn__driver_gone())
        tarn__mutex_assert_failed(what, function);
}
