/* timeline.h -- the state of a stream in the race detector, and points in it. */
#ifndef TARN_SIM_TIMELINE_H
#define TARN_SIM_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_clock;
struct sim_context;
struct sim_timeline;

/* A point in a stream, and all that comes before it. Zeroed: before everything. */
struct sim_point {
    struct sim_timeline *timeline;
    uint64_t time;
    struct sim_clock *clock; /* counted */
};

/* A vector clock. It never changes once it is shared: a change makes a copy. */
struct sim_clock {
    unsigned references;
    size_t count;
    struct sim_known {
        const struct sim_timeline *timeline;
        uint64_t time;
    } known[]; /* by the id of the timeline */
};

/* The state of one stream in the race detector. Never freed: old accesses refer to it. */
struct sim_timeline {
    struct sim_timeline *next;
    uint64_t id; /* clocks are sorted by it */
    const struct sim_context *context;
    uint64_t stream_id;
    uint64_t time;      /* grows with every queued operation */
    uint64_t host_time; /* all that the host queues now comes after this time */
    /* the last operation; allocations advance the time as well */
    struct sim_point last;
    struct sim_clock *clock; /* what it comes after in other timelines; NULL: nothing */
    bool is_blocking;
    bool is_stream_destroyed; /* its stream is destroyed */
};

/* An operation that reads or writes. */
struct sim_access {
    struct sim_timeline *timeline; /* NULL: the host, or none */
    uint64_t time;                 /* in the timeline */
    uint64_t stream_id;
    const char *call;
    void *caller; /* the client's address that queued it */
};

/* The current point of a timeline; its clock is not counted. */
struct sim_point sim_timeline_now(const struct sim_timeline *timeline);

/* Order `timeline` after all of `other`; after all that a clock includes. */
void sim_timeline_join(struct sim_timeline *timeline, const struct sim_timeline *other);
void sim_timeline_join_clock(struct sim_timeline *timeline,
                             const struct sim_clock *clock);

/* Order `clock` of `owner` (NULL: of none) after a point. */
void sim_timeline_join_point(struct sim_clock **clock, const struct sim_point *point,
                             const struct sim_timeline *owner);

/* Add a reference; release one. Both accept NULL. */
struct sim_clock *sim_timeline_retain_clock(struct sim_clock *clock);
void sim_timeline_release_clock(struct sim_clock *clock);

/* Return true if the next operation of `timeline` (NULL: of the host) comes after
 * `access`. */
bool sim_timeline_comes_after(const struct sim_timeline *timeline,
                              const struct sim_access *access);

#endif
