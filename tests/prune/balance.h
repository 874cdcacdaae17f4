/* balance.h -- are the reference counts of a function balanced? */
#ifndef PRUNE_BALANCE_H
#define PRUNE_BALANCE_H

#include "function.h"

/* On every way through the function, and for each name by itself: is nothing given back or
 * handed to others that was not taken, or made, under that name before? */
bool references_are_balanced(const struct function *function);

#endif
