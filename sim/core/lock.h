/* lock.h -- the single lock, and waits for progress of queued work.
 *
 * A call takes the lock, does its work and releases the lock. Queued work runs without
 * the lock.
 */
#ifndef TARN_SIM_LOCK_H
#define TARN_SIM_LOCK_H

#include "sim/core/cuda.h"
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

extern pthread_mutex_t sim_lock_mutex;

void sim_lock(void);
void sim_lock_release(void);

/* Release the lock and return `result`: the end of most calls. */
CUresult sim_lock_leave(CUresult result);

/* Wait for `condition`, or until queued work makes progress. Releases the lock
 * meanwhile. `sim_lock_mutex` held, as for the next three. */
void sim_lock_wait(pthread_cond_t *condition);
void sim_lock_wait_progress(void);

/* The same, but only until `deadline` of the real clock. Return false at the deadline.
 */
bool sim_lock_wait_progress_until(const struct timespec *deadline);

/* Wake the threads that wait for progress of queued work. `sim_lock_mutex`
 * held. */
void sim_lock_wake(void);

/* Release the lock in a forked child, which has none of the threads that waited. */
void sim_lock_release_in_child(void);

/* Return an id that is never reused, for a stream, a context or a block. `sim_lock_mutex`
 * held. */
uint64_t sim_lock_next_id(void);

#endif
