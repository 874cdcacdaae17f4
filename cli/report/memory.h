/* memory.h -- arrays that grow, and the end of the command where there is no memory. */
#ifndef TARN_CLI_REPORT_MEMORY_H
#define TARN_CLI_REPORT_MEMORY_H

#include <stddef.h>

/* Return `count` zeroed items of `size` bytes. Without host memory the command ends: it
 * prints one line and exits with 1. Handlers of atexit() remove unfinished files. */
void *memory_new(size_t count, size_t size);
/* Return `items` with space for `need` of them; new ones are zero. `capacity` is theirs
 * before and after. Without host memory the command ends. */
void *memory_grow(void *items, size_t *capacity, size_t need, size_t size);

#endif
