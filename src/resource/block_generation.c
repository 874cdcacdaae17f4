/* block_generation.c -- per thread: the context generation of the block that it frees. */
#include "resource/block_generation.h"

static _Thread_local uint64_t current;

uint64_t tarn__block_generation_set(uint64_t context_generation)
{
    uint64_t before = current;

    current = context_generation;
    return before;
}

uint64_t tarn__block_generation(void)
{
    return current;
}
