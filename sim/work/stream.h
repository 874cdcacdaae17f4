/* stream.h -- from a CUstream handle to the stream and its queue. */
#ifndef TARN_SIM_STREAM_H
#define TARN_SIM_STREAM_H

#include "sim/work/work.h"

/* Find the stream that `handle` names for the calling thread. 0 and CU_STREAM_LEGACY are
 * the default stream of the current context. CU_STREAM_PER_THREAD (and 0 in a per-thread
 * call) is the thread's stream. A handle that is no stream aborts, as the real driver
 * crashes. The context of the result is active. Locked. */
CUresult sim_stream_find(const char *call, CUstream handle, struct sim_stream **out);

/* The same for calls that take no stream. ENTER has found the context active, but
 * another thread may have reset it since. */
CUresult sim_stream_default(struct sim_stream **out);

/* Return true if a wait for `stream` would return immediately. Locked. */
bool sim_stream_is_idle(const struct sim_stream *stream);

/* Remember that `stream` was ordered after the first `until` operations of `other`;
 * return true if it was, as far as is remembered. Locked. */
void sim_stream_record_order(struct sim_stream *stream, const struct sim_stream *other,
                             uint64_t until);
bool sim_stream_is_after(const struct sim_stream *stream, const struct sim_stream *other,
                         uint64_t until);

/* Make every stream of `context` wait for `event`. Locked. */
CUresult sim_streams_order(struct sim_context *context, CUevent event);

#endif
