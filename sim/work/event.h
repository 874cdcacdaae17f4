/* event.h -- events: points in a stream that other streams and the host can wait for. */
#ifndef TARN_SIM_EVENT_H
#define TARN_SIM_EVENT_H

#include "sim/work/work.h"

/* Make work queued on `stream` from now on wait for `event`. Or, if the event was
 * captured, join the stream to its capture. Locked, as are all functions here. */
CUresult sim_event_order(CUevent event, struct sim_stream *stream);

/* Return CUDA_SUCCESS if the handle is a live event. */
CUresult sim_event_check(CUevent event);

/* Add a node on `stream`, which captures: it waits for `event` at every launch. */
CUresult sim_event_capture_wait(CUevent event, struct sim_stream *stream);

/* Create an operation that records `event`. sim_event_record_with() queues it. */
CUresult sim_event_record_op(CUevent event, struct sim_op **out);
CUresult sim_event_record_with(CUevent event, struct sim_stream *stream,
                               struct sim_op *op);

/* Make `op`, which is for `stream`, wait for the last record of `event`. */
CUresult sim_event_order_op(CUevent event, struct sim_op *op, struct sim_stream *stream);

#endif
