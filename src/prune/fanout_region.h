/* fanout_region.h -- fan-out regions: the paths from a block to the first decrefs behind
 * it.
 *
 * A fan-out region, or region, is the part between its head and its exits. The head is a
 * block that takes references. The exits are the first blocks with decrefs on the paths
 * from the head. The region holds if
 *
 *   - no block from the head up to the exits has a decref,
 *   - every path ends at an exit, or nowhere, or at a raise with no release after it,
 *   - no path returns to the head before an exit,
 *   - no path reaches an exit, or enters the region, except through the head.
 *
 * Then each pass through the head reaches one exit, once, and no exit is reached
 * otherwise. Whether the value of an incref in the head has a decref in each exit is not
 * checked here: all increfs of a head share its region. Nor is it checked here whether a
 * releasing call on the paths matters; the region remembers one.
 *
 * Regions are searched from the inside out. A region that holds is one step for the
 * regions around it, as only its head leads into it. So the work grows with the
 * function's size, not with its square.
 */
#ifndef TARN_PRUNE_FANOUT_REGION_H
#define TARN_PRUNE_FANOUT_REGION_H

#include "prune/cycles.h"
#include "prune/dominators.h"
#include "prune/verdict.h"

struct tarn__fanout_region {
    uint32_t head;
    bool known; /* was it searched? */
    bool holds;
    bool final;  /* the reason for failure holds for every region around it too */
    bool raises; /* some path ends at a raise */
    uint32_t
        call; /* a block behind the head and before the exits, or behind a raise, with
                    * a releasing call; or TARN__NONE */
    struct tarn__verdict why; /* why it does not hold */
    uint32_t exit_count;
    uint32_t *parts; /* exits, and heads of inner regions: those have PART_IS_REGION */
    uint32_t part_count;
    uint32_t age; /* tarn__fanout_regions.freed when it was found */
};

struct tarn__fanout_regions {
    struct tarn__function_index *function_index;
    const struct tarn__cfg *cfg;
    struct tarn__tree dominators;
    struct tarn__cycles cycles;
    struct tarn__arena arena; /* for the parts; emptied by tarn__fanout_region_renew() */

    uint32_t *region_of; /* by block: its region's index, or TARN__NONE */
    struct tarn__fanout_region
        *regions; /* by place of the head in the dominator tree, deepest last */
    uint32_t region_count;
    uint32_t *open; /* regions that are being expanded */

    uint32_t freed; /* incremented when a block loses its last decref */
    size_t steps, most_steps;

    /* By block: */
    bool *releases_nothing; /* no decref is reached from here */
    uint32_t *call_from;    /* if it releases nothing: a block with a releasing call that
                             * is reached from here, + 1; 0: none */
    bool *cyclic;           /* leads back to itself without a decref */

    /* Data of the current search. A block is marked if it has the search's number. */
    uint32_t search;
    uint32_t *seen, *inside;
    uint32_t *stack;
    size_t depth;
    uint32_t *entered; /* blocks whose predecessors have to be inside */
    uint32_t entered_count;
    uint32_t *found; /* parts */
    uint32_t found_count;
    bool explaining;          /* search for `releasing_raise`, too */
    uint32_t releasing_raise; /* it raises and has decrefs behind it; or TARN__NONE */
};

/* False: no host memory. */
bool tarn__fanout_region_open(struct tarn__fanout_regions *regions,
                              struct tarn__function_index *function_index,
                              const struct tarn__cfg *cfg);
void tarn__fanout_region_close(struct tarn__fanout_regions *regions);

/* Forget all regions: decrefs were removed since they were found. */
void tarn__fanout_region_renew(struct tarn__fanout_regions *regions);

/* Find the region of this head in the current state. A search that hits the limit gives
 * TOO_LARGE. */
struct tarn__fanout_region *tarn__fanout_region_find(struct tarn__fanout_regions *regions,
                                                     struct tarn__fanout_region *region);

/* Find a block in the region that would end a path by a raise, if nothing were released
 * behind it; or TARN__NONE. For explanations: it searches again. */
uint32_t tarn__fanout_region_releasing_raise(struct tarn__fanout_regions *regions,
                                             struct tarn__fanout_region *region);

/* List the exits of a region that holds; they are in regions->found, and valid until the
 * next search. */
uint32_t *tarn__fanout_region_exits(struct tarn__fanout_regions *regions,
                                    const struct tarn__fanout_region *region,
                                    uint32_t *count_out);

#endif
