/* lock.c -- waiting for a lock that another thread holds. */
#define _GNU_SOURCE
#include "pool/lock.h"
#include "base/cancellation.h"
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

/* As with a mutex, cancellation is off here. */
static void sleep_briefly(void)
{
    const struct timespec time = {.tv_nsec = SLEEP_NS};

    TARN__NOT_CANCELLED;
    nanosleep(&time, NULL);
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

/* --- waiting for a lock ---
 *
 * Tries for about the length of a few holds; then the time between two tries doubles from
 * FIRST_NS to MOST_NS. After URGENT_NS the thread is urgent, and tries all the time. After
 * SLEEP_AFTER_NS it sleeps between two tries: the holder is not running, or has much to
 * do. */
enum {
    TRIES = 8,
    FIRST_NS = 4000,
    MOST_NS = 32 * 1000,
    URGENT_NS = 250 * 1000,
    SLEEP_AFTER_NS = 1000 * 1000,
    GIVE_WAY_NS = 1000
};

static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Let other threads run until `ns` have passed since `from`. Returns the time. */
static uint64_t stay_away(uint64_t from, uint64_t ns)
{
    uint64_t now;

    do {
        pause_briefly();
        sched_yield();
        now = now_ns();
    } while (now - from < ns);
    return now;
}

/* Take the lock if it is free. Looking first leaves its cache line to the holder. */
static bool try_if_free(struct tarn__lock *lock)
{
    return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
           tarn__lock_try(lock);
}

/* Take the lock as an urgent thread. */
static void take_urgently(struct tarn__lock *lock, uint64_t since)
{
    atomic_fetch_add_explicit(&lock->urgent, 1, memory_order_relaxed);
    while (!try_if_free(lock)) {
        stay_away(0, 0);
        if (now_ns() - since > SLEEP_AFTER_NS)
            sleep_briefly();
    }
    atomic_fetch_sub_explicit(&lock->urgent, 1, memory_order_relaxed);
}

void tarn__lock_wait(struct tarn__lock *lock)
{
    for (int i = 0; i < TRIES; i++) {
        pause_briefly();
        if (try_if_free(lock))
            return;
    }
    uint64_t since = now_ns(), now = since, wait_ns = FIRST_NS;
    do {
        /* Threads that began to wait together do not try together. */
        now = stay_away(now, wait_ns + now % wait_ns / 2);
        if (try_if_free(lock))
            return;
        wait_ns = wait_ns < MOST_NS ? 2 * wait_ns : MOST_NS;
    } while (now - since < URGENT_NS);
    take_urgently(lock, since);
}

void tarn__lock_leave_to_urgent(struct tarn__lock *lock)
{
    atomic_store_explicit(&lock->held, false, memory_order_release);
    stay_away(now_ns(), GIVE_WAY_NS);
}

void tarn__lock_assert(bool holds, const char *what, const char *function)
{
    if (!holds && !tarn__driver_gone())
        tarn__mutex_assert_failed(what, function);
}
