/* seeded.h -- the seeded mode: simulated time, and the order of turns.
 *
 * When the first operation of a stream may start, the stream gets a turn: a future time,
 * drawn from the seed, the stream's number and the operation's number in it. Turns are
 * taken in the order of their times, and the clock is set to the last one. So every
 * order is one that a device could have shown, and it depends only on the seed and the
 * calls. All under the lock.
 */
#ifndef TARN_SIM_SEEDED_H
#define TARN_SIM_SEEDED_H

#include "sim/core/options.h"
#include <stdbool.h>
#include <stdint.h>

struct sim_context;

/* The state of a stream for its turns. */
struct sim_turn {
    uint64_t number;                  /* of the stream: the seed's draws depend on it */
    uint64_t operations;              /* that had a turn in this `generation` */
    uint64_t generation;              /* of the options */
    uint64_t at_ns;                   /* the turn's simulated time; */
    uint64_t sequence;                /* at equal times the oldest operation is first */
    struct sim_turn *child, *sibling; /* in the heap of turns */
};

extern bool sim_is_seeded;

/* Apply new options and restart the draws. There are no open turns. */
void sim_seeded_start(const struct sim_options *options);

/* The number of a new stream. Streams are numbered in the order of creation. Streams
 * that a context creates for itself at activation are numbered by device, so that it
 * does not matter whether that was before the options were set. */
uint64_t sim_seeded_number(const struct sim_context *context, unsigned flags);

/* The first operation of a stream may start, the one of that sequence number: give the
 * stream a turn. */
void sim_seeded_offer(struct sim_turn *turn, uint64_t sequence);

/* Take the next turn, and set the clock to it. NULL: there is none. */
struct sim_turn *sim_seeded_take(void);

/* Return true if the clock has reached a turn. */
bool sim_seeded_is_due(void);
bool sim_seeded_has_turns(void);

/* Return true if the seed selects one more operation in the host's call number `number`.
 */
bool sim_seeded_wants_more(uint64_t number);

/* Return true if the seed lets a query by the host make progress: about every second
 * one. */
bool sim_seeded_query_progresses(void);

/* Advance the clock by `ns`: every call takes time. */
void sim_seeded_advance(uint64_t ns);

/* Simulated time in the seeded mode, real time in the eager one. */
uint64_t sim_seeded_now_ns(void);

/* A number below `limit` (not 0) that `seed`, `a` and `b` give. */
uint64_t sim_seeded_draw(uint64_t a, uint64_t b, uint64_t limit);

#endif
