/* timeline.c -- vector clocks: which times a timeline comes after.
 *
 * The clock of a stream only lists what it learned by waiting and the host has not
 * waited for since. The rest is in `host_time` of each timeline. So clocks stay short:
 * two streams that were never ordered are not in each other's clock, and a host that
 * waits empties all clocks.
 */
#include "sim/races/timeline.h"
#include "sim/core/host_memory.h"
#include <stdlib.h>

struct sim_clock *sim_timeline_retain_clock(struct sim_clock *clock)
{
    if (clock)
        clock->references++;
    return clock;
}

void sim_timeline_release_clock(struct sim_clock *clock)
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
static void add_known(struct sim_clock *clock, const struct sim_known *known,
                      const struct sim_timeline *owner)
{
    if (known->time > known->timeline->host_time && known->timeline != owner)
        clock->known[clock->count++] = *known;
}

/* Create a clock for `owner` with the later time of both for each timeline. */
static struct sim_clock *merge(const struct sim_known *a, size_t a_count,
                               const struct sim_known *b, size_t b_count,
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

static void join(struct sim_clock **clock, const struct sim_known *other, size_t count,
                 const struct sim_timeline *owner)
{
    const struct sim_clock *old = *clock;
    struct sim_clock *merged =
        merge(old ? old->known : NULL, old ? old->count : 0, other, count, owner);

    sim_timeline_release_clock(*clock);
    *clock = merged;
}

/* Order `clock` of `owner` after a point. A clock that includes a time of a timeline
 * includes all that its clock included at that time. */
void sim_timeline_join_point(struct sim_clock **clock, const struct sim_point *point,
                             const struct sim_timeline *owner)
{
    struct sim_known self = {point->timeline, point->time};

    if (!point->timeline || point->timeline == owner ||
        point->time <= point->timeline->host_time ||
        point->time <= time_in(*clock, point->timeline))
        return;
    if (point->clock)
        join(clock, point->clock->known, point->clock->count, owner);
    join(clock, &self, 1, owner);
}

void sim_timeline_join_clock(struct sim_timeline *timeline, const struct sim_clock *clock)
{
    join(&timeline->clock, clock->known, clock->count, timeline);
}

struct sim_point sim_timeline_now(const struct sim_timeline *timeline)
{
    return (struct sim_point){(struct sim_timeline *)(uintptr_t)timeline, timeline->time,
                              timeline->clock};
}

void sim_timeline_join(struct sim_timeline *timeline, const struct sim_timeline *other)
{
    struct sim_point point = sim_timeline_now(other);

    sim_timeline_join_point(&timeline->clock, &point, timeline);
}

bool sim_timeline_comes_after(const struct sim_timeline *timeline,
                              const struct sim_access *access)
{
    const struct sim_timeline *other = access->timeline;

    return !other || other == timeline || access->time <= other->host_time ||
           (timeline && access->time <= time_in(timeline->clock, other));
}
