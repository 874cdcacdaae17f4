/* log_call.h -- the data of a row of the log. */
#ifndef TARN_PYTHON_LOG_CALL_H
#define TARN_PYTHON_LOG_CALL_H

#include "state.h"

#include <time.h>

/* The data of a row. Times are CLOCK_MONOTONIC in nanoseconds. */
struct tarn__log_call {
    tarn_action action;
    int device;
    uint64_t address; /* 0 for a failure */
    uint64_t stream;
    uint64_t bytes;
    bool of_manager; /* else of the observer */
    tarn_site site;  /* of tarn__log_site(); its strings stay permanently */
    tarn_stack stack;
    uint64_t start_ns, end_ns;
    uint64_t free_bytes, total_bytes; /* of the device after the call; 0: not known */
};

/* Return the time of CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t tarn__log_call_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
