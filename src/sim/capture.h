/* capture.h -- streams that record their work in a graph instead of doing it.
 *
 * A capture has an origin, the stream it was begun on, and other members: streams that
 * waited for an event recorded in it. Each member knows the nodes that what it captures
 * next comes after. What a call does to captures is a rule in capture_rules.h; ENTER and
 * sim_stream_find ask for it, so that no call can forget. A lost capture stays, and its
 * members refuse work, until it is ended.
 */
#ifndef TARN_SIM_CAPTURE_H
#define TARN_SIM_CAPTURE_H

#include "sim/graph.h"
#include "sim/work.h"

enum sim_capture_rule {
    CAPTURE_HARMLESS = 0,       /* but where it is given a capturing stream: error 900 */
    CAPTURE_UNSAFE = 1,         /* ends captures, as the modes say */
    CAPTURE_UNSAFE_OUTSIDE = 2, /* the same, where its stream does not capture */
    CAPTURE_CAPTURED = 4,       /* may be given a capturing stream */
    CAPTURE_DEFAULT = 8,        /* uses the default stream without naming it */
    CAPTURE_ASKS = 16,          /* refused the legacy stream, it does no harm */
    CAPTURE_CONTEXT = 32,       /* ends all of its context; asks for that itself */
    CAPTURE_LIVE = 64,          /* refused a stream whose capture is lost */
};

struct sim_capture {
    struct sim_capture *next; /* all there are */
    uint64_t id;
    CUstreamCaptureMode mode;
    uint64_t thread;            /* that began it */
    struct sim_member *members; /* the origin is the last one */
    struct sim_stream *origin;  /* counted by its member */
    struct sim_graph *graph;
    bool is_lost;
};

/* A stream's part in a capture. */
struct sim_member {
    struct sim_capture *capture;
    struct sim_member *next;
    struct sim_stream *stream; /* counted */
    struct sim_nodes nodes;    /* what is captured next comes after these */
};

/* A record of an event that was captured: no time on the device. */
struct sim_captured {
    uint64_t capture; /* its id; 0: the event was not recorded in a capture */
    struct sim_nodes nodes;
};

/* Are there captures? Read without the lock: what another thread does at this moment may
 * come before or after. */
bool sim_capture_any(void);

/* --- what the rules say; called only where there are captures. */

/* On the way into `call`, before it looks at its arguments. */
CUresult sim_capture_enter(const char *call);

/* `call` was given `stream`. Locked, as all that follows. */
CUresult sim_capture_stream(const char *call, struct sim_stream *stream);

/* A call that waits for or marks all of `context`: every capture there is lost. */
CUresult sim_capture_context(const struct sim_context *context);

/* The rule of `call`; 0 for names that are no calls. No lock needed. */
unsigned sim_capture_rule(const char *call);

/* --- work on a stream that captures (`stream->member` is set) */

/* A node of `kind` behind what the stream has captured; the caller fills it in. */
CUresult sim_capture_add(struct sim_stream *stream, enum sim_node_kind kind,
                         struct sim_node **out);

/* Record an event: `captured` becomes this place. */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_captured *captured);

/* A stream waits for `captured`, which may draw it into the capture. */
CUresult sim_capture_wait(struct sim_stream *stream, const struct sim_captured *captured);

/* A capturing stream waits for what was not captured. */
CUresult sim_capture_isolate(struct sim_stream *stream);

/* The error of asking for the state of an event recorded in a capture. */
CUresult sim_capture_event_error(const struct sim_captured *captured);

void sim_captured_clear(struct sim_captured *captured);

/* Memory that the graph allocates, and that a graph frees. */
CUresult sim_capture_allocate(struct sim_stream *stream, CUdevice device, size_t bytes,
                              CUdeviceptr *out);
CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr address);

/* --- the ends of captures */

/* The handle of `stream` goes; a capture that it began goes with it. */
void sim_capture_forget_stream(struct sim_stream *stream);

/* `context` dies, and the captures of its streams. */
void sim_capture_forget_context(const struct sim_context *context);

/* Begin on `stream`, which captures nothing, into `graph` behind `nodes`; where it fails
 * all three are as before. End the capture of `stream`; *out is NULL where it was lost. */
CUresult sim_capture_begin(struct sim_stream *stream, struct sim_graph *graph,
                           struct sim_nodes *nodes, CUstreamCaptureMode mode);
CUresult sim_capture_end(struct sim_stream *stream, struct sim_graph **out);

#endif
