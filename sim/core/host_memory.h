/* host_memory.h -- the simulator's own host memory, whose allocation can be made to
 * fail.
 *
 * The linker redirects every malloc, calloc and realloc of the simulator to these
 * functions. So a test reaches all of them, and the other files need no change.
 */
#ifndef TARN_SIM_HOST_MEMORY_H
#define TARN_SIM_HOST_MEMORY_H

#include <stddef.h>

/* Make the `nth` request from now on fail (0: none). */
void sim_host_memory_fail(unsigned long long nth);

/* The number of failed requests since then. */
unsigned long long sim_host_memory_failures(void);

/* Allocate zeroed memory for the simulator's diagnostics. They must not change what they
 * observe, so these requests are not counted. Without memory the process ends with an
 * error message. */
void *sim_host_memory_uncounted(size_t bytes);

#endif
