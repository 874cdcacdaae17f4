/* copy.h -- which copies are allowed, and when they run. Copies of any shape end here. */
#ifndef TARN_SIM_COPY_H
#define TARN_SIM_COPY_H

#include "sim/work.h"

/* What memory an address names: the driver treats copies by it. */
enum sim_place {
    PLACE_BAD,      /* not memory, freed, or not so many bytes of it */
    PLACE_PAGEABLE, /* host memory that the driver does not know */
    PLACE_PINNED,   /* pinned or registered host memory */
    PLACE_MANAGED,
    PLACE_DEVICE,
};

/* Of `bytes` (not 0) at `address`. Locked. */
enum sim_place sim_place_of(uintptr_t address, size_t bytes);

/* The same for work on `stream`: where that captures (or
 * `stream` is NULL: the graph is built by hand), memory of graphs is memory. */
enum sim_place sim_place_for(const struct sim_stream *stream, uintptr_t address,
                             size_t bytes);

/* A box of bytes, `width` x `height` x `depth`: rows `pitch` apart, slices `slice` apart.
 */
struct sim_box {
    char *to;
    const char *from;
    size_t width, height, depth; /* none of them 0 */
    size_t to_pitch, to_slice, from_pitch, from_slice;
    bool to_is_known, from_is_known; /* in a node: it was no pageable memory then */
};

/* Note that, for a node that is to be launched later. */
void sim_box_note_places(struct sim_box *box);

/* When the call returns. */
enum sim_manner {
    COPY_SYNC,  /* when it is done, unless no host memory takes part */
    COPY_ASYNC, /* at once, unless pageable host memory takes part */
};

/* Copy `box` on `stream`, whose context lives. The places are known not to be bad, and
 * not more than one of them is pageable for COPY_ASYNC to be so. Locked; gives the lock
 * back. */
CUresult sim_copy(struct sim_stream *stream, const struct sim_box *box, enum sim_place to,
                  enum sim_place from, enum sim_manner manner);

/* An operation for `stream` that copies `box`; as it is launched with a graph. */
CUresult sim_copy_op(struct sim_stream *stream, const struct sim_box *box,
                     struct sim_op **out);

/* The box of a copy of a graph that is built by hand; arrays are not supported. */
CUresult sim_copy_read(const CUDA_MEMCPY3D *copy, struct sim_box *out);

#endif
