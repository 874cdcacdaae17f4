/* memory.c -- arrays that grow, and the end of the command where there is no memory. */
#include "memory.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_end(void *memory)
{
    if (memory)
        return memory;
    fflush(stdout);
    fputs("tarn report: no host memory for the report\n", stderr);
    exit(1);
}

void *memory_new(size_t count, size_t size)
{
    return or_end(calloc(count ? count : 1, size));
}

void *memory_grow(void *items, size_t *capacity, size_t need, size_t size)
{
    size_t more = *capacity ? *capacity : 16;

    if (need <= *capacity)
        return items;
    while (more < need && more <= SIZE_MAX / 2)
        more *= 2;
    if (more < need || more > SIZE_MAX / size)
        return or_end(NULL);
    char *grown = or_end(realloc(items, more * size));
    memset(grown + *capacity * size, 0, (more - *capacity) * size);
    *capacity = more;
    return grown;
}
