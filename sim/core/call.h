/* call.h -- the prologue of every driver call, and the single lock.
 *
 * A call starts with ENTER(traits). ENTER fails where the driver is not initialized,
 * counts the call, and injects faults, so that a failed call has changed nothing. Then
 * the call checks its arguments, takes the lock, does its work and releases the lock.
 * Queued work runs without the lock.
 */
#ifndef TARN_SIM_CALL_H
#define TARN_SIM_CALL_H

#include "sim/core/cuda.h"
#include "sim/core/options.h"
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

enum sim_call_traits {
    CALL_PLAIN = 0,
    CALL_CONTEXT = 1,   /* needs a current context that is alive */
    CALL_ALLOCATES = 2, /* an injected fault is CUDA_ERROR_OUT_OF_MEMORY */
    /* takes a stream or event handle: the real driver accepts it inside a host function
     * and in a forked child */
    CALL_HANDLE = 4,
    CALL_SURVIVES = 8, /* needs no context, but fails if the current one is destroyed */
};

/* Return CUDA_SUCCESS if the call may proceed. `caller` is the client's return address.
 */
CUresult sim_enter(const char *call, unsigned traits, void *caller);

#define ENTER(traits)                                                                 \
    do {                                                                              \
        CUresult entered_ = sim_enter(__func__, traits, __builtin_return_address(0)); \
        if (entered_ != CUDA_SUCCESS)                                                 \
            return entered_;                                                          \
    } while (0)

/* Use before ENTER, in calls whose output the real driver sets to 0 before any check. */
#define CLEAR(out) sim_clear((out), (out) ? sizeof *(out) : 0)
void sim_clear(void *out, size_t bytes);

/* The current options. Read them under the lock. */
extern struct sim_options sim_options;

void sim_lock(void);
void sim_unlock(void);

/* Release the lock and return `result`: the end of most calls. */
CUresult sim_leave(CUresult result);

/* Wait for `condition`, or until queued work makes progress. Releases the lock
 * meanwhile. */
void sim_wait(pthread_cond_t *condition);
void sim_wait_progress(void);

/* The same, but only until `deadline` of the real clock. Return false at the deadline.
 */
bool sim_wait_progress_until(const struct timespec *deadline);

/* Wake the threads that wait for progress of queued work. Under the lock. */
void sim_progress(void);

/* Return true if exit() has begun, or this is a forked child. Workers then leave queued
 * work alone. */
bool sim_is_stopped(void);

/* Return true if this is a forked child of a process that had called cuInit. */
bool sim_is_forked(void);

/* Return true if exit() has begun. Then calls that need no driver fail as well. */
bool sim_is_exiting(void);

/* Name the call whose misuse would crash the real driver, and abort. */
_Noreturn void sim_abort(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same under the lock, which is released first: a test that catches SIGABRT may
 * continue. */
_Noreturn void sim_abort_locked(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same with the option dead=abort. With dead=error the misuse is counted, and the
 * call returns CUDA_ERROR_INVALID_HANDLE. Under the lock. */
void sim_misuse(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Return an id that is never reused, for a stream, a context or a block. Under the lock.
 */
uint64_t sim_next_id(void);

#endif
