/* host_function.h -- a function of the client, as it is queued or captured. */
#ifndef TARN_SIM_HOST_FUNCTION_H
#define TARN_SIM_HOST_FUNCTION_H

#include "sim/work.h"

struct sim_host_function {
    CUhostFn function; /* or, where it is NULL, */
    CUstreamCallback callback;
    void *data;
    CUstream stream; /* as the client named it; for the callback */
};

/* An operation that calls it; NULL: no host memory. */
struct sim_op *sim_host_function_op(const struct sim_host_function *host);

#endif
