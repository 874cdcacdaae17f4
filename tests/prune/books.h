/* books.h -- does a function keep its books? */
#ifndef PRUNE_BOOKS_H
#define PRUNE_BOOKS_H

#include "function.h"

/* On every way through the function, and for each name by itself: is nothing given back or
 * handed to others that was not taken, or made, under that name before? */
bool books_are_kept(const struct function *function);

#endif
