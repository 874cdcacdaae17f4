/* discards.c -- two counters of the process. */
#include "resource/discards.h"
#include <stdatomic.h>

static atomic_uint_least64_t discards;
static atomic_uint suspended;

void tarn__discards_count(void)
{
    atomic_fetch_add(&discards, 1);
}

uint64_t tarn__discards(void)
{
    return atomic_load(&discards);
}

void tarn__discards_count_suspended(bool is_less)
{
    atomic_fetch_add(&suspended, is_less ? -1u : 1u);
}

bool tarn__discards_any_suspended(void)
{
    return atomic_load(&suspended) > 0;
}
