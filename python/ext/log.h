/* log.h -- the log of this process: rows of NBEP 7 for all calls to managers.
 *
 * A manager reports its calls to the log. The log keeps the rows in memory, and writes
 * them to a file where one was requested.
 */
#ifndef TARN_PYTHON_LOG_H
#define TARN_PYTHON_LOG_H

#include "state.h"

/* The data of a row, from the manager. Times are CLOCK_MONOTONIC. */
struct tarn__log_call {
    tarn_action action;
    int device;
    uint64_t address; /* 0 for a failure */
    uint64_t stream;
    uint64_t bytes;
    tarn_site site; /* of tarn__log_site(); its strings stay permanently */
    uint64_t start_ns, end_ns;
    uint64_t free_bytes, total_bytes; /* after the call; 0: not known */
};

uint64_t tarn__log_now(void);

/* A call that is over: an allocation, or one that failed. */
void tarn__log_add(const struct tarn__log_call *call);

/* A free that is about to begin takes its place in the log here, because another thread
 * may get the same address before this call returns. The second function records its end.
 * A failed free has no row until its block is returned: Tarn retries it. */
uint64_t tarn__log_free_begin(const struct tarn__log_call *call);
void tarn__log_free_end(uint64_t row, const struct tarn__log_call *call, bool is_back);

/* The functions of log.c for the module. */
extern PyMethodDef tarn__log_methods[];

#endif
