/* dominators.c -- dominator trees in nearly linear time: the semi-NCA algorithm.
 *
 * Number the blocks in the order of a walk from the root. A block's semidominator is the
 * lowest number with a path to the block through higher numbers only. Its immediate
 * dominator is then the nearest ancestor, in the growing tree, whose number is not above
 * the semidominator's (L. Georgiadis, Linear-Time Algorithms for Dominators and Related
 * Problems, 2005). Numbers begin at 1 here, which is the root, or a virtual root if
 * needed.
 */
#include "prune/dominators.h"
#include "prune/cfg.h"
#include "prune/roots.h"

struct build {
    const struct tarn__cfg *cfg; /* in the direction of the tree */
    uint32_t count;              /* numbers given so far */
    uint32_t *number;            /* by block; 0: not reached */
    /* By number: */
    uint32_t *block;  /* TARN__NONE for the virtual root */
    uint32_t *above;  /* in the walk's tree; shortened during the search for
                       * semidominators */
    uint32_t *parent; /* in the walk's tree, then the immediate dominator */
    uint32_t *semi;
    uint32_t *best;         /* the number with the lowest semi on the path above */
    bool virtual;           /* is the root virtual? Then these are its successors: */
    bool *is_root;          /* by block */
    uint32_t *stack, *from; /* blocks, and the numbers that they were found from */
};

static uint32_t assign_number(struct build *build, uint32_t block, uint32_t parent)
{
    uint32_t number = ++build->count;

    if (block != TARN__NONE)
        build->number[block] = number;
    build->block[number] = block;
    build->above[number] = build->parent[number] = parent;
    build->semi[number] = build->best[number] = number;
    return number;
}

/* Number all blocks that are reachable from `root`. */
static void walk(struct build *build, uint32_t root, uint32_t parent)
{
    const struct tarn__cfg *cfg = build->cfg;
    size_t depth = 0;

    build->stack[depth] = root;
    build->from[depth++] = parent;
    while (depth > 0) {
        uint32_t block = build->stack[--depth];
        if (build->number[block])
            continue;
        uint32_t number = assign_number(build, block, build->from[depth]);
        for (size_t i = cfg->first_out[block]; i < cfg->first_out[block + 1]; i++) {
            if (build->number[cfg->targets[i]])
                continue;
            build->stack[depth] = cfg->targets[i];
            build->from[depth++] = number;
        }
    }
}

/* Find the number with the lowest semidominator from `number` up to the first unlinked
 * number, that is, below `linked`. The path is compressed for the next call. */
static uint32_t lowest(struct build *build, uint32_t number, uint32_t linked)
{
    uint32_t *stack = build->from; /* unused by now */
    size_t depth = 0;
    uint32_t at = number;

    if (build->above[at] < linked)
        return build->best[at];
    while (build->above[at] >= linked) {
        stack[depth++] = at;
        at = build->above[at];
    }
    while (depth > 0) {
        uint32_t below = stack[--depth];
        if (build->semi[build->best[at]] < build->semi[build->best[below]])
            build->best[below] = build->best[at];
        build->above[below] = build->above[at];
        at = below;
    }
    return build->best[number];
}

static void lower_semi(struct build *build, uint32_t number, uint32_t source)
{
    uint32_t candidate = build->semi[lowest(build, source, number + 1)];

    if (candidate < build->semi[number])
        build->semi[number] = candidate;
}

static void find_semidominators(struct build *build)
{
    const struct tarn__cfg *cfg = build->cfg;

    for (uint32_t number = build->count; number >= 2; number--) {
        uint32_t block = build->block[number];
        build->semi[number] = build->parent[number];
        if (build->virtual && build->is_root[block])
            build->semi[number] = 1;
        for (size_t i = cfg->first_in[block]; i < cfg->first_in[block + 1]; i++)
            if (build->number[cfg->sources[i]])
                lower_semi(build, number, build->number[cfg->sources[i]]);
    }
}

static void find_dominators(struct build *build)
{
    for (uint32_t number = 2; number <= build->count; number++) {
        uint32_t candidate = build->parent[number];
        while (candidate > build->semi[number])
            candidate = build->parent[candidate];
        build->parent[number] = candidate;
    }
}

/* Parents have lower numbers. Sizes are summed from the end, and places are assigned from
 * the front. */
static bool fill_tree(struct tarn__tree *tree, struct build *build,
                      struct tarn__arena *arena)
{
    uint32_t *size = TARN__TAKE(arena, uint32_t, (size_t)build->count + 1);
    uint32_t *next = TARN__TAKE(arena, uint32_t, (size_t)build->count + 1);
    uint32_t *level = TARN__TAKE(arena, uint32_t, (size_t)build->count + 1);

    if (arena->failed)
        return false;
    for (uint32_t number = build->count; number >= 1; number--)
        size[build->parent[number]] += ++size[number];
    next[0] = 1;
    for (uint32_t number = 1; number <= build->count; number++) {
        uint32_t parent = build->parent[number], block = build->block[number];
        uint32_t enter = next[parent];
        next[parent] += size[number];
        next[number] = enter + 1;
        level[number] = parent ? level[parent] + 1 : 0;
        if (block == TARN__NONE)
            continue;
        tree->parent[block] = parent ? build->block[parent] : TARN__NONE;
        tree->enter[block] = enter;
        tree->leave[block] = enter + size[number] - 1;
        tree->level[block] = level[number];
    }
    return true;
}

static bool prepare(struct build *build, struct tarn__tree *tree,
                    struct tarn__arena *arena)
{
    size_t blocks = build->cfg->blocks;

    build->number = TARN__TAKE(arena, uint32_t, blocks);
    build->block = TARN__TAKE(arena, uint32_t, blocks + 2);
    build->above = TARN__TAKE(arena, uint32_t, blocks + 2);
    build->parent = TARN__TAKE(arena, uint32_t, blocks + 2);
    build->semi = TARN__TAKE(arena, uint32_t, blocks + 2);
    build->best = TARN__TAKE(arena, uint32_t, blocks + 2);
    build->is_root = TARN__TAKE(arena, bool, blocks);
    build->stack = TARN__TAKE(arena, uint32_t, build->cfg->edges + 1);
    build->from = TARN__TAKE(arena, uint32_t, build->cfg->edges + blocks + 2);
    tree->parent = TARN__TAKE(arena, uint32_t, blocks);
    tree->enter = TARN__TAKE(arena, uint32_t, blocks);
    tree->leave = TARN__TAKE(arena, uint32_t, blocks);
    tree->level = TARN__TAKE(arena, uint32_t, blocks);
    return !arena->failed;
}

bool tarn__dominators_find(struct tarn__tree *tree, const struct tarn__cfg *cfg,
                           struct tarn__arena *arena)
{
    struct build build = {.cfg = cfg};

    if (!prepare(&build, tree, arena))
        return false;
    walk(&build, 0, 0);
    find_semidominators(&build);
    find_dominators(&build);
    return fill_tree(tree, &build, arena);
}

bool tarn__dominators_find_post(struct tarn__tree *tree, const struct tarn__cfg *cfg,
                                struct tarn__arena *arena)
{
    struct tarn__cfg reversed = tarn__cfg_reversed(cfg);
    struct build build = {.cfg = &reversed, .virtual = true};
    uint32_t *roots = TARN__TAKE(arena, uint32_t, cfg->blocks), count;

    if (!roots || !prepare(&build, tree, arena) ||
        !tarn__roots_of_post_dominators(cfg, arena, roots, &count))
        return false;
    uint32_t root = assign_number(&build, TARN__NONE, 0);
    for (uint32_t i = 0; i < count; i++)
        build.is_root[roots[i]] = true;
    for (uint32_t i = 0; i < count; i++)
        walk(&build, roots[i], root);
    find_semidominators(&build);
    find_dominators(&build);
    return fill_tree(tree, &build, arena);
}
