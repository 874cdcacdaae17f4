/* host_function.h -- a host function of the client, queued or captured. */
#ifndef TARN_SIM_HOST_FUNCTION_H
#define TARN_SIM_HOST_FUNCTION_H

#include "sim/core/queue.h"

struct sim_host_function {
    CUhostFn function; /* or, where it is NULL, */
    CUstreamCallback callback;
    void *data;
    CUstream stream; /* as the client passed it; for the callback */
};

/* Create an operation that calls it; NULL: no host memory. */
struct sim_op *sim_host_function_op(const struct sim_host_function *host);

#endif
