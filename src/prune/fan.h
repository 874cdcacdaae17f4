/* fan.h -- the ways from a block to the first decrefs behind it.
 *
 * A fan is what lies between a head, a block in which references are taken, and its exits:
 * the blocks with decrefs that ways from the head come to first. It holds if
 *
 *   - no block from the head up to the exits has a decref,
 *   - every way ends at an exit, or at a raise after which nothing is released, or nowhere,
 *   - no way comes back to the head before an exit,
 *   - no way comes to an exit, or into the fan, but through the head.
 *
 * Then each exit is reached once for each time that the head is passed, and not otherwise.
 * Whether the value of an incref in the head has a decref in each exit is not asked here:
 * all increfs of a head share its fan.
 *
 * Fans are looked for from the inside out, and one that holds is one step for those around
 * it, as nothing but its head leads into it. So the work grows with the function's size,
 * not with its square.
 */
#ifndef TARN_PRUNE_FAN_H
#define TARN_PRUNE_FAN_H

#include "prune/cycles.h"
#include "prune/shapes.h"

struct tarn__fan {
    uint32_t head;
    bool known; /* was it looked for? */
    bool holds;
    bool final;  /* why it does not hold is as true for every fan around it */
    bool raises; /* some way ends at a raise */
    struct tarn__verdict why; /* it does not hold */
    uint32_t exit_count;
    uint32_t *parts; /* exits, and heads of fans inside; see PART_IS_FAN in fan.c */
    uint32_t part_count;
    uint32_t age; /* tarn__fans.freed when it was found */
};

struct tarn__fans {
    struct tarn__view *view;
    const struct tarn__cfg *cfg;
    struct tarn__tree dominators;
    struct tarn__cycles cycles;
    struct tarn__arena arena; /* for the parts; emptied by tarn__fans_renew() */

    uint32_t *fan_of; /* by block: its fan's index, or TARN__NONE */
    struct tarn__fan
        *fans; /* by where the head stands in the dominator tree, deepest last */
    uint32_t fan_count;
    uint32_t *open; /* fans that are being taken apart */

    uint32_t freed; /* grows when a block loses its last decref */
    size_t steps, most_steps;

    /* By block: */
    bool *quiet;  /* no decref is reached from here */
    bool *cyclic; /* leads back to itself without a decref */

    /* Of the search in progress. A block is marked where it has the search's number. */
    uint32_t search;
    uint32_t *seen, *inside;
    uint32_t *stack;
    size_t depth;
    uint32_t *entered; /* blocks whose sources have to be inside */
    uint32_t entered_count;
    uint32_t *found; /* parts */
    uint32_t found_count;
    bool explaining; /* look for `loud_raise`, too */
    uint32_t
        loud_raise; /* a block that raises and has decrefs behind it, or TARN__NONE */
};

/* False: no host memory. */
bool tarn__fans_open(struct tarn__fans *fans, struct tarn__view *view,
                     const struct tarn__cfg *cfg);
void tarn__fans_close(struct tarn__fans *fans);

/* Forget all fans: decrefs have gone since they were looked for. */
void tarn__fans_renew(struct tarn__fans *fans);

/* The fan of this head, as things are now. One that ended at the limit says TOO_LARGE. */
struct tarn__fan *tarn__fan_find(struct tarn__fans *fans, struct tarn__fan *fan);

/* A block in the fan that would end a way by a raise, were nothing released behind it; or
 * TARN__NONE. For explanations: it looks again. */
uint32_t tarn__fan_loud_raise(struct tarn__fans *fans, struct tarn__fan *fan);

/* List the exits of a fan that holds; they are in fans->found, and live until the next
 * search. */
uint32_t *tarn__fan_exits(struct tarn__fans *fans, const struct tarn__fan *fan,
                          uint32_t *count_out);

#endif
