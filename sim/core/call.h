/* call.h -- the prologue of every driver call.
 *
 * A call starts with ENTER(traits). ENTER fails where the driver is not initialized,
 * counts the call, and injects faults, so that a failed call has changed nothing. Then
 * the call checks its arguments, takes the lock, does its work and releases the lock.
 */
#ifndef TARN_SIM_CALL_H
#define TARN_SIM_CALL_H

#include "sim/core/lock.h"
#include "sim/core/misuse.h"
#include "sim/core/options.h"
#include "sim/core/phase.h"

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
CUresult sim_call_enter(const char *call, unsigned traits, void *caller);

#define ENTER(traits)                                                      \
    do {                                                                   \
        CUresult entered_ =                                                \
            sim_call_enter(__func__, traits, __builtin_return_address(0)); \
        if (entered_ != CUDA_SUCCESS)                                      \
            return entered_;                                               \
    } while (0)

/* Use before ENTER, in calls whose output the real driver sets to 0 before any check. */
#define CLEAR(out) sim_call_clear((out), (out) ? sizeof *(out) : 0)
void sim_call_clear(void *out, size_t bytes);

#endif
