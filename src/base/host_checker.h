/* host_checker.h -- a checker of host memory that runs this process: AddressSanitizer or
 * Valgrind's memcheck. It learns which host memory of a pool is no block. */
#ifndef TARN_BASE_HOST_CHECKER_H
#define TARN_BASE_HOST_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool tarn__host_checker_is_present(void);

/* Have the checker report each access to these bytes; and allow it again. Without a checker they do
 * nothing. The device may have written the bytes, so they count as initialized. */
void tarn__host_checker_forbid(uint64_t address, size_t bytes);
void tarn__host_checker_allow(uint64_t address, size_t bytes);

#endif
