/* life.c -- per thread: the context generation of the block that it frees. */
#include "resource/life.h"

static _Thread_local uint64_t current;

uint64_t tarn__block_life_set(uint64_t life)
{
    uint64_t before = current;

    current = life;
    return before;
}

uint64_t tarn__block_life(void)
{
    return current;
}
