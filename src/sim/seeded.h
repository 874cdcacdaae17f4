/* seeded.h -- the seeded mode: simulated time, and whose turn is next in it.
 *
 * When the first operation of a stream may start, the stream gets a turn: a time in the
 * future, drawn from the seed, the stream's number and the operation's number in it. The
 * turns are taken in the order of their times, and the clock stands at the last one. So
 * an order is never one that the device could not have shown, and it depends on nothing
 * but the seed and the calls. All under the lock.
 */
#ifndef TARN_SIM_SEEDED_H
#define TARN_SIM_SEEDED_H

#include "sim/options.h"
#include <stdbool.h>
#include <stdint.h>

struct sim_context;
struct sim_stream;
struct sim_op;

/* What a stream keeps for its turns. */
struct sim_turn {
    uint64_t number;     /* of the stream: what the seed is asked for */
    uint64_t operations; /* that had a turn since `generation` */
    uint64_t generation; /* of the options */
    uint64_t at_ns;      /* the turn's simulated time; */
    uint64_t ticket;     /* among turns of one time, the oldest operation is first */
    struct sim_stream *child, *sibling; /* in the heap of turns */
};

extern bool sim_is_seeded;

/* New options: draw anew. No turns are open. */
void sim_seeded_start(const struct sim_options *options);

/* The number of a new stream. Streams are numbered as they are made; but those that a
 * context makes for itself while it comes to life, by its device, so that it does not
 * matter whether that was before the options were set. */
uint64_t sim_seeded_number(const struct sim_context *context, unsigned flags);

/* The first operation of `stream` may start. */
void sim_seeded_offer(struct sim_stream *stream, const struct sim_op *op);

/* Take the stream whose turn is next, and set the clock to it; NULL: there is none. */
struct sim_stream *sim_seeded_take(void);

/* Is there a turn that the clock has come to? */
bool sim_seeded_is_due(void);
bool sim_seeded_has_turns(void);

/* Does the seed want one more operation done in the host's `number`-th call? */
bool sim_seeded_wants_more(uint64_t number);

/* Does the seed let the host get nearer by asking? Every second time, about. */
bool sim_seeded_answers_asking(void);

/* The host spends `ns`: no call is free. */
void sim_clock_advance(uint64_t ns);

/* Simulated time in the seeded mode, real time in the eager one. */
uint64_t sim_now_ns(void);

/* A number below `limit` (not 0) that `seed`, `a` and `b` give. */
uint64_t sim_draw(uint64_t a, uint64_t b, uint64_t limit);

#endif
