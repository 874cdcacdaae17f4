/* races.c -- lanes (the states of streams) and vector clocks: the order of operations.
 *
 * The clock of a stream only lists what it learned by waiting and the host has not
 * waited for since. The rest is in `host_time` of each lane. So clocks stay short: two
 * streams that were never ordered are not in each other's clock, and a host that waits
 * empties all clocks.
 */
#include "sim/races/races.h"
#include "sim/core/host_memory.h"
#include "sim/races/timeline.h"
#include "sim/core/thread.h"
#include "sim/core/queue.h"
#include <stdlib.h>

/* A vector clock. It never changes once it is shared: a change makes a copy. */
struct sim_clock {
    unsigned references;
    size_t count;
    struct known {
        const struct sim_timeline *timeline;
        uint64_t time;
    } known[]; /* by lane id */
};

static bool is_on;
/* of streams that exist, or whose work may be unfinished */
static struct sim_timeline *timelines;
/* of destroyed streams whose work the host has seen done */
static struct sim_timeline *free_timelines;
static uint64_t last_timeline_id;
static uint64_t time_steps; /* times ever passed in all lanes */

/* The context whose work the host has seen done, and when. So a free that waits for an
 * idle device need not check each lane again. */
static struct {
    const struct sim_context *context;
    uint64_t time_step;
} synchronized;

/* --- clocks --- */

static struct sim_clock *retain_clock(struct sim_clock *clock)
{
    if (clock)
        clock->references++;
    return clock;
}

static void release_clock(struct sim_clock *clock)
{
    if (clock && --clock->references == 0)
        free(clock);
}

static uint64_t time_in(const struct sim_clock *clock,
                        const struct sim_timeline *timeline)
{
    size_t low = 0, high = clock ? clock->count : 0;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (clock->known[middle].timeline == timeline)
            return clock->known[middle].time;
        if (clock->known[middle].timeline->id < timeline->id)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* Add to `clock`, unless the host has seen it or it is the owner's own time. */
static void add_known(struct sim_clock *clock, const struct known *known,
                      const struct sim_timeline *owner)
{
    if (known->time > known->timeline->host_time && known->timeline != owner)
        clock->known[clock->count++] = *known;
}

/* Create a clock for `owner` with the later time of both for each lane. */
static struct sim_clock *merge(const struct known *a, size_t a_count,
                               const struct known *b, size_t b_count,
                               const struct sim_timeline *owner)
{
    size_t i = 0, j = 0;
    struct sim_clock *clock =
        sim_host_memory_uncounted(sizeof *clock + (a_count + b_count) * sizeof *a);

    clock->references = 1;
    while (i < a_count || j < b_count) {
        if (j == b_count || (i < a_count && a[i].timeline->id < b[j].timeline->id)) {
            add_known(clock, &a[i++], owner);
        } else if (i == a_count || b[j].timeline->id < a[i].timeline->id) {
            add_known(clock, &b[j++], owner);
        } else {
            add_known(clock, a[i].time > b[j].time ? &a[i] : &b[j], owner);
            i++, j++;
        }
    }
    return clock;
}

static void join(struct sim_clock **clock, const struct known *other, size_t count,
                 const struct sim_timeline *owner)
{
    const struct sim_clock *old = *clock;
    struct sim_clock *merged =
        merge(old ? old->known : NULL, old ? old->count : 0, other, count, owner);

    release_clock(*clock);
    *clock = merged;
}

/* Order `clock` of `owner` after a point. A clock that includes a time of a lane
 * includes all that the lane's clock included at that time. */
static void join_point(struct sim_clock **clock, const struct sim_point *point,
                       const struct sim_timeline *owner)
{
    struct known self = {point->timeline, point->time};

    if (!point->timeline || point->timeline == owner ||
        point->time <= point->timeline->host_time ||
        point->time <= time_in(*clock, point->timeline))
        return;
    if (point->clock)
        join(clock, point->clock->known, point->clock->count, owner);
    join(clock, &self, 1, owner);
}

static struct sim_point now_of(const struct sim_timeline *timeline)
{
    return (struct sim_point){(struct sim_timeline *)(uintptr_t)timeline, timeline->time,
                              timeline->clock};
}

static void join_timeline(struct sim_timeline *timeline, const struct sim_timeline *other)
{
    struct sim_point point = now_of(other);

    join_point(&timeline->clock, &point, timeline);
}

bool sim_timeline_comes_after(const struct sim_timeline *timeline,
                              const struct sim_access *access)
{
    const struct sim_timeline *other = access->timeline;

    return !other || other == timeline || access->time <= other->host_time ||
           (timeline && access->time <= time_in(timeline->clock, other));
}

static void advance_time(struct sim_timeline *timeline)
{
    timeline->time++;
    time_steps++;
}

/* --- lanes --- */

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

/* Times continue in a reused lane, so old clocks and accesses may still name it. */
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
        release_clock(timeline->clock);
        timeline->clock = NULL;
        sim_point_drop(&timeline->last);
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
            join_timeline(timeline, context->legacy->timeline);
        return;
    }
    for (struct sim_timeline *other = timelines; other; other = other->next)
        if (other->context == context && other->is_blocking)
            join_timeline(timeline, other);
}

void sim_races_queue(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_timeline *timeline;

    if (!is_on)
        return;
    timeline = timeline_of(stream);
    if (op->clock)
        join(&timeline->clock, op->clock->known, op->clock->count, timeline);
    sim_races_drop(op);
    order_by_default_stream(stream, timeline);
    advance_time(timeline);
    release_clock(timeline->last.clock);
    timeline->last = now_of(timeline);
    retain_clock(timeline->last.clock);
    if (op->touch)
        op->touch(op->data, timeline);
}

void sim_races_after(struct sim_op *op, struct sim_stream *stream, uint64_t until)
{
    if (is_on && stream->timeline && until == stream->queued)
        join_point(&op->clock, &stream->timeline->last, NULL);
}

void sim_races_drop(struct sim_op *op)
{
    release_clock(op->clock);
    op->clock = NULL;
}

void sim_point_get(struct sim_point *point, struct sim_stream *stream)
{
    sim_point_drop(point);
    if (!is_on || !stream->timeline)
        return;
    *point = now_of(stream->timeline);
    retain_clock(point->clock);
}

void sim_point_drop(struct sim_point *point)
{
    release_clock(point->clock);
    *point = (struct sim_point){0};
}

/* The time of the lane advances, so that streams that are ordered after it see the
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
    join_point(&timeline->clock, point, timeline);
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
            join_timeline(timeline, other);
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
    point = now_of(timeline);
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
            struct sim_point point = now_of(timeline);
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
