/* event_internal.h -- the struct of an event, for the files that implement events. */
#ifndef TARN_SIM_EVENT_INTERNAL_H
#define TARN_SIM_EVENT_INTERNAL_H

#include "sim/graph/capture.h"
#include "sim/work/event.h"
#include "sim/work/event_share.h"
#include "sim/races/races.h"

struct sim_event {
    struct sim_context *context;
    /* the context's id at creation; if it differs now, the event is dead */
    uint64_t context_generation;
    unsigned flags;
    unsigned references;       /* the handle, and records still queued */
    struct sim_stream *stream; /* of the last record, counted; NULL: never recorded */
    /* complete when the stream has done this many operations */
    uint64_t position;
    uint64_t time_ns;             /* of the last record that is complete */
    struct sim_captured captured; /* its last record, if that was captured */
    /* for races.h: a wait for the event comes after this */
    struct sim_point point;
    struct sim_event_share *share; /* with other processes; NULL: not interprocess */
    uint64_t number;               /* of its last record in this process; needs `share` */
};

/* The live event of `handle`. Locked, as all here. */
CUresult sim_event_find(CUevent handle, struct sim_event **out);

/* Create an event of the current context. The event owns `share` from then on. */
CUresult sim_event_create(CUevent *out, unsigned flags, struct sim_event_share *share);

/* Return true if another process recorded it last. Then *number is that record's number.
 */
bool sim_event_is_foreign(const struct sim_event *event, uint64_t *number);

/* Make `stream` wait for record `number` of another process; or make the host wait for
 * it. They may release the lock meanwhile. */
CUresult sim_event_order_behind_foreign(struct sim_event *event, uint64_t number,
                                        struct sim_stream *stream);
CUresult sim_event_synchronize_foreign(struct sim_event *event, uint64_t number);

#endif
