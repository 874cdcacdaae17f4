/* stream_lookup.h -- from a CUstream handle to the stream and its queue. */
#ifndef TARN_SIM_STREAM_LOOKUP_H
#define TARN_SIM_STREAM_LOOKUP_H

#include "sim/core/queue.h"

/* Find the stream that `handle` names for the calling thread. 0 and CU_STREAM_LEGACY are
 * the default stream of the current context. CU_STREAM_PER_THREAD (and 0 in a per-thread
 * call) is the thread's stream. A handle that is no stream aborts, as the real driver
 * crashes. The context of the result is active. Locked. */
CUresult sim_stream_lookup(const char *call, CUstream handle, struct sim_stream **out);

/* The same for calls that take no stream. ENTER has found the context active, but
 * another thread may have reset it since. */
CUresult sim_stream_lookup_default(struct sim_stream **out);

/* List the streams of `context` that have handles, oldest first. The caller frees the
 * list. NULL: no host memory. Locked. */
struct sim_stream **sim_stream_lookup_all(const struct sim_context *context,
                                          size_t *count);

#endif
