/* heaps.h -- memory that is divided into blocks, and the blocks in it, as an attached tool
 * sees them.
 *
 * A heap is an allocation of the driver, or a mapped physical handle. A tool such as
 * compute-sanitizer reports each access to a heap outside of its regions. A block is a
 * region in each heap that it overlaps. Without a tool the functions do nothing.
 *
 * Thread-safety: any thread. A heap is not removed while it has blocks.
 */
#ifndef TARN_NVTX_HEAPS_H
#define TARN_NVTX_HEAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return true if an attached tool wants to know heaps. */
bool tarn__heaps_are_wanted(void);

/* Add a heap, unless it overlaps one that is there. Returns true if it was added. */
bool tarn__heaps_add(uint64_t address, size_t bytes);
/* The same for host memory: AddressSanitizer and Valgrind know its blocks, too, where they
 * run. */
bool tarn__heaps_add_host(uint64_t address, size_t bytes);

/* Remove all heaps in a range. */
void tarn__heaps_remove(uint64_t address, size_t bytes);

/* Register a block and name it; and end it. `is_left`: the block is left from the begin. */
void tarn__heaps_begin_block(uint64_t address, size_t bytes, bool is_left,
                             const char *name);
void tarn__heaps_end_block(uint64_t address, size_t bytes);

/* Leave a block registered until another one needs its memory: a graph may use it. */
void tarn__heaps_leave_block(uint64_t address, size_t bytes);

/* Remove all heaps, and let no other begin: something writes outside of blocks. */
void tarn__heaps_stop(void);

#endif
