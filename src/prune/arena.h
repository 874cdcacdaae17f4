/* arena.h -- memory for the processing of one function, freed all at once.
 *
 * The pruner's tables have the size of the current function and end with it. The blocks
 * stay with the arena, so that the next function of the module needs no allocation.
 */
#ifndef TARN_PRUNE_ARENA_H
#define TARN_PRUNE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tarn__arena_block;

struct tarn__arena {
    struct tarn__arena_block *blocks; /* the newest first; owned */
    size_t used_bytes;                /* of the newest block */
    size_t held_bytes, peak_bytes;    /* of all blocks, now and at most */
    bool failed;                      /* some request returned NULL since the last
                                       * reset */
};

/* `count` elements of `size` bytes, zeroed; NULL: no host memory. */
void *tarn__arena_take(struct tarn__arena *arena, size_t count, size_t size);

/* Free all memory taken from the arena; the largest block is kept. */
void tarn__arena_reset(struct tarn__arena *arena);

void tarn__arena_free(struct tarn__arena *arena);

#define TARN__TAKE(arena, type, count) \
    ((type *)tarn__arena_take((arena), (count), sizeof(type)))

#endif
