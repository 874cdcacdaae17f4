/* discards.c -- one counter of the process. */
#include "resource/discards.h"
#include <stdatomic.h>

static atomic_uint_least64_t discards;

void tarn__discards_count(void)
{
    atomic_fetch_add(&discards, 1);
}

uint64_t tarn__discards(void)
{
    return atomic_load(&discards);
}
