/* dominators.h -- dominator trees: the blocks that every path to a block passes.
 *
 * LLVM has such trees, but LLVM-C does not expose them. The same code makes both.
 * Dominators start from the entry. Post-dominators use reversed edges, from the roots
 * that LLVM would choose, joined by a virtual root.
 */
#ifndef TARN_PRUNE_DOMINATORS_H
#define TARN_PRUNE_DOMINATORS_H

#include "prune/cfg.h"

struct tarn__tree {
    uint32_t *parent; /* immediate dominator; TARN__NONE: a root, or not reached */
    uint32_t *enter;  /* when a walk of the tree enters the block; 0: not reached */
    uint32_t *leave;  /* the last number entered below it */
    uint32_t *level;  /* distance from the root of its tree */
};

/* False: no host memory. */
bool tarn__dominators_find(struct tarn__tree *tree, const struct tarn__cfg *cfg,
                           struct tarn__arena *arena);
bool tarn__dominators_find_post(struct tarn__tree *tree, const struct tarn__cfg *cfg,
                                struct tarn__arena *arena);

static inline bool tarn__dominators_tree_reached(const struct tarn__tree *tree,
                                                 uint32_t block)
{
    return tree->enter[block] != 0;
}

/* Does `above` dominate `block`, or is it that block? Both are reachable. */
static inline bool tarn__dominators_tree_above(const struct tarn__tree *tree,
                                               uint32_t above, uint32_t block)
{
    return tree->enter[above] <= tree->enter[block] &&
           tree->enter[block] <= tree->leave[above];
}

#endif
