/* stream.h -- from a CUstream to its queue. */
#ifndef TARN_SIM_STREAM_H
#define TARN_SIM_STREAM_H

#include "sim/work.h"

/* The stream that `handle` names for the calling thread: 0 and CU_STREAM_LEGACY the
 * default stream of the current context, CU_STREAM_PER_THREAD (and 0 in a per-thread
 * call) the thread's. A handle that is no stream aborts, as the real driver crashes. The
 * context of the result is alive. Locked. */
CUresult sim_stream_find(const char *call, CUstream handle, struct sim_stream **out);

/* The same for calls that name no stream. ENTER has found the context alive, but then
 * another thread may have reset it. */
CUresult sim_stream_default(struct sim_stream **out);

/* Is everything done that a wait for `stream` would wait for? Locked. */
bool sim_stream_is_idle(const struct sim_stream *stream);

/* `stream` was made to come after the first `until` operations of `other`; and
 * was it, as far as is remembered? Locked. */
void sim_stream_note_order(struct sim_stream *stream, const struct sim_stream *other,
                           uint64_t until);
bool sim_stream_is_after(const struct sim_stream *stream, const struct sim_stream *other,
                         uint64_t until);

/* Make every stream of `context` wait for `event`. Locked. */
CUresult sim_streams_order(struct sim_context *context, CUevent event);

#endif
