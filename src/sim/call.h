/* call.h -- how every driver call begins, and the one lock.
 *
 * A call starts with ENTER(traits): it refuses where the driver is not up, counts the
 * call, and is the place where faults strike, so that a failed call has changed nothing.
 * Then it checks its arguments, takes the lock, works, and leaves it. Queued work runs
 * unlocked.
 */
#ifndef TARN_SIM_CALL_H
#define TARN_SIM_CALL_H

#include "sim/cuda.h"
#include "sim/options.h"
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

enum sim_call_traits {
    CALL_PLAIN = 0,
    CALL_CONTEXT = 1,   /* needs a current context that is alive */
    CALL_ALLOCATES = 2, /* an injected fault is CUDA_ERROR_OUT_OF_MEMORY */
    CALL_HANDLE = 4,    /* goes by a stream's or event's handle: the real driver lets it
                           pass inside a host function, and in a forked child */
    CALL_SURVIVES = 8,  /* needs no context, but the current one must not be dead */
};

/* CUDA_SUCCESS: the call may go on. `caller` is where in the client it was made. */
CUresult sim_enter(const char *call, unsigned traits, void *caller);

#define ENTER(traits)                                                                 \
    do {                                                                              \
        CUresult entered_ = sim_enter(__func__, traits, __builtin_return_address(0)); \
        if (entered_ != CUDA_SUCCESS)                                                 \
            return entered_;                                                          \
    } while (0)

/* Before ENTER, in calls whose output the real driver sets to 0 whatever comes then. */
#define CLEAR(out) sim_clear((out), (out) ? sizeof *(out) : 0)
void sim_clear(void *out, size_t bytes);

/* The options now; read them under the lock. */
extern struct sim_options sim_options;

void sim_lock(void);
void sim_unlock(void);

/* Give the lock back and return `result`: the end of most calls. */
CUresult sim_leave(CUresult result);

/* Wait for `condition`, or until queued work makes progress; the lock is given back
 * meanwhile. */
void sim_wait(pthread_cond_t *condition);
void sim_wait_progress(void);

/* The same, but only until `deadline` of the real clock: then false. */
bool sim_wait_progress_until(const struct timespec *deadline);

/* Queued work made progress: wake who waits for it. Under the lock. */
void sim_progress(void);

/* Has exit() begun, or is this a forked child? Workers then leave queued work alone. */
bool sim_is_down(void);

/* Is this a forked child of a process that was up? */
bool sim_is_forked(void);

/* Has exit() begun? Even what needs no driver refuses then. */
bool sim_is_over(void);

/* Misuse that crashes the real driver: say which call, and abort. */
_Noreturn void sim_abort(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same under the lock, which is given back first: a test that catches SIGABRT may go
 * on. */
_Noreturn void sim_abort_locked(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same by the option dead=abort. By dead=error it is counted, and the call returns
 * CUDA_ERROR_INVALID_HANDLE. Under the lock. */
void sim_misuse(const char *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Ids that are never given twice: streams, contexts, blocks. Under the lock. */
uint64_t sim_next_id(void);

#endif
