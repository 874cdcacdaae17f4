/* ranges.c -- a treap over addresses. Each node knows the largest range in its subtree.
 *
 * Nodes know their parents, so removing one needs no descent from the root. A change of
 * a subtree is propagated upwards only as far as it matters. With 100,000 ranges a
 * descent touches some twenty places in memory that no cache holds, which is the whole
 * cost.
 */
#include "sim/core/ranges.h"
#include "base/random.h"

static size_t largest_of(const struct sim_range *node)
{
    return node ? node->largest : 0;
}

/* Recompute `largest`. False: it is unchanged. */
static bool refresh(struct sim_range *node)
{
    size_t before = node->largest, left = largest_of(node->left),
           right = largest_of(node->right), most = left > right ? left : right;

    node->largest = most > node->bytes ? most : node->bytes;
    return node->largest != before;
}

static void refresh_upwards(const struct sim_ranges *ranges, struct sim_range *node)
{
    while (!ranges->is_unsized && node && refresh(node))
        node = node->parent;
}

/* The pointer in the tree that refers to `node`. */
static struct sim_range **link_to(struct sim_ranges *ranges, const struct sim_range *node)
{
    if (!node->parent)
        return &ranges->root;
    return node->parent->left == node ? &node->parent->left : &node->parent->right;
}

/* Rotate `child` into the place of its parent, which becomes its child. */
static void rotate_up(struct sim_ranges *ranges, struct sim_range *child)
{
    struct sim_range *parent = child->parent, *moved;
    bool is_left = parent->left == child;

    *link_to(ranges, parent) = child;
    child->parent = parent->parent;
    parent->parent = child;
    moved = is_left ? child->right : child->left;
    *(is_left ? &parent->left : &parent->right) = moved;
    *(is_left ? &child->right : &child->left) = parent;
    if (moved)
        moved->parent = parent;
    if (ranges->is_unsized)
        return;
    refresh(parent);
    refresh(child);
}

void sim_ranges_insert(struct sim_ranges *ranges, struct sim_range *range)
{
    struct sim_range **link = &ranges->root;

    range->priority = tarn__random_next(&ranges->random);
    range->left = range->right = range->parent = NULL;
    range->largest = range->bytes;
    while (*link) {
        range->parent = *link;
        link = range->start < (*link)->start ? &(*link)->left : &(*link)->right;
    }
    *link = range;
    refresh_upwards(ranges, range->parent);
    while (range->parent && range->parent->priority < range->priority)
        rotate_up(ranges, range);
}

void sim_ranges_remove(struct sim_ranges *ranges, struct sim_range *range)
{
    while (range->left && range->right)
        rotate_up(ranges, range->left->priority > range->right->priority ? range->left
                                                                         : range->right);
    struct sim_range *child = range->left ? range->left : range->right;
    *link_to(ranges, range) = child;
    if (child)
        child->parent = range->parent;
    refresh_upwards(ranges, range->parent);
}

void sim_ranges_resize(const struct sim_ranges *ranges, struct sim_range *range,
                       uintptr_t start, size_t bytes)
{
    range->start = start;
    range->bytes = bytes;
    refresh_upwards(ranges, range);
}

void sim_ranges_around(const struct sim_ranges *ranges, uintptr_t address,
                       struct sim_range **before, struct sim_range **after)
{
    struct sim_range *node = ranges->root;

    *before = *after = NULL;
    while (node) {
        if (node->start < address) {
            *before = node;
            node = node->right;
        } else {
            *after = node;
            node = node->left;
        }
    }
}

struct sim_range *sim_ranges_find(const struct sim_ranges *ranges, uintptr_t address)
{
    struct sim_range *node = ranges->root;

    while (node) {
        if (address < node->start)
            node = node->left;
        else if (address - node->start >= node->bytes)
            node = node->right;
        else
            return node;
    }
    return NULL;
}

struct sim_range *sim_ranges_after(const struct sim_ranges *ranges, uintptr_t address)
{
    struct sim_range *node = ranges->root, *best = NULL;

    while (node) {
        if (node->start >= address) {
            best = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return best;
}

struct sim_range *sim_ranges_fit(const struct sim_ranges *ranges, size_t bytes)
{
    struct sim_range *node = ranges->root;

    if (!node || node->largest < bytes)
        return NULL;
    for (;;) {
        if (node->left && node->left->largest >= bytes)
            node = node->left;
        else if (node->bytes >= bytes)
            return node;
        else
            node = node->right;
    }
}
