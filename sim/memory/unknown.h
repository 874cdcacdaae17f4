/* unknown.h -- memory that an ignored launch of a kernel may have written.
 *
 * A block is known or unknown as a whole. Copies carry it from block to block, and writing
 * all of a block ends it. A copy of unknown bytes to the host is counted. Locked, as are
 * all functions here but the last.
 */
#ifndef TARN_SIM_UNKNOWN_H
#define TARN_SIM_UNKNOWN_H

#include <stddef.h>
#include <stdint.h>

/* Mark the block that holds `address`, if there is one. */
void sim_unknown_mark(uintptr_t address);

/* A copy or a fill of that many bytes in a row is queued; 0: it has gaps. */
void sim_unknown_copy(uintptr_t to, uintptr_t from, size_t bytes);
void sim_unknown_fill(uintptr_t to, size_t bytes);

/* Restart the count. Needs no lock. */
void sim_unknown_start(void);

#endif
