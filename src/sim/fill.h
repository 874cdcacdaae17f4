/* fill.h -- a memset, as it is queued or captured. */
#ifndef TARN_SIM_FILL_H
#define TARN_SIM_FILL_H

#include "sim/copy.h"
#include "sim/work.h"

struct sim_fill {
    char *to;
    uint32_t value;
    size_t element; /* bytes: 1, 2 or 4 */
    size_t count;   /* elements in a row, not 0 */
    size_t rows;    /* not 0 */
    size_t pitch;   /* bytes between rows */
};

/* Is `fill` one, and is all that it writes memory of the device (for a `stream` that
 * captures, or for NULL, memory of graphs counts)? *out: which. Locked, as all here. */
CUresult sim_fill_check(const struct sim_fill *fill, const struct sim_stream *stream,
                        enum sim_place *out);

/* An operation for `stream` that does it. */
CUresult sim_fill_op(struct sim_stream *stream, const struct sim_fill *fill,
                     struct sim_op **out);

#endif
