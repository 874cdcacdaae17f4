/* lock.h -- the lock of a pool and of its thread caches: one exchange to take it, one
 * store to release it.
 *
 * A thread holds such a lock for tens of nanoseconds and never across a driver call. A
 * mutex needs a second exchange at each release, to find out which thread to wake. That
 * would be most of its cost here. This lock wakes no thread. A waiting thread tries again
 * at once, then after yielding to others, then after short sleeps. A thread whose turn
 * comes late therefore waits no longer than one sleep more.
 */
#ifndef TARN_POOL_LOCK_H
#define TARN_POOL_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

struct tarn__lock {
    atomic_bool held;
};

/* Wait until the lock is taken (lock.c). */
void tarn__lock_wait(struct tarn__lock *lock);

static inline bool tarn__lock_try(struct tarn__lock *lock)
{
    return !atomic_exchange_explicit(&lock->held, true, memory_order_acquire);
}

static inline void tarn__lock_take(struct tarn__lock *lock)
{
    if (!tarn__lock_try(lock))
        tarn__lock_wait(lock);
}

static inline void tarn__lock_leave(struct tarn__lock *lock)
{
    atomic_store_explicit(&lock->held, false, memory_order_release);
}

#endif
