/* ranges.h -- a set of address ranges that do not overlap. It finds the range that holds
 * an address, and the first range that is large enough, both in logarithmic time.
 *
 * Live blocks and free memory are such sets. The nodes belong to the caller, so
 * inserting and removing never fails. Not locked: the owner of the set does that.
 */
#ifndef TARN_SIM_RANGES_H
#define TARN_SIM_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_range {
    uintptr_t start;
    size_t bytes; /* at least 1 */
    struct sim_range *left, *right, *parent;
    size_t largest;    /* of `bytes` in this subtree */
    uint64_t priority; /* the tree is a heap by it */
};

struct sim_ranges {
    struct sim_range *root;
    uint64_t random;
    bool is_unsized; /* sim_ranges_fit is never called: `largest` is not maintained */
};

/* Insert `range`. Its start and bytes are set, its other fields need not be. */
void sim_ranges_insert(struct sim_ranges *ranges, struct sim_range *range);

/* Remove `range`, which is in the set. */
void sim_ranges_remove(struct sim_ranges *ranges, struct sim_range *range);

/* Change the position of `range`, which is in a set. It stays between its neighbours. */
void sim_ranges_resize(const struct sim_ranges *ranges, struct sim_range *range,
                       uintptr_t start, size_t bytes);

/* The last range that starts below `address`, and the first that does not; or NULL. */
void sim_ranges_around(const struct sim_ranges *ranges, uintptr_t address,
                       struct sim_range **before, struct sim_range **after);

/* The range that holds `address`, or NULL. */
struct sim_range *sim_ranges_find(const struct sim_ranges *ranges, uintptr_t address);

/* The first range that starts at or after `address`, or NULL. */
struct sim_range *sim_ranges_after(const struct sim_ranges *ranges, uintptr_t address);

/* The lowest range of at least `bytes`, or NULL. */
struct sim_range *sim_ranges_fit(const struct sim_ranges *ranges, size_t bytes);

#endif
