/* failing.h -- host allocations of libtarn that fail on request.
 *
 * failing.c defines malloc, calloc, realloc, aligned_alloc, posix_memalign, strdup, strndup,
 * mmap and pthread_create. Those calls count that libtarn makes, or libc on its behalf: not
 * those of the simulator, of cmocka or of a sanitizer. */
#ifndef TARN_TEST_FAILING_H
#define TARN_TEST_FAILING_H

#include <stdbool.h>

/* How many calls of this run fail. */
enum failing_mode { FAILING_NONE, FAILING_ONCE, FAILING_FROM_THEN_ON };

/* From now on the `nth` allocation fails (the first is 1), and with FAILING_FROM_THEN_ON
 * those after it, too. */
void failing_begin(unsigned nth, enum failing_mode mode);

/* All allocations succeed again. Return how many failed. */
unsigned failing_end(void);

/* Where the last failed call was made: "function of library". */
const char *failing_place(void);

#endif
