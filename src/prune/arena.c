/* arena.c -- memory for the processing of one function, freed all at once. */
#include "prune/arena.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, FIRST_BYTES = 1 << 16 };

struct tarn__arena_block {
    struct tarn__arena_block *older;
    size_t capacity; /* bytes behind this header */
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Add a block of `bytes`, at least twice the size of the last one: the number of blocks
 * stays small. */
static bool grow(struct tarn__arena *arena, size_t bytes)
{
    size_t twice = arena->blocks ? 2 * arena->blocks->capacity : FIRST_BYTES;
    size_t capacity = larger(bytes, twice);
    struct tarn__arena_block *block = malloc(sizeof *block + capacity);

    if (!block)
        return false;
    *block = (struct tarn__arena_block){arena->blocks, capacity};
    arena->blocks = block;
    arena->used_bytes = 0;
    arena->held_bytes += sizeof *block + capacity;
    arena->peak_bytes = larger(arena->peak_bytes, arena->held_bytes);
    return true;
}

void *tarn__arena_take(struct tarn__arena *arena, size_t count, size_t size)
{
    size_t bytes = 0;
    bool fits = count <= (SIZE_MAX / 4) / size;

    if (fits)
        bytes = (count * size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (!fits ||
        ((!arena->blocks || bytes > arena->blocks->capacity - arena->used_bytes) &&
         !grow(arena, bytes))) {
        arena->failed = true;
        return NULL;
    }
    char *taken = (char *)(arena->blocks + 1) + arena->used_bytes;
    arena->used_bytes += bytes;
    return memset(taken, 0, bytes);
}

void tarn__arena_reset(struct tarn__arena *arena)
{
    struct tarn__arena_block *kept = arena->blocks;

    while (kept && kept->older) {
        struct tarn__arena_block *older = kept->older;
        kept->older = older->older;
        arena->held_bytes -= sizeof *older + older->capacity;
        free(older);
    }
    arena->used_bytes = 0;
    arena->failed = false;
}

void tarn__arena_free(struct tarn__arena *arena)
{
    tarn__arena_reset(arena);
    free(arena->blocks);
    *arena = (struct tarn__arena){.peak_bytes = arena->peak_bytes};
}
