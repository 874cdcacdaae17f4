/* event.h -- events: points in a stream that other streams and the host can wait for.
 * Locked, as are all functions here. */
#ifndef TARN_SIM_EVENT_H
#define TARN_SIM_EVENT_H

#include "sim/core/captured.h"
#include "sim/core/queue.h"
#include "sim/races/races.h"

struct sim_event_share;

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

/* The live event of `handle`. */
CUresult sim_event_find(CUevent handle, struct sim_event **out);

/* Create an event of the current context. The event owns `share` from then on. */
CUresult sim_event_create(CUevent *out, unsigned flags, struct sim_event_share *share);

/* Destroy the handle. The event lives until its queued records are complete. */
void sim_event_destroy(CUevent handle, struct sim_event *event);

/* Release a reference. */
void sim_event_release(struct sim_event *event);

/* Return true if the last record is complete, or there is none. */
bool sim_event_is_done(const struct sim_event *event);

/* Record `event` on `stream`; after all work queued in `context`, including that of
 * destroyed streams. */
CUresult sim_event_record(struct sim_event *event, struct sim_stream *stream);
CUresult sim_event_record_context(struct sim_event *event, struct sim_context *context);

/* Make work queued on `stream` from now on wait for `event`. Or, if the event was
 * captured, join the stream to its capture. */
CUresult sim_event_order(CUevent event, struct sim_stream *stream);

/* Return CUDA_SUCCESS if the handle is a live event. */
CUresult sim_event_check(CUevent event);

/* Create an operation that records `event`. sim_event_record_with() queues it. */
CUresult sim_event_record_op(CUevent event, struct sim_op **out);
CUresult sim_event_record_with(CUevent event, struct sim_stream *stream,
                               struct sim_op *op);

/* Make `op`, which is for `stream`, wait for the last record of `event`. */
CUresult sim_event_order_op(CUevent event, struct sim_op *op, struct sim_stream *stream);

#endif
