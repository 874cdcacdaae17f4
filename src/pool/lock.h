/* lock.h -- the lock of a pool: one exchange to take it, one store to release it.
 *
 * A thread holds such a lock for tens of nanoseconds and never across a driver call. A
 * mutex needs a second exchange at each release, to find out which thread to wake. That
 * would be most of its cost here. This lock wakes no thread.
 *
 * What costs most is not the exchange, but the change of the owner: the heap's memory is
 * in the cache of the core that held the lock last. So a waiting thread stays away from
 * the lock for some microseconds, in which one thread takes it many times. A thread that
 * has waited for long is urgent: threads that release the lock then stay away from it for
 * a moment, so that the urgent one gets it. A thread therefore waits for a fraction of a
 * millisecond at most, unless one hold is longer.
 */
#ifndef TARN_POOL_LOCK_H
#define TARN_POOL_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tarn__lock {
    atomic_bool held;
    atomic_uint urgent; /* number of threads that have waited for long */
#ifdef TARN_TIME_LOCKS
    uint64_t taken_ns; /* CPU time of the thread that holds it */
    void *site;        /* of the code that took it */
#endif
#ifdef TARN_COUNT_LOCKS
    uint64_t taken, waited; /* acquisitions; those that had to wait */
#endif
#ifdef TARN_DEBUG
    _Atomic(pthread_t) owner; /* the thread that holds it; 0: none */
#endif
};

#ifdef TARN_TIME_LOCKS
/* Note that the calling thread has taken a lock, or releases it (bench/holds). */
void tarn__lock_taken(uint64_t *taken_ns, void **site);
void tarn__lock_released(uint64_t taken_ns, void *site);
#endif

/* Wait a moment: the longer, the more turns there were. */
void tarn__lock_back_off(unsigned turn);
/* Wait until the lock is taken (lock.c). */
void tarn__lock_wait(struct tarn__lock *lock);
/* Release the lock, and stay away from it for a moment, so that an urgent thread gets
 * it. */
void tarn__lock_leave_to_urgent(struct tarn__lock *lock);

static inline bool tarn__lock_try(struct tarn__lock *lock)
{
    bool taken = !atomic_exchange_explicit(&lock->held, true, memory_order_acquire);

#ifdef TARN_DEBUG
    if (taken)
        atomic_store_explicit(&lock->owner, pthread_self(), memory_order_relaxed);
#endif
#ifdef TARN_TIME_LOCKS
    if (taken)
        tarn__lock_taken(&lock->taken_ns, &lock->site);
#endif
#ifdef TARN_COUNT_LOCKS
    lock->taken += taken;
#endif
    return taken;
}

static inline void tarn__lock_take(struct tarn__lock *lock)
{
    if (!tarn__lock_try(lock)) {
        tarn__lock_wait(lock);
#ifdef TARN_COUNT_LOCKS
        lock->waited++;
#endif
    }
}

/* Abort with a message if `holds` is false: `function` was called without the lock
 * `what`. At exit and in a forked child queries go on without a lock. */
void tarn__lock_assert(bool holds, const char *what, const char *function);

/* Release the lock. In debug builds, abort with a message if the calling thread does not
 * own it. */
static inline void tarn__lock_leave(struct tarn__lock *lock)
{
#ifdef TARN_TIME_LOCKS
    tarn__lock_released(lock->taken_ns, lock->site);
#endif
#ifdef TARN_DEBUG
    tarn__lock_assert(atomic_load_explicit(&lock->owner, memory_order_relaxed) ==
                          pthread_self(),
                      "lock", __func__);
    atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
#endif
    if (__builtin_expect(atomic_load_explicit(&lock->urgent, memory_order_relaxed), 0))
        tarn__lock_leave_to_urgent(lock);
    else
        atomic_store_explicit(&lock->held, false, memory_order_release);
}

/* In debug builds, abort with a message if the calling thread does not own the lock, which
 * is any structure with an `owner`. */
#ifdef TARN_DEBUG
#define tarn__assert_held(lock)                                                     \
    tarn__lock_assert(atomic_load_explicit(&(lock)->owner, memory_order_relaxed) == \
                          pthread_self(),                                           \
                      #lock, __func__)
#else
#define tarn__assert_held(lock) ((void)sizeof *(lock))
#endif

#endif
