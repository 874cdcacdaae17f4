/* starving.h -- host allocations of the calling thread, of which the nth fails.
 *
 * A test that replaces malloc() calls starving_fails() in it.
 */
#ifndef TARN_TEST_STARVING_H
#define TARN_TEST_STARVING_H

#include <stdbool.h>

static _Thread_local unsigned allocations_left; /* 0: none fails */
static _Thread_local bool has_failed;

/* Return true for the allocation that is to fail. */
static bool starving_fails(void)
{
    if (allocations_left == 0)
        return false;
    allocations_left--;
    if (allocations_left > 0)
        return false;
    has_failed = true;
    return true;
}

#endif
