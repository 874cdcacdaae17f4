/* capture.c -- the list of captures, their invalidation, and the work of their members.
 */
#include "sim/graph/capture.h"
#include "sim/core/hooks.h"
#include "sim/core/lock.h"
#include "sim/core/thread.h"
#include "sim/graph/capture_rules.h"
#include "sim/work/stream.h"
#include "sim/work/stream_lookup.h"
#include <stdlib.h>

static struct sim_capture *captures;
static uint64_t last_capture_id, last_thread_id;

static uint64_t this_thread(void)
{
    if (!sim_thread.id)
        sim_thread.id = ++last_thread_id;
    return sim_thread.id;
}

/* --- what the rules imply --- */

/* Return true if an unsafe call of this thread invalidates `capture`. A relaxed thread
 * invalidates none. Every other thread invalidates its own captures that are not
 * relaxed. A thread in global mode also invalidates all global captures of any thread.
 * An invalidated capture makes such calls fail in the same way until its owner ends it.
 */
static bool is_affected(const struct sim_capture *capture)
{
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
        sim_thread.capture_mode >= CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->thread == this_thread())
        return true;
    return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

static CUresult invalidate_captures(void)
{
    CUresult result = CUDA_SUCCESS;

    for (struct sim_capture *capture = captures; capture; capture = capture->next)
        if (is_affected(capture)) {
            capture->is_invalidated = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

static bool has_blocking_member(const struct sim_capture *capture,
                                const struct sim_context *context)
{
    for (const struct sim_member *member = capture->members; member;
         member = member->next)
        if (member->stream->context == context &&
            !(member->stream->flags & CU_STREAM_NON_BLOCKING))
            return true;
    return false;
}

/* Fail where the legacy stream would have to wait for a blocking stream that captures.
 */
static CUresult legacy(const struct sim_context *context, unsigned rule)
{
    CUresult result = CUDA_SUCCESS;

    for (struct sim_capture *capture = captures; capture; capture = capture->next)
        if (has_blocking_member(capture, context)) {
            capture->is_invalidated |= !(rule & CAPTURE_QUERY);
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return result;
}

/* Fail for a capturing stream in a call that cannot be captured. */
static CUresult check_member(struct sim_stream *stream, unsigned rule)
{
    if (rule & CAPTURE_LIVE && stream->member->capture->is_invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (rule & CAPTURE_CAPTURED)
        return CUDA_SUCCESS;
    stream->member->capture->is_invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static CUresult check_stream(unsigned rule, struct sim_stream *stream)
{
    CUresult result = CUDA_SUCCESS;

    if (stream->member)
        return check_member(stream, rule);
    if (stream == stream->context->legacy)
        result = legacy(stream->context, rule);
    if (result == CUDA_SUCCESS && rule & CAPTURE_UNSAFE_OUTSIDE)
        result = invalidate_captures();
    return result;
}

CUresult sim_capture_stream(const char *call, struct sim_stream *stream)
{
    return check_stream(sim_capture_rules_find(call), stream);
}

CUresult sim_capture_enter(const char *call)
{
    unsigned rule = sim_capture_rules_find(call);
    CUresult result = CUDA_SUCCESS;

    if (!(rule & (CAPTURE_UNSAFE | CAPTURE_DEFAULT)))
        return CUDA_SUCCESS;
    sim_lock();
    struct sim_stream *stream;
    if (rule & CAPTURE_UNSAFE)
        result = invalidate_captures();
    else if (sim_context_check_current() == CUDA_SUCCESS) {
        result = sim_stream_lookup_default(&stream);
        if (result == CUDA_SUCCESS)
            result = check_stream(rule, stream);
    }
    return sim_lock_leave(result);
}

CUresult sim_capture_context(const struct sim_context *context)
{
    CUresult result = CUDA_SUCCESS;

    for (struct sim_capture *capture = captures; capture; capture = capture->next)
        if (capture->origin->context == context) {
            capture->is_invalidated = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

/* --- members --- */

/* Make `stream` a member after `nodes`, and take over that list. */
static CUresult join(struct sim_capture *capture, struct sim_stream *stream,
                     struct sim_nodes *nodes)
{
    struct sim_member *member = calloc(1, sizeof *member);

    if (!member)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *member = (struct sim_member){
        .capture = capture, .next = capture->members, .stream = stream, .nodes = *nodes};
    *nodes = (struct sim_nodes){0};
    capture->members = member;
    stream->member = member;
    sim_stream_retain(stream);
    return CUDA_SUCCESS;
}

static struct sim_capture *find(uint64_t id)
{
    struct sim_capture *capture = captures;

    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

CUresult sim_capture_node(struct sim_stream *stream, enum sim_node_kind kind,
                          struct sim_node **out)
{
    struct sim_member *member = stream->member;
    struct sim_node *node;

    if (member->capture->is_invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!sim_nodes_reserve(&member->nodes, 1))
        return CUDA_ERROR_OUT_OF_MEMORY;
    node = sim_graph_add_node(member->capture->graph, kind, &member->nodes);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    member->nodes.count = 0;
    sim_nodes_add(&member->nodes, node);
    *out = node;
    return CUDA_SUCCESS;
}

CUresult sim_capture_record(struct sim_stream *stream, struct sim_captured *captured)
{
    const struct sim_member *member = stream->member;
    struct sim_nodes nodes = {0};

    if (member->capture->is_invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!sim_nodes_merge(&nodes, &member->nodes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_capture_clear(captured);
    *captured = (struct sim_captured){member->capture->id, nodes};
    return CUDA_SUCCESS;
}

static CUresult wait_inside(struct sim_member *member, struct sim_capture *capture,
                            const struct sim_captured *captured)
{
    if (!capture || capture->is_invalidated) {
        /* the captured record is not an event to wait for */
        member->capture->is_invalidated = true;
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (capture != member->capture) {
        member->capture->is_invalidated = capture->is_invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    return sim_nodes_merge(&member->nodes, &captured->nodes) ? CUDA_SUCCESS
                                                             : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_capture_wait(struct sim_stream *stream, const struct sim_captured *captured)
{
    struct sim_capture *capture = find(captured->capture);
    struct sim_nodes nodes = {0};
    CUresult result;

    if (stream->member && stream->member->capture->is_invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->member)
        return wait_inside(stream->member, capture, captured);
    if (!capture || capture->is_invalidated)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream == stream->context->legacy) {
        capture->is_invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!sim_nodes_merge(&nodes, &captured->nodes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = join(capture, stream, &nodes);
    sim_nodes_free(&nodes);
    return result;
}

CUresult sim_capture_isolate(struct sim_stream *stream)
{
    struct sim_capture *capture = stream->member->capture;

    if (capture->is_invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    capture->is_invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

CUresult sim_capture_event_error(const struct sim_captured *captured)
{
    struct sim_capture *capture = find(captured->capture);

    if (!capture || capture->is_invalidated)
        return CUDA_ERROR_INVALID_VALUE;
    capture->is_invalidated = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}

void sim_capture_clear(struct sim_captured *captured)
{
    sim_nodes_free(&captured->nodes);
    *captured = (struct sim_captured){0};
}

/* --- beginning and ending --- */

CUresult sim_capture_begin(struct sim_stream *stream, struct sim_graph *graph,
                           struct sim_nodes *nodes, CUstreamCaptureMode mode)
{
    struct sim_capture *capture = calloc(1, sizeof *capture);
    CUresult result;

    if (!capture)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = join(capture, stream, nodes);
    if (result != CUDA_SUCCESS) {
        free(capture);
        return result;
    }
    capture->id = ++last_capture_id;
    capture->mode = mode;
    capture->thread = this_thread();
    capture->origin = stream;
    capture->graph = graph;
    graph->capture = capture;
    capture->next = captures;
    captures = capture;
    atomic_fetch_add(&sim_hooks_captures, 1);
    return CUDA_SUCCESS;
}

/* Release the members' streams. The caller owns the graph. */
static struct sim_graph *release_capture(struct sim_capture *capture)
{
    struct sim_capture **link = &captures;
    struct sim_graph *graph = capture->graph;

    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    while (capture->members) {
        struct sim_member *member = capture->members;
        capture->members = member->next;
        member->stream->member = NULL;
        sim_stream_release(member->stream);
        sim_nodes_free(&member->nodes);
        free(member->edges);
        free(member);
    }
    graph->capture = NULL;
    free(capture);
    atomic_fetch_sub(&sim_hooks_captures, 1);
    return graph;
}

/* Return true if the origin in the end waited for all that the other members captured.
 */
static bool is_joined(const struct sim_capture *capture)
{
    const struct sim_nodes *last = &capture->origin->member->nodes;

    sim_graph_mark_before(capture->graph, last);
    for (const struct sim_member *member = capture->members; member;
         member = member->next)
        for (size_t i = 0; i < member->nodes.count; i++)
            if (!member->nodes.list[i]->is_marked)
                return false;
    return true;
}

static CUresult check_end(const struct sim_capture *capture)
{
    if (capture->is_invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        capture->thread != this_thread())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    return is_joined(capture) ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

CUresult sim_capture_end(struct sim_stream *stream, struct sim_graph **out)
{
    struct sim_capture *capture;
    struct sim_graph *graph;
    CUresult result;

    *out = NULL;
    if (!stream->member)
        return CUDA_ERROR_ILLEGAL_STATE;
    capture = stream->member->capture;
    if (capture->origin != stream) {
        capture->is_invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    result = check_end(capture);
    graph = release_capture(capture);
    if (result == CUDA_SUCCESS)
        *out = graph;
    else
        sim_graph_destroy(graph);
    return result;
}

void sim_capture_forget_stream(struct sim_stream *stream)
{
    if (stream->member && stream->member->capture->origin == stream)
        sim_graph_destroy(release_capture(stream->member->capture));
}

void sim_capture_forget_context(const struct sim_context *context)
{
    struct sim_capture *capture = captures;

    while (capture) {
        struct sim_capture *next = capture->next;
        if (capture->origin->context == context)
            sim_graph_destroy(release_capture(capture));
        capture = next;
    }
}
