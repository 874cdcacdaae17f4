/* races.c -- lanes (the states of streams) and vector clocks: the order of operations.
 *
 * The clock of a stream only lists what it learned by waiting and the host has not
 * waited for since. The rest is in `host_saw` of each lane. So clocks stay short: two
 * streams that were never ordered are not in each other's clock, and a host that waits
 * empties all clocks.
 */
#include "sim/races.h"
#include "sim/api.h"
#include "sim/call.h"
#include "sim/host_memory.h"
#include "sim/lane.h"
#include "sim/thread.h"
#include "sim/work.h"
#include <stdlib.h>

/* A vector clock. It never changes once it is shared: a change makes a copy. */
struct sim_clock {
    unsigned references;
    size_t count;
    struct known {
        const struct sim_lane *lane;
        uint64_t time;
    } known[]; /* by lane id */
};

static bool is_on;
/* of streams that exist, or whose work may be unfinished */
static struct sim_lane *lanes;
/* of destroyed streams whose work the host has seen done */
static struct sim_lane *spare;
static uint64_t last_lane;
static uint64_t moments; /* times ever passed in all lanes */

/* The context whose work the host has seen done, and when. So a free that waits for an
 * idle device need not check each lane again. */
static struct {
    const struct sim_context *context;
    uint64_t moment;
} seen;

/* --- clocks --- */

static struct sim_clock *hold(struct sim_clock *clock)
{
    if (clock)
        clock->references++;
    return clock;
}

static void drop(struct sim_clock *clock)
{
    if (clock && --clock->references == 0)
        free(clock);
}

static uint64_t time_in(const struct sim_clock *clock, const struct sim_lane *lane)
{
    size_t low = 0, high = clock ? clock->count : 0;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (clock->known[middle].lane == lane)
            return clock->known[middle].time;
        if (clock->known[middle].lane->id < lane->id)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* Add to `clock`, unless the host has seen it or it is the owner's own time. */
static void note(struct sim_clock *clock, const struct known *known,
                 const struct sim_lane *owner)
{
    if (known->time > known->lane->host_saw && known->lane != owner)
        clock->known[clock->count++] = *known;
}

/* Create a clock for `owner` with the later time of both for each lane. */
static struct sim_clock *merge(const struct known *a, size_t a_count,
                               const struct known *b, size_t b_count,
                               const struct sim_lane *owner)
{
    size_t i = 0, j = 0;
    struct sim_clock *clock =
        sim_instrument_memory(sizeof *clock + (a_count + b_count) * sizeof *a);

    clock->references = 1;
    while (i < a_count || j < b_count) {
        if (j == b_count || (i < a_count && a[i].lane->id < b[j].lane->id)) {
            note(clock, &a[i++], owner);
        } else if (i == a_count || b[j].lane->id < a[i].lane->id) {
            note(clock, &b[j++], owner);
        } else {
            note(clock, a[i].time > b[j].time ? &a[i] : &b[j], owner);
            i++, j++;
        }
    }
    return clock;
}

static void join(struct sim_clock **clock, const struct known *other, size_t count,
                 const struct sim_lane *owner)
{
    const struct sim_clock *old = *clock;
    struct sim_clock *merged =
        merge(old ? old->known : NULL, old ? old->count : 0, other, count, owner);

    drop(*clock);
    *clock = merged;
}

/* Order `clock` of `owner` after a point. A clock that includes a time of a lane
 * includes all that the lane's clock included at that time. */
static void join_point(struct sim_clock **clock, const struct sim_point *point,
                       const struct sim_lane *owner)
{
    struct known self = {point->lane, point->time};

    if (!point->lane || point->lane == owner || point->time <= point->lane->host_saw ||
        point->time <= time_in(*clock, point->lane))
        return;
    if (point->clock)
        join(clock, point->clock->known, point->clock->count, owner);
    join(clock, &self, 1, owner);
}

static struct sim_point now_of(const struct sim_lane *lane)
{
    return (struct sim_point){(struct sim_lane *)(uintptr_t)lane, lane->time,
                              lane->clock};
}

static void join_lane(struct sim_lane *lane, const struct sim_lane *other)
{
    struct sim_point point = now_of(other);

    join_point(&lane->clock, &point, lane);
}

bool sim_lane_comes_after(const struct sim_lane *lane, const struct sim_access *access)
{
    const struct sim_lane *other = access->lane;

    return !other || other == lane || access->time <= other->host_saw ||
           (lane && access->time <= time_in(lane->clock, other));
}

static void pass_time(struct sim_lane *lane)
{
    lane->time++;
    moments++;
}

/* --- lanes --- */

static struct sim_lane *lane_of(struct sim_stream *stream)
{
    struct sim_lane *lane = stream->lane;

    if (lane)
        return lane;
    lane = spare;
    if (lane) {
        spare = lane->next;
    } else {
        lane = sim_instrument_memory(sizeof *lane);
        lane->id = ++last_lane;
    }
    lane->context = stream->context;
    lane->stream_id = stream->id;
    lane->is_blocking = !stream->is_internal && !(stream->flags & CU_STREAM_NON_BLOCKING);
    lane->is_gone = false;
    lane->next = lanes;
    lanes = lane;
    stream->lane = lane;
    return lane;
}

void sim_races_end_stream(struct sim_stream *stream)
{
    if (stream->lane)
        stream->lane->is_gone = true;
    stream->lane = NULL;
}

static void host_sees(struct sim_lane *lane, uint64_t time)
{
    if (lane->host_saw < time)
        lane->host_saw = time;
}

/* Times continue in a reused lane, so old clocks and accesses may still name it. */
static void spare_gone_lanes(void)
{
    struct sim_lane **link = &lanes;

    while (*link) {
        struct sim_lane *lane = *link;
        if (!lane->is_gone || lane->host_saw < lane->time) {
            link = &lane->next;
            continue;
        }
        *link = lane->next;
        drop(lane->clock);
        lane->clock = NULL;
        sim_point_drop(&lane->last);
        lane->next = spare;
        spare = lane;
    }
}

void sim_races_start(bool on)
{
    for (struct sim_lane *lane = lanes; lane; lane = lane->next)
        lane->host_saw = lane->time;
    spare_gone_lanes();
    sim_bytes_forget_all();
    is_on = on;
}

/* --- ordering --- */

/* The legacy stream is ordered after all blocking streams, and they after it. */
static void order_by_default_stream(struct sim_stream *stream, struct sim_lane *lane)
{
    struct sim_context *context = stream->context;

    if (!lane->is_blocking)
        return;
    if (stream != context->legacy) {
        if (context->legacy && context->legacy->lane)
            join_lane(lane, context->legacy->lane);
        return;
    }
    for (struct sim_lane *other = lanes; other; other = other->next)
        if (other->context == context && other->is_blocking)
            join_lane(lane, other);
}

void sim_races_queue(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_lane *lane;

    if (!is_on)
        return;
    lane = lane_of(stream);
    if (op->clock)
        join(&lane->clock, op->clock->known, op->clock->count, lane);
    sim_races_drop(op);
    order_by_default_stream(stream, lane);
    pass_time(lane);
    drop(lane->last.clock);
    lane->last = now_of(lane);
    hold(lane->last.clock);
    if (op->touch)
        op->touch(op->data, lane);
}

void sim_races_after(struct sim_op *op, struct sim_stream *stream, uint64_t until)
{
    if (is_on && stream->lane && until == stream->queued)
        join_point(&op->clock, &stream->lane->last, NULL);
}

void sim_races_drop(struct sim_op *op)
{
    drop(op->clock);
    op->clock = NULL;
}

void sim_point_take(struct sim_point *point, struct sim_stream *stream)
{
    sim_point_drop(point);
    if (!is_on || !stream->lane)
        return;
    *point = now_of(stream->lane);
    hold(point->clock);
}

void sim_point_drop(struct sim_point *point)
{
    drop(point->clock);
    *point = (struct sim_point){0};
}

/* The time of the lane advances, so that streams that are ordered after it see the
 * change. A wait is a barrier on the legacy stream. On another stream it may be no
 * operation at all, so it is not ordered after the legacy stream. */
void sim_races_order(struct sim_stream *stream, const struct sim_point *point)
{
    struct sim_lane *lane;

    if (!is_on || !point->lane)
        return;
    lane = lane_of(stream);
    if (stream == stream->context->legacy)
        order_by_default_stream(stream, lane);
    join_point(&lane->clock, point, lane);
    pass_time(lane);
}

void sim_races_order_context(struct sim_stream *fence)
{
    struct sim_lane *lane;

    if (!is_on)
        return;
    lane = lane_of(fence);
    for (struct sim_lane *other = lanes; other; other = other->next)
        if (other->context == fence->context)
            join_lane(lane, other);
}

/* --- waits of the host --- */

void sim_races_host_waits_for(const struct sim_point *point)
{
    if (!is_on || !point->lane)
        return;
    host_sees(point->lane, point->time);
    for (size_t i = 0; point->clock && i < point->clock->count; i++)
        host_sees((struct sim_lane *)(uintptr_t)point->clock->known[i].lane,
                  point->clock->known[i].time);
}

void sim_races_host_waits(struct sim_stream *stream)
{
    struct sim_lane *lane;
    struct sim_point point;

    if (!is_on)
        return;
    lane = lane_of(stream);
    if (stream == stream->context->legacy)
        order_by_default_stream(stream, lane);
    point = now_of(lane);
    sim_races_host_waits_for(&point);
}

void sim_races_host_waits_for_context(const struct sim_context *context)
{
    if (!is_on || (seen.context == context && seen.moment == moments))
        return;
    seen.context = context;
    seen.moment = moments;
    for (struct sim_lane *lane = lanes; lane; lane = lane->next)
        if (lane->context == context) {
            struct sim_point point = now_of(lane);
            sim_races_host_waits_for(&point);
        }
    spare_gone_lanes();
}

/* --- accesses --- */

void sim_races_touch(struct sim_lane *lane, uintptr_t start, size_t bytes, bool is_write)
{
    struct sim_access access = {lane, lane->time, lane->stream_id, sim_thread.call,
                                sim_thread.caller};

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

void sim_races_hand_out(struct sim_stream *stream, uintptr_t start, size_t bytes)
{
    struct sim_lane *lane;

    if (!is_on)
        return;
    lane = lane_of(stream);
    pass_time(lane); /* a point of its own: an event recorded before does not cover it */
    sim_bytes_forget(start, bytes);
    sim_races_touch(lane, start, bytes, true);
}
