/* copy.h -- which copies are allowed, and when they run. Copies of every shape use it.
 */
#ifndef TARN_SIM_COPY_H
#define TARN_SIM_COPY_H

#include "sim/memory/place.h"

/* A box of bytes, `width` x `height` x `depth`. Rows are `pitch` apart, slices `slice`
 * apart. */
struct sim_box {
    char *to;
    const char *from;
    size_t width, height, depth; /* none of them 0 */
    size_t to_pitch, to_slice, from_pitch, from_slice;
    /* in a node: it was not pageable memory when the node was added */
    bool to_is_known, from_is_known;
};

/* Set those two fields, for a node that is launched later. */
void sim_copy_set_known(struct sim_box *box);

/* When the call returns. */
enum sim_copy_mode {
    COPY_SYNC,  /* after the copy, unless no host memory takes part */
    COPY_ASYNC, /* immediately, unless pageable host memory takes part */
};

/* Copy `box` on `stream`, whose context is active. Neither place is PLACE_BAD, and for
 * COPY_ASYNC to be asynchronous at most one is pageable. Locked; releases the lock. */
CUresult sim_copy(struct sim_stream *stream, const struct sim_box *box, enum sim_place to,
                  enum sim_place from, enum sim_copy_mode mode);

/* Create an operation for `stream` that copies `box`, as a graph launch runs it. */
CUresult sim_copy_op(struct sim_stream *stream, const struct sim_box *box,
                     struct sim_op **out);

#endif
