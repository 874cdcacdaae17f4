/* stream.h -- the state of a stream: creation, references, order. Locked, as are all
 * functions here. */
#ifndef TARN_SIM_STREAM_H
#define TARN_SIM_STREAM_H

#include "sim/core/queue.h"

/* Create a stream of `context` with one reference. NULL: no host memory. */
struct sim_stream *sim_stream_new(struct sim_context *context, unsigned flags);
void sim_stream_retain(struct sim_stream *stream);
void sim_stream_release(struct sim_stream *stream);

/* Return true if its context has not been reset since the stream was created. */
bool sim_stream_is_alive(const struct sim_stream *stream);

/* Return true if a wait for `stream` would return immediately. */
bool sim_stream_is_idle(const struct sim_stream *stream);

/* Remember that `stream` was ordered after the first `until` operations of `other`;
 * return true if it was, as far as is remembered. */
void sim_stream_record_order(struct sim_stream *stream, const struct sim_stream *other,
                             uint64_t until);
bool sim_stream_is_after(const struct sim_stream *stream, const struct sim_stream *other,
                         uint64_t until);

/* Create the streams that an active context has for itself; release them. */
CUresult sim_stream_begin_context(struct sim_context *context);
void sim_stream_end_context(struct sim_context *context);

#endif
