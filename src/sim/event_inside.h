/* event_inside.h -- what an event is, for the two files that make up events. */
#ifndef TARN_SIM_EVENT_INSIDE_H
#define TARN_SIM_EVENT_INSIDE_H

#include "sim/capture.h"
#include "sim/event.h"
#include "sim/event_share.h"
#include "sim/races.h"

struct sim_event {
    struct sim_context *context;
    uint64_t life; /* the context's id then: another now means the event is dead */
    unsigned flags;
    unsigned references;           /* the handle, and records still queued */
    struct sim_stream *stream;     /* where it was recorded last, counted; NULL: never */
    uint64_t position;             /* done when the stream has done so many */
    uint64_t time_ns;              /* of the last record that is done */
    struct sim_captured captured;  /* its last record, where that was captured */
    struct sim_point point;        /* what a wait for it comes after, for races.h */
    struct sim_event_share *share; /* with other processes; NULL: it is not for them, */
    uint64_t number;               /* and of its last record here */
};

/* The live event of `handle`. Locked, as all here. */
CUresult sim_event_find(CUevent handle, struct sim_event **out);

/* An event of the current context; `share` is its own from then on. */
CUresult sim_event_create(CUevent *out, unsigned flags, struct sim_event_share *share);

/* Did another process record it last? Then *number is that record's. */
bool sim_event_is_foreign(const struct sim_event *event, uint64_t *number);

/* Make `stream` wait for record `number`, of another process; wait for it. They may give
 * the lock back meanwhile. */
CUresult sim_event_order_behind_foreign(struct sim_event *event, uint64_t number,
                                        struct sim_stream *stream);
CUresult sim_event_synchronize_foreign(struct sim_event *event, uint64_t number);

#endif
