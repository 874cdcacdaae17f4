/* lane.h -- what races.c (who comes after whom) and bytes.c (who touched what) share. */
#ifndef TARN_SIM_LANE_H
#define TARN_SIM_LANE_H

#include "sim/races.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stream's time. Never freed: old accesses name it. */
struct sim_lane {
    struct sim_lane *next;
    uint64_t id; /* orders clocks */
    const struct sim_context *context;
    uint64_t stream_id;
    uint64_t time;           /* grows with everything that is queued */
    uint64_t host_saw;       /* up to there all that the host queues now comes after it */
    struct sim_point last;   /* the last operation: allocations pass time as well */
    struct sim_clock *clock; /* what of other lanes it comes after; NULL: nothing */
    bool is_blocking;
    bool is_gone; /* its stream is */
};

/* Something that reads or writes. */
struct sim_access {
    struct sim_lane *lane; /* NULL: the host, or nobody */
    uint64_t time;         /* in the lane */
    uint64_t stream_id;
    const char *call;
    void *caller; /* where in the client it was queued */
};

/* Does what is queued in `lane` now (NULL: what the host does) come after `access`? */
bool sim_lane_comes_after(const struct sim_lane *lane, const struct sim_access *access);

/* Check and keep `access` to these bytes. */
void sim_bytes_touch(const struct sim_access *access, uintptr_t start, size_t bytes,
                     bool is_write);

/* Nobody has touched these bytes; any; and no race was found. */
void sim_bytes_forget(uintptr_t start, size_t bytes);
void sim_bytes_forget_all(void);

#endif
