/* timeline.h -- shared by races.c (the order of operations) and bytes.c (accesses to bytes).
 */
#ifndef TARN_SIM_TIMELINE_H
#define TARN_SIM_TIMELINE_H

#include "sim/races/races.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lane: the state of one stream in the race detector. Never freed: old accesses refer to
 * it. */
struct sim_timeline {
    struct sim_timeline *next;
    uint64_t id; /* clocks are sorted by it */
    const struct sim_context *context;
    uint64_t stream_id;
    uint64_t time;      /* grows with every queued operation */
    uint64_t host_time; /* all that the host queues now comes after this time */
    /* the last operation; allocations advance the time as well */
    struct sim_point last;
    struct sim_clock *clock; /* what it comes after in other lanes; NULL: nothing */
    bool is_blocking;
    bool is_stream_destroyed; /* its stream is destroyed */
};

/* An operation that reads or writes. */
struct sim_access {
    struct sim_timeline *timeline; /* NULL: the host, or none */
    uint64_t time;                 /* in the lane */
    uint64_t stream_id;
    const char *call;
    void *caller; /* the client's address that queued it */
};

/* Return true if the next operation of `lane` (NULL: of the host) comes after `access`.
 */
bool sim_timeline_comes_after(const struct sim_timeline *timeline,
                              const struct sim_access *access);

/* Check `access` to these bytes and remember it. */
void sim_bytes_touch(const struct sim_access *access, uintptr_t start, size_t bytes,
                     bool is_write);

/* Forget all accesses to these bytes; to any; and the races found. */
void sim_bytes_forget(uintptr_t start, size_t bytes);
void sim_bytes_forget_all(void);

#endif
