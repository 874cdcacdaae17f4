/* numba_helpers.h -- functions outside of the module that are known to release nothing. */
#ifndef TARN_PRUNE_NUMBA_HELPERS_H
#define TARN_PRUNE_NUMBA_HELPERS_H

#include <stdbool.h>
#include <stddef.h>

/* Is this a function that releases no reference to an object? The name has no prefix of a
 * linker. */
bool tarn__numba_helpers_keep(const char *name, size_t length);

#endif
