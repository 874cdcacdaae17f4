/* bins.h -- free blocks by size: two levels of bitmaps, and lists.
 *
 * A class is a power of two cut into 32 parts, so a block of a larger class fits for sure,
 * and the first non-empty class is found with two instructions. Inside the class of the
 * request itself, and in the one that is taken, the smallest block that fits is looked for
 * among the first few: the best fit where there are few blocks, a good one where there
 * are very many, and flat cost with both.
 */
#ifndef TARN_POOL_BINS_H
#define TARN_POOL_BINS_H

#include "resource/pool/node.h"

enum {
    TARN__BIN_PARTS_LOG = 5,
    TARN__BIN_PARTS = 1 << TARN__BIN_PARTS_LOG,
    TARN__BIN_POWERS = 32 - TARN__BIN_PARTS_LOG + 1 /* of 32-bit sizes in granules */
};

struct tarn__bins {
    uint32_t powers;                  /* bit i: something is in parts[i] */
    uint32_t parts[TARN__BIN_POWERS]; /* bit j: heads[i][j] is not empty */
    tarn__index heads[TARN__BIN_POWERS][TARN__BIN_PARTS];
};

/* Whether a block will do, beyond its size: asked for each candidate. */
typedef bool (*tarn__fits)(const void *request, const struct tarn__node *node);

static inline unsigned tarn__bins_log2(uint32_t n)
{
    return 31 - (unsigned)__builtin_clz(n);
}

/* Are blocks of these sizes, which are not 0, in one class? */
static inline bool tarn__bins_is_one_class(uint32_t one, uint32_t other)
{
    unsigned log = tarn__bins_log2(one);

    if (one < TARN__BIN_PARTS || other < TARN__BIN_PARTS)
        return one == other;
    return log == tarn__bins_log2(other) &&
           (one ^ other) >> (log - TARN__BIN_PARTS_LOG) == 0;
}

void tarn__bins_add(struct tarn__bins *bins, const struct tarn__nodes *nodes,
                    tarn__index index);
void tarn__bins_remove(struct tarn__bins *bins, const struct tarn__nodes *nodes,
                       tarn__index index);

/* The best block of at least `granules` that `fits` (NULL: every one does); 0: none was
 * found among those looked at. */
tarn__index tarn__bins_find(const struct tarn__bins *bins,
                            const struct tarn__nodes *nodes, uint32_t granules,
                            tarn__fits fits, const void *request);

/* Visit the blocks of at least `granules`, the largest classes first, until `visit` says
 * false. It must not change the bins. */
void tarn__bins_visit(const struct tarn__bins *bins, const struct tarn__nodes *nodes,
                      uint32_t granules, bool (*visit)(void *data, tarn__index index),
                      void *data);

/* Granules of the largest block; 0: empty. */
uint32_t tarn__bins_largest(const struct tarn__bins *bins,
                            const struct tarn__nodes *nodes);

#endif
