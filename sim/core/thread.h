/* thread.h -- the driver's state of each thread. */
#ifndef TARN_SIM_THREAD_H
#define TARN_SIM_THREAD_H

#include "sim/core/cuda.h"
#include <stdbool.h>

struct sim_context;
struct sim_stream;

enum { SIM_STACK_MAX = 64 };

struct sim_thread {
    struct sim_context *stack[SIM_STACK_MAX]; /* the last one is current */
    unsigned depth;
    int capture_mode;
    uint64_t id;               /* assigned when it begins a capture; 0: not yet */
    bool in_host_function;     /* driver calls fail */
    bool is_per_thread;        /* in a _ptds/_ptsz call: stream 0 means per-thread */
    const char *call;          /* the call that this thread is in, or was in last, */
    void *caller;              /* and with races=on the client's address that made it */
    struct sim_stream *stream; /* its per-thread default streams, one per context */
};

extern _Thread_local struct sim_thread sim_thread;

#endif
