/* event.h -- points in a stream that others can wait for. */
#ifndef TARN_SIM_EVENT_H
#define TARN_SIM_EVENT_H

#include "sim/work.h"

/* Make what is queued on `stream` from now on wait for `event`. Locked. */
CUresult sim_event_order(CUevent event, struct sim_stream *stream);

#endif
