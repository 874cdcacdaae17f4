/* event.h -- points in a stream that others can wait for. */
#ifndef TARN_SIM_EVENT_H
#define TARN_SIM_EVENT_H

#include "sim/work.h"

/* Make what is queued on `stream` from now on wait for `event`; or draw it into the
 * event's capture. Locked, as all here. */
CUresult sim_event_order(CUevent event, struct sim_stream *stream);

/* Is it an event, and alive? */
CUresult sim_event_check(CUevent event);

/* A node on `stream`, which captures: it waits for `event` at every launch. */
CUresult sim_event_capture_wait(CUevent event, struct sim_stream *stream);

/* An operation that records `event`, to be queued by sim_event_record_with(). */
CUresult sim_event_record_op(CUevent event, struct sim_op **out);
CUresult sim_event_record_with(CUevent event, struct sim_stream *stream,
                               struct sim_op *op);

/* Make `op`, which is for `stream`, wait for what `event` was recorded behind. */
CUresult sim_event_order_op(CUevent event, struct sim_op *op, struct sim_stream *stream);

#endif
