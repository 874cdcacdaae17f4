/* balance.h -- check that the reference counts of a function are balanced. */
#ifndef PRUNE_BALANCE_H
#define PRUNE_BALANCE_H

#include "function.h"

/* Check every path through the function, for each name separately: nothing is released or
 * transferred that was not taken, or created, under that name before. A phi takes over the
 * references of the value that it merges. */
bool references_are_balanced(const struct function *function);

#endif
