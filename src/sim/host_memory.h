/* host_memory.h -- the stand-in's own memory, which can be made to run out.
 *
 * The linker sends every malloc, calloc and realloc of the stand-in through here, so that
 * a test reaches all of them and the rest of the code need not know.
 */
#ifndef TARN_SIM_HOST_MEMORY_H
#define TARN_SIM_HOST_MEMORY_H

#include <stddef.h>

/* From now on the `nth` request (0: none) fails. */
void sim_host_memory_fail(unsigned long long nth);

/* How many have failed since. */
unsigned long long sim_host_memory_failures(void);

/* Memory for the stand-in's instruments, zeroed: they must not change what they look at,
 * so these requests are not counted, and without memory the process ends with words. */
void *sim_instrument_memory(size_t bytes);

#endif
