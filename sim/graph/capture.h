/* capture.h -- stream capture: streams that record their work in a graph.
 *
 * A capture has an origin, the stream that began it, and other members: streams that
 * waited for an event recorded in it. Each member knows its last nodes: the next
 * captured node comes after those. capture_rules.h has the effect of each call on
 * captures. ENTER and sim_stream_find look the rule up, so that no call can omit it. An
 * invalidated capture stays, and its members reject work, until the client ends it.
 */
#ifndef TARN_SIM_CAPTURE_H
#define TARN_SIM_CAPTURE_H

#include "sim/graph/graph.h"
#include "sim/work/work.h"

enum sim_capture_rule {
    CAPTURE_HARMLESS = 0,       /* but error 900 for a capturing stream */
    CAPTURE_UNSAFE = 1,         /* invalidates captures, according to the modes */
    CAPTURE_UNSAFE_OUTSIDE = 2, /* the same, if its own stream does not capture */
    CAPTURE_CAPTURED = 4,       /* accepts a capturing stream */
    CAPTURE_DEFAULT = 8,        /* uses the default stream implicitly */
    CAPTURE_QUERY = 16,         /* does no harm where the legacy stream makes it fail */
    /* invalidates all of its context, and checks that itself */
    CAPTURE_CONTEXT = 32,
    CAPTURE_LIVE = 64, /* fails for a stream whose capture is invalidated */
};

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
};

/* The captured record of an event: it has no time on the device. */
struct sim_captured {
    uint64_t capture; /* its id; 0: the event was not recorded in a capture */
    struct sim_nodes nodes;
};

/* Return true if there are captures. Read without the lock: a concurrent change by
 * another thread may be ordered before or after. */
bool sim_capture_any(void);

/* --- what the rules imply; called only while there are captures. */

/* Apply the rule at the start of `call`, before it checks its arguments. */
CUresult sim_capture_enter(const char *call);

/* Apply the rule of `call` to `stream`. Locked, as are all functions below. */
CUresult sim_capture_stream(const char *call, struct sim_stream *stream);

/* Invalidate every capture in `context`, for a call that waits for or marks all of it.
 */
CUresult sim_capture_context(const struct sim_context *context);

/* The rule of `call`; 0 for names that are not calls. Needs no lock. */
unsigned sim_capture_rule(const char *call);

/* --- work on a stream that captures (`stream->member` is set) */

/* Add a node of `kind` after the captured nodes of the stream. The caller fills it in.
 */
CUresult sim_capture_add(struct sim_stream *stream, enum sim_node_kind kind,
                         struct sim_node **out);

/* Record an event: `captured` becomes the current position of the stream. */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_captured *captured);

/* Make a stream wait for `captured`. That may join it to the capture. */
CUresult sim_capture_wait(struct sim_stream *stream, const struct sim_captured *captured);

/* Make a capturing stream wait for an event that was not captured. */
CUresult sim_capture_isolate(struct sim_stream *stream);

/* The error of querying an event that was recorded in a capture. */
CUresult sim_capture_event_error(const struct sim_captured *captured);

void sim_captured_clear(struct sim_captured *captured);

/* Allocate memory in the graph, and free it there. */
CUresult sim_capture_allocate(struct sim_stream *stream, CUdevice device, size_t bytes,
                              CUdeviceptr *out);
CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr address);

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
