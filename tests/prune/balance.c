/* balance.c -- check that the reference counts of a function are balanced.
 *
 * For each name the fewest references that it can hold are carried along the edges until
 * nothing changes. They only go down, and the first negative count ends the analysis.
 */
#include "balance.h"

#include <limits.h>

/* Apply an operation to the references held under one name; false: more than it has. */
static bool enter(const struct operation *operation, int value, int *held)
{
    if (operation->result == value)
        *held = operation->kind == MAKE ? 1 : 0;
    if (operation->operands[0] != value)
        return true;
    if (operation->kind == INCREF)
        ++*held;
    else if (operation->kind == DECREF || operation->kind == KEEP)
        --*held;
    return *held >= 0;
}

/* The same for a block. */
static bool carry(const struct block *block, int value, int *held)
{
    for (int i = 0; i < block->phi_count; i++)
        if (block->phis[i].result == value)
            *held = 0;
    for (int i = 0; i < block->operation_count; i++)
        if (!enter(&block->operations[i], value, held))
            return false;
    return true;
}

static bool are_balanced_for(const struct function *function, int value, int *fewest)
{
    bool changed = true;

    for (int b = 0; b < function->block_count; b++)
        fewest[b] = b == 0 ? 0 : INT_MAX;
    while (changed) {
        changed = false;
        for (int b = 0; b < function->block_count; b++) {
            const struct block *block = &function->blocks[b];
            int held = fewest[b];
            if (held == INT_MAX)
                continue;
            if (!carry(block, value, &held))
                return false;
            for (int i = 0; i < block->successor_count; i++)
                if (held < fewest[block->successors[i]]) {
                    fewest[block->successors[i]] = held;
                    changed = true;
                }
        }
    }
    return true;
}

bool references_are_balanced(const struct function *function)
{
    int *fewest = function_allocate((size_t)function->block_count, sizeof *fewest);

    for (int value = 0; value < function->value_count; value++)
        if (!are_balanced_for(function, value, fewest))
            return false;
    return true;
}
