/* lock.h -- the lock of a pool and those of its magazines: one exchange to take it, one
 * store to leave it.
 *
 * They are held for tens of nanoseconds and never across a driver call, so a second
 * exchange at each leave, by which a mutex finds out whom to wake, is most of what a mutex
 * costs. Here nobody is woken: who waits looks again, at once, then after others have run,
 * then after short sleeps, so that a thread whose turn comes late waits for no more than that.
 */
#ifndef TARN_POOL_LOCK_H
#define TARN_POOL_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

struct tarn__lock {
    atomic_bool held;
};

/* lock.c: wait until it is taken. */
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
