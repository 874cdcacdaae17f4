/* cache_line.h -- memory on cache lines of its own: what one thread writes often does not
 * slow down the reads of others. */
#ifndef TARN_BASE_CACHE_LINE_H
#define TARN_BASE_CACHE_LINE_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TARN__CACHE_LINE = 64 };

/* Allocate zeroed memory that begins at a cache line. `bytes` is a whole number of lines.
 * Returns NULL without host memory. free() frees it. */
static inline void *tarn__cache_line_allocate(size_t bytes)
{
    void *memory = aligned_alloc(TARN__CACHE_LINE, bytes);

    return memory ? memset(memory, 0, bytes) : NULL;
}

#endif
