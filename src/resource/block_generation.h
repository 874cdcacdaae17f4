/* block_generation.h -- the context generation of a freed block: which of two blocks at
 * one address a free means.
 *
 * A reset of a device's primary context frees all its memory, and the driver reuses the
 * addresses at once. A counted pointer from before the reset may end only after that. A
 * free by address alone would then free another owner's block. A caller that knows the
 * context generation of the block therefore sets it for the time of the call.
 * The resources beneath read it, whatever adaptors lie between.
 */
#ifndef TARN_RESOURCE_BLOCK_GENERATION_H
#define TARN_RESOURCE_BLOCK_GENERATION_H

#include <stdint.h>

/* Set the generation of the block that this thread frees next, and return the previous
 * value. 0: unknown; then the youngest block at the address is meant. */
uint64_t tarn__block_generation_set(uint64_t context_generation);
uint64_t tarn__block_generation(void);

#endif
