/* unknown.c -- which blocks an ignored launch may have written. */
#include "sim/memory/unknown.h"
#include "sim/core/api.h"
#include "sim/core/thread.h"
#include "sim/memory/block.h"
#include <stdatomic.h>
#include <stdio.h>

static atomic_ullong reads;
static bool is_any; /* a block was ever marked */

void sim_unknown_mark(uintptr_t address)
{
    struct sim_block *block = sim_block_find(address);

    if (block)
        is_any = block->is_unknown = true;
}

/* Reads by the program itself are not seen, so a copy to pinned memory counts as one. */
static void count_read(uintptr_t from)
{
    static atomic_flag is_printed = ATOMIC_FLAG_INIT;

    atomic_fetch_add(&reads, 1);
    if (!atomic_flag_test_and_set(&is_printed))
        fprintf(
            stderr,
            "tarn simulator: %s reads bytes at %p that a kernel may have written, and "
            "launches=ignore did not run it; more of these are only counted\n",
            sim_thread.call, (void *)from);
}

static bool is_whole(const struct sim_block *block, uintptr_t start, size_t bytes)
{
    return start == block->range.start && bytes >= block->range.bytes;
}

void sim_unknown_copy(uintptr_t to, uintptr_t from, size_t bytes)
{
    if (!is_any)
        return;
    struct sim_block *target = sim_block_find(to);
    const struct sim_block *source = sim_block_find(from);
    bool is_unknown = source && source->is_unknown;

    if (is_unknown && (!target || sim_block_is_host(target)))
        count_read(from);
    if (target && (is_unknown || is_whole(target, to, bytes)))
        target->is_unknown = is_unknown;
}

void sim_unknown_fill(uintptr_t to, size_t bytes)
{
    struct sim_block *target = is_any ? sim_block_find(to) : NULL;

    if (target && is_whole(target, to, bytes))
        target->is_unknown = false;
}

void sim_unknown_start(void)
{
    atomic_store(&reads, 0);
}

unsigned long long tarn_sim_unknown_reads(void)
{
    return atomic_load(&reads);
}
