/* capture.h -- stream capture: streams that record their work in a graph.
 *
 * A capture has an origin, the stream that began it, and other members: streams that
 * waited for an event recorded in it. Each member knows its last nodes: the next
 * captured node comes after those. capture_rules.h has the effect of each call on
 * captures. ENTER and sim_stream_lookup look the rule up, so that no call can omit it. An
 * invalidated capture stays, and its members reject work, until the client ends it.
 */
#ifndef TARN_SIM_CAPTURE_H
#define TARN_SIM_CAPTURE_H

#include "sim/core/queue.h"
#include "sim/graph/graph.h"

struct sim_capture {
    struct sim_capture *next; /* in the list of all captures */
    uint64_t id;
    CUstreamCaptureMode mode;
    uint64_t thread;            /* the thread that began it */
    struct sim_member *members; /* the origin is the last one */
    struct sim_stream *origin;  /* counted by its member */
    struct sim_graph *graph;
    bool is_invalidated;
};

/* The part that one stream has in a capture. */
struct sim_member {
    struct sim_capture *capture;
    struct sim_member *next;
    struct sim_stream *stream; /* counted */
    struct sim_nodes nodes;    /* the next captured node comes after these */
    CUgraphEdgeData *edges;    /* a list of no data for clients, as long as edge_count */
    size_t edge_count;
};

/* --- what the rules imply; called only while there are captures. */

/* Apply the rule at the start of `call`, before it checks its arguments. */
CUresult sim_capture_enter(const char *call);

/* Apply the rule of `call` to `stream`. Locked, as are all functions below. */
CUresult sim_capture_stream(const char *call, struct sim_stream *stream);

/* Invalidate every capture in `context`, for a call that waits for or marks all of it.
 */
CUresult sim_capture_context(const struct sim_context *context);

/* --- work on a stream that captures (`stream->member` is set) */

/* Add a node of `kind` after the captured nodes of the stream. The caller fills it in.
 */
CUresult sim_capture_node(struct sim_stream *stream, enum sim_node_kind kind,
                          struct sim_node **out);

/* Record an event: `captured` becomes the current position of the stream. */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_captured *captured);

/* Make a stream wait for `captured`. That may join it to the capture. */
CUresult sim_capture_wait(struct sim_stream *stream, const struct sim_captured *captured);

/* Make a capturing stream wait for an event that was not captured. */
CUresult sim_capture_isolate(struct sim_stream *stream);

/* The error of querying an event that was recorded in a capture. */
CUresult sim_capture_event_error(const struct sim_captured *captured);

/* Forget what was captured. */
void sim_capture_clear(struct sim_captured *captured);

/* --- the end of captures */

/* The handle of `stream` is destroyed, and with it a capture that it began. */
void sim_capture_forget_stream(struct sim_stream *stream);

/* `context` is destroyed, and with it the captures of its streams. */
void sim_capture_forget_context(const struct sim_context *context);

/* Begin a capture on `stream`, which is not capturing, into `graph` after `nodes`. A
 * failure leaves all three unchanged. The second function ends the capture of `stream`:
 * *out is NULL if it was invalidated. */
CUresult sim_capture_begin(struct sim_stream *stream, struct sim_graph *graph,
                           struct sim_nodes *nodes, CUstreamCaptureMode mode);
CUresult sim_capture_end(struct sim_stream *stream, struct sim_graph **out);

#endif
