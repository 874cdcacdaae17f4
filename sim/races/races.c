/* races.c -- the order of operations, as far as streams, events and the host define it.
 */
#include "sim/races/races.h"
#include "sim/core/host_memory.h"
#include "sim/core/queue.h"
#include "sim/core/thread.h"
#include "sim/races/bytes.h"
#include <stdlib.h>

static bool is_on;
/* of streams that exist, or whose work may be unfinished */
static struct sim_timeline *timelines;
/* of destroyed streams whose work the host has seen done */
static struct sim_timeline *free_timelines;
static uint64_t last_timeline_id;
static uint64_t time_steps; /* times ever passed in all timelines */

/* The context whose work the host has seen done, and when. So a free that waits for an
 * idle device need not check each timeline again. */
static struct {
    const struct sim_context *context;
    uint64_t time_step;
} synchronized;

static void advance_time(struct sim_timeline *timeline)
{
    timeline->time++;
    time_steps++;
}

/* --- timelines --- */

static struct sim_timeline *timeline_of(struct sim_stream *stream)
{
    struct sim_timeline *timeline = stream->timeline;

    if (timeline)
        return timeline;
    timeline = free_timelines;
    if (timeline) {
        free_timelines = timeline->next;
    } else {
        timeline = sim_host_memory_uncounted(sizeof *timeline);
        timeline->id = ++last_timeline_id;
    }
    timeline->context = stream->context;
    timeline->stream_id = stream->id;
    timeline->is_blocking =
        !stream->is_internal && !(stream->flags & CU_STREAM_NON_BLOCKING);
    timeline->is_stream_destroyed = false;
    timeline->next = timelines;
    timelines = timeline;
    stream->timeline = timeline;
    return timeline;
}

void sim_races_end_stream(struct sim_stream *stream)
{
    if (stream->timeline)
        stream->timeline->is_stream_destroyed = true;
    stream->timeline = NULL;
}

static void advance_host(struct sim_timeline *timeline, uint64_t time)
{
    if (timeline->host_time < time)
        timeline->host_time = time;
}

/* Times continue in a reused timeline, so old clocks and accesses may still name it. */
static void recycle_timelines(void)
{
    struct sim_timeline **link = &timelines;

    while (*link) {
        struct sim_timeline *timeline = *link;
        if (!timeline->is_stream_destroyed || timeline->host_time < timeline->time) {
            link = &timeline->next;
            continue;
        }
        *link = timeline->next;
        sim_timeline_release_clock(timeline->clock);
        timeline->clock = NULL;
        sim_races_drop_point(&timeline->last);
        timeline->next = free_timelines;
        free_timelines = timeline;
    }
}

void sim_races_start(bool on)
{
    for (struct sim_timeline *timeline = timelines; timeline; timeline = timeline->next)
        timeline->host_time = timeline->time;
    recycle_timelines();
    sim_bytes_forget_all();
    is_on = on;
}

/* --- ordering --- */

/* The legacy stream is ordered after all blocking streams, and they after it. */
static void order_by_default_stream(struct sim_stream *stream,
                                    struct sim_timeline *timeline)
{
    struct sim_context *context = stream->context;

    if (!timeline->is_blocking)
        return;
    if (stream != context->legacy) {
        if (context->legacy && context->legacy->timeline)
            sim_timeline_join(timeline, context->legacy->timeline);
        return;
    }
    for (struct sim_timeline *other = timelines; other; other = other->next)
        if (other->context == context && other->is_blocking)
            sim_timeline_join(timeline, other);
}

void sim_races_queue(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_timeline *timeline;

    if (!is_on)
        return;
    timeline = timeline_of(stream);
    if (op->clock)
        sim_timeline_join_clock(timeline, op->clock);
    sim_races_drop(op);
    order_by_default_stream(stream, timeline);
    advance_time(timeline);
    sim_timeline_release_clock(timeline->last.clock);
    timeline->last = sim_timeline_now(timeline);
    sim_timeline_retain_clock(timeline->last.clock);
    if (op->touch)
        op->touch(op->data, timeline);
}

void sim_races_after(struct sim_op *op, struct sim_stream *stream, uint64_t until)
{
    if (is_on && stream->timeline && until == stream->queued)
        sim_timeline_join_point(&op->clock, &stream->timeline->last, NULL);
}

void sim_races_drop(struct sim_op *op)
{
    sim_timeline_release_clock(op->clock);
    op->clock = NULL;
}

void sim_races_get_point(struct sim_point *point, struct sim_stream *stream)
{
    sim_races_drop_point(point);
    if (!is_on || !stream->timeline)
        return;
    *point = sim_timeline_now(stream->timeline);
    sim_timeline_retain_clock(point->clock);
}

void sim_races_drop_point(struct sim_point *point)
{
    sim_timeline_release_clock(point->clock);
    *point = (struct sim_point){0};
}

/* The time of the timeline advances, so that streams that are ordered after it see the
 * change. A wait is a barrier on the legacy stream. On another stream it may be no
 * operation at all, so it is not ordered after the legacy stream. */
void sim_races_order(struct sim_stream *stream, const struct sim_point *point)
{
    struct sim_timeline *timeline;

    if (!is_on || !point->timeline)
        return;
    timeline = timeline_of(stream);
    if (stream == stream->context->legacy)
        order_by_default_stream(stream, timeline);
    sim_timeline_join_point(&timeline->clock, point, timeline);
    advance_time(timeline);
}

void sim_races_order_context(struct sim_stream *record_stream)
{
    struct sim_timeline *timeline;

    if (!is_on)
        return;
    timeline = timeline_of(record_stream);
    for (struct sim_timeline *other = timelines; other; other = other->next)
        if (other->context == record_stream->context)
            sim_timeline_join(timeline, other);
}

/* --- waits of the host --- */

void sim_races_host_waits_for(const struct sim_point *point)
{
    if (!is_on || !point->timeline)
        return;
    advance_host(point->timeline, point->time);
    for (size_t i = 0; point->clock && i < point->clock->count; i++)
        advance_host((struct sim_timeline *)(uintptr_t)point->clock->known[i].timeline,
                     point->clock->known[i].time);
}

void sim_races_host_waits(struct sim_stream *stream)
{
    struct sim_timeline *timeline;
    struct sim_point point;

    if (!is_on)
        return;
    timeline = timeline_of(stream);
    if (stream == stream->context->legacy)
        order_by_default_stream(stream, timeline);
    point = sim_timeline_now(timeline);
    sim_races_host_waits_for(&point);
}

void sim_races_host_waits_for_context(const struct sim_context *context)
{
    if (!is_on ||
        (synchronized.context == context && synchronized.time_step == time_steps))
        return;
    synchronized.context = context;
    synchronized.time_step = time_steps;
    for (struct sim_timeline *timeline = timelines; timeline; timeline = timeline->next)
        if (timeline->context == context) {
            struct sim_point point = sim_timeline_now(timeline);
            sim_races_host_waits_for(&point);
        }
    recycle_timelines();
}

/* --- accesses --- */

void sim_races_touch(struct sim_timeline *timeline, uintptr_t start, size_t bytes,
                     bool is_write)
{
    struct sim_access access = {timeline, timeline->time, timeline->stream_id,
                                sim_thread.call, sim_thread.caller};

    sim_bytes_touch(&access, start, bytes, is_write);
}

void sim_races_touch_by_host(uintptr_t start, size_t bytes)
{
    struct sim_access access = {NULL, 0, 0, sim_thread.call, sim_thread.caller};

    if (!is_on)
        return;
    sim_bytes_touch(&access, start, bytes, true);
    sim_bytes_forget(start, bytes);
}

void sim_races_forget(uintptr_t start, size_t bytes)
{
    if (is_on)
        sim_bytes_forget(start, bytes);
}

void sim_races_allocate(struct sim_stream *stream, uintptr_t start, size_t bytes)
{
    struct sim_timeline *timeline;

    if (!is_on)
        return;
    timeline = timeline_of(stream);
    advance_time(
        timeline); /* a point of its own: an event recorded before does not cover it */
    sim_bytes_forget(start, bytes);
    sim_races_touch(timeline, start, bytes, true);
}
