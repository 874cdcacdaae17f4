/* fill.h -- a memset, queued or captured. */
#ifndef TARN_SIM_FILL_H
#define TARN_SIM_FILL_H

#include "sim/memory/place.h"

struct sim_fill {
    char *to;
    uint32_t value;
    size_t element; /* bytes: 1, 2 or 4 */
    size_t count;   /* elements in a row, not 0 */
    size_t rows;    /* not 0 */
    size_t pitch;   /* bytes between rows */
};

/* Check that `fill` is valid and that it writes only device memory. For a `stream` that
 * captures, or for NULL, memory of graphs is valid too. *out is the device. Locked, as
 * are all functions here. */
CUresult sim_fill_check(const struct sim_fill *fill, const struct sim_stream *stream,
                        enum sim_place *out);

/* Create an operation for `stream` that runs it. */
CUresult sim_fill_op(struct sim_stream *stream, const struct sim_fill *fill,
                     struct sim_op **out);

#endif
