/* life.h -- which of two blocks at one address is meant.
 *
 * A reset of a device's primary context takes all its memory, and the driver hands the
 * addresses out again at once. A counted pointer of before the reset may come to its end
 * only after that: given back by address alone, it would take somebody else's block. So
 * whoever knows in which life of the context a block was allocated says so for the time of
 * the call; resources beneath, whatever adaptors lie between, look it up.
 */
#ifndef TARN_RESOURCE_LIFE_H
#define TARN_RESOURCE_LIFE_H

#include <stdint.h>

/* Set the life of the block that this thread gives back next, and return what was set
 * before; 0: not known, the youngest block at the address is meant. */
uint64_t tarn__block_life_set(uint64_t life);
uint64_t tarn__block_life(void);

#endif
