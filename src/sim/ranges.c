/* ranges.c -- a treap over addresses, each node knowing the largest range beneath it. */
#include "sim/ranges.h"
#include "base/random.h"

static void refresh(struct sim_range *node)
{
    node->largest = node->bytes;
    if (node->left && node->left->largest > node->largest)
        node->largest = node->left->largest;
    if (node->right && node->right->largest > node->largest)
        node->largest = node->right->largest;
}

/* Everything below `address` to *low, the rest to *high. */
static void split(struct sim_range *node, uintptr_t address, struct sim_range **low,
                  struct sim_range **high)
{
    if (!node) {
        *low = *high = NULL;
        return;
    }
    if (node->start < address) {
        split(node->right, address, &node->right, high);
        *low = node;
    } else {
        split(node->left, address, low, &node->left);
        *high = node;
    }
    refresh(node);
}

/* One tree of two; all of `low` lies below all of `high`. */
static struct sim_range *join(struct sim_range *low, struct sim_range *high)
{
    if (!low || !high)
        return low ? low : high;
    if (low->priority > high->priority) {
        low->right = join(low->right, high);
        refresh(low);
        return low;
    }
    high->left = join(low, high->left);
    refresh(high);
    return high;
}

static struct sim_range *insert(struct sim_range *node, struct sim_range *range)
{
    if (!node || range->priority > node->priority) {
        split(node, range->start, &range->left, &range->right);
        refresh(range);
        return range;
    }
    if (range->start < node->start)
        node->left = insert(node->left, range);
    else
        node->right = insert(node->right, range);
    refresh(node);
    return node;
}

static struct sim_range *without(struct sim_range *node, const struct sim_range *range)
{
    if (node == range)
        return join(node->left, node->right);
    if (range->start < node->start)
        node->left = without(node->left, range);
    else
        node->right = without(node->right, range);
    refresh(node);
    return node;
}

void sim_ranges_insert(struct sim_ranges *ranges, struct sim_range *range)
{
    range->priority = tarn__random_next(&ranges->random);
    range->left = range->right = NULL;
    ranges->root = insert(ranges->root, range);
}

void sim_ranges_remove(struct sim_ranges *ranges, struct sim_range *range)
{
    ranges->root = without(ranges->root, range);
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
