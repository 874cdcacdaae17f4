/* planner.h -- the thread that lays a recorded step out.
 *
 * A planner owns a record. Its thread makes the sequences of a plan (sequences.h), and ends.
 * The thread knows no pool, takes no lock and makes no driver call. All signals are blocked
 * in it. A forked child has no such thread, and waits for none.
 *
 * Time is a circle, since the step repeats. It is cut where the fewest bytes are live. The
 * blocks that are live there, and those that live for more than a step, are no part of the
 * layout. Their slots are outside of it: an allocation that is such a slot is served as
 * without a plan.
 *
 * Blocks that stay, as the states of an optimizer, leave holes (holes.h). Blocks that have
 * room there are outside of the layout, too. Only blocks that are live at the peak of the
 * step are chosen: they lower the peak of the layout.
 */
#ifndef TARN_POOL_PLANNER_H
#define TARN_POOL_PLANNER_H

#include "pool/follow/record.h"
#include "pool/follow/sequences.h"
#include <pthread.h>
#include <stdatomic.h>

struct tarn__planner {
    struct tarn__record record;
    struct tarn__sequences *sequences; /* the result, once it is done; NULL: no plan */
    atomic_bool is_done;
    bool has_thread;
    pthread_t thread;
};

/* Make the sequences of a whole record. Returns NULL without host memory, or if no block
 * can be planned. */
struct tarn__sequences *tarn__planner_plan(const struct tarn__record *record);

/* Create a planner with a copy of the record: the next step needs the places of the blocks,
 * too. Returns NULL without host memory. */
struct tarn__planner *tarn__planner_new(const struct tarn__record *record);
/* Start its thread. Returns false if the system cannot create it. */
bool tarn__planner_start(struct tarn__planner *planner);
/* Wait for the thread, and free the planner. Returns the result, which is the caller's. */
struct tarn__sequences *tarn__planner_finish(struct tarn__planner *planner);

#endif
