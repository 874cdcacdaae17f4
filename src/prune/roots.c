/* roots.c -- the roots of a post-dominator tree.
 *
 * A block without successors is a root. A block that cannot reach one, in an endless
 * loop, needs a root of its own. The choice of that block in the loop decides which
 * blocks post-dominate which. There is no right choice, so this code reproduces LLVM's to
 * get the results of its analysis. From the first such block in the function's order it
 * walks forward, the later block first, and takes the block that is found last. A root
 * that reaches another root is redundant.
 */
#include "prune/roots.h"
#include "prune/cfg.h"
#include <stdlib.h>
#include <string.h>

/* The data that the walks share. A block is marked with the number of the walk that found
 * it. */
struct walk {
    const struct tarn__cfg *cfg;
    uint32_t *found_by; /* by block */
    uint32_t number;    /* of the current walk */
    uint32_t *stack;    /* space for every edge and one more */
    bool *covered;      /* by block: it reaches some root */
    uint32_t *order;    /* space for the targets of one block */
};

static int descending(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left < right) - (left > right);
}

/* Push the targets of a block so that the latest one is on top. */
static size_t push_in_order(struct walk *walk, size_t depth, uint32_t block)
{
    const struct tarn__cfg *cfg = walk->cfg;
    size_t count = cfg->first_out[block + 1] - cfg->first_out[block];

    memcpy(walk->order, cfg->targets + cfg->first_out[block],
           count * sizeof *walk->order);
    qsort(walk->order, count, sizeof *walk->order, descending);
    while (count > 0)
        walk->stack[depth++] = walk->order[--count];
    return depth;
}

/* The block found last on a walk forward from `start` through uncovered blocks. */
static uint32_t furthest(struct walk *walk, uint32_t start)
{
    size_t depth = 0;
    uint32_t last = start;

    walk->number++;
    walk->stack[depth++] = start;
    while (depth > 0) {
        uint32_t block = walk->stack[--depth];
        if (walk->covered[block] || walk->found_by[block] == walk->number)
            continue;
        walk->found_by[block] = walk->number;
        last = block;
        depth = push_in_order(walk, depth, block);
    }
    return last;
}

/* Mark all blocks that reach `root` as covered. */
static void cover(struct walk *walk, uint32_t root)
{
    const struct tarn__cfg *cfg = walk->cfg;
    size_t depth = 0;

    walk->stack[depth++] = root;
    while (depth > 0) {
        uint32_t block = walk->stack[--depth];
        if (walk->covered[block])
            continue;
        walk->covered[block] = true;
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++)
            walk->stack[depth++] = cfg->sources[i];
    }
}

static bool ends(const struct tarn__cfg *cfg, uint32_t block)
{
    return cfg->first_out[block] == cfg->first_out[block + 1];
}

/* Does a walk forward from `root` reach another root? */
static bool reaches_a_root(struct walk *walk, uint32_t root, const bool *is_root)
{
    const struct tarn__cfg *cfg = walk->cfg;
    size_t depth = 0;

    walk->number++;
    walk->stack[depth++] = root;
    while (depth > 0) {
        uint32_t block = walk->stack[--depth];
        if (walk->found_by[block] == walk->number)
            continue;
        walk->found_by[block] = walk->number;
        if (block != root && is_root[block])
            return true;
        for (size_t i = cfg->first_out[block]; i < cfg->first_out[block + 1]; i++)
            walk->stack[depth++] = cfg->targets[i];
    }
    return false;
}

/* Remove a redundant root: the last root takes its place, and is checked next. */
static uint32_t drop_needless(struct walk *walk, uint32_t *roots, uint32_t count,
                              bool *is_root)
{
    for (uint32_t i = 0; i < count; i++)
        is_root[roots[i]] = true;
    for (uint32_t i = 0; i < count;) {
        if (ends(walk->cfg, roots[i]) || !reaches_a_root(walk, roots[i], is_root)) {
            i++;
            continue;
        }
        is_root[roots[i]] = false;
        roots[i] = roots[--count];
    }
    return count;
}

bool tarn__roots_of_post_dominators(const struct tarn__cfg *cfg,
                                    struct tarn__arena *arena, uint32_t *roots,
                                    uint32_t *count_out)
{
    struct walk walk = {
        .cfg = cfg,
        .found_by = TARN__TAKE(arena, uint32_t, cfg->blocks),
        .stack = TARN__TAKE(arena, uint32_t, cfg->edges + 1),
        .covered = TARN__TAKE(arena, bool, cfg->blocks),
        .order = TARN__TAKE(arena, uint32_t, cfg->edges),
    };
    bool *is_root = TARN__TAKE(arena, bool, cfg->blocks);
    uint32_t count = 0, endless;

    if (arena->failed)
        return false;
    for (uint32_t b = 0; b < cfg->blocks; b++)
        if (ends(cfg, b)) {
            roots[count++] = b;
            cover(&walk, b);
        }
    endless = count;
    for (uint32_t b = 0; b < cfg->blocks; b++)
        if (!walk.covered[b]) {
            roots[count] = furthest(&walk, b);
            cover(&walk, roots[count++]);
        }
    *count_out = count == endless ? count : drop_needless(&walk, roots, count, is_root);
    return true;
}
