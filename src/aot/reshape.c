/* reshape.c -- can an array have another shape without a copy?
 *
 * Axes of length 1 do not matter. The other old axes are joined into runs: axes in which
 * one step of the slower axis is a whole walk along the faster. The new axes have to
 * divide the runs. Each run is the product of consecutive new axes, whose strides follow
 * from the stride of the run's fastest axis. The work goes from the fastest axis to the
 * slowest, so that Fortran order is the same work with the axes reversed.
 */
#include "aot/alias.h"
#include <stdbool.h>
#include <tarn/aot.h>

/* Axis number `i` counted from the fastest. */
static intptr_t axis(intptr_t nd, intptr_t i, int fortran)
{
    return fortran ? i : nd - 1 - i;
}

/* Axes of the old array that are still unused, fastest first. */
struct axes {
    intptr_t nd, next;
    const intptr_t *shape, *strides;
    int fortran;
};

/* The next run of axes that can be walked as one: its length (1: none is left) and the
 * stride of its fastest axis. */
static intptr_t next_run(struct axes *axes, intptr_t *stride)
{
    intptr_t length = 1;

    for (; axes->next < axes->nd; axes->next++) {
        intptr_t i = axis(axes->nd, axes->next, axes->fortran);
        if (axes->shape[i] == 1)
            continue;
        if (length == 1)
            *stride = axes->strides[i];
        else if (axes->strides[i] != *stride * length)
            break;
        length *= axes->shape[i];
    }
    return length;
}

static intptr_t product(intptr_t nd, const intptr_t *shape)
{
    intptr_t items = 1;

    for (intptr_t i = 0; i < nd; i++)
        items *= shape[i];
    return items;
}

/* Walk over the new axes, fastest first, and take each from the rest of a run. With `out`
 * NULL nothing is written; that call checks whether the division is possible. */
static bool divide_runs(struct axes axes, intptr_t nd, const intptr_t *shape,
                        intptr_t item_bytes, intptr_t *out)
{
    intptr_t left = 1, stride = item_bytes;

    for (intptr_t n = 0; n < nd; n++) {
        intptr_t i = axis(nd, n, axes.fortran);
        if (left == 1 && shape[i] != 1)
            left = next_run(&axes, &stride);
        if (left % shape[i] != 0)
            return false;
        if (out)
            out[i] = stride;
        stride *= shape[i];
        left /= shape[i];
    }
    return true;
}

int tarn_aot_attempt_nocopy_reshape(intptr_t nd, const intptr_t *shape,
                                    const intptr_t *strides, intptr_t new_nd,
                                    const intptr_t *new_shape, intptr_t *new_strides,
                                    intptr_t item_bytes, int fortran)
{
    struct axes axes = {.nd = nd, .shape = shape, .strides = strides, .fortran = fortran};
    intptr_t items = product(new_nd, new_shape);

    if (items != product(nd, shape))
        return 0;
    if (items == 0) { /* no item is ever read, so any strides will do */
        for (intptr_t i = 0; i < new_nd; i++)
            new_strides[i] = item_bytes;
        return 1;
    }
    if (!divide_runs(axes, new_nd, new_shape, item_bytes, NULL))
        return 0;
    divide_runs(axes, new_nd, new_shape, item_bytes, new_strides);
    return 1;
}

TARN__ALIAS(attempt_nocopy_reshape);
