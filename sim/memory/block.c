/* block.c -- the table of blocks, and the live bytes. */
#include "sim/memory/block.h"
#include "base/map.h"
#include "sim/core/api.h"
#include "sim/core/device.h"
#include "sim/core/lock.h"
#include "sim/memory/graph_memory.h"
#include "sim/memory/pool.h"
#include "sim/races/races.h"
#include <stdlib.h>
#include <unistd.h>

struct sim_ranges sim_blocks = {.is_unsized = true};

/* From start addresses to blocks. A block that could not be added for lack of host
 * memory is in the table alone. */
static struct tarn__map starts = {.value_bytes = sizeof(void *), .stride = 16};

unsigned long long sim_live_bytes, sim_mapped_bytes;

struct sim_block *sim_block_new(struct sim_context *context, enum sim_block_kind kind,
                                uintptr_t start, size_t bytes)
{
    struct sim_block *block = calloc(1, sizeof *block);

    if (!block)
        return NULL;
    block->kind = kind;
    block->range.start = start;
    block->range.bytes = bytes;
    if (context) {
        block->context = context;
        block->context_generation = context->id;
        block->device = context->device;
    }
    block->preferred = block->prefetched = CU_DEVICE_INVALID;
    return block;
}

/* Add `block` to the counts (1) or subtract it (-1). */
static void count(const struct sim_block *block, int sign)
{
    unsigned long long bytes = block->range.bytes;

    if (block->kind == BLOCK_REGISTERED || block->kind == BLOCK_OPENED ||
        block->kind == BLOCK_MAPPED || (block->kind == BLOCK_POOL && !block->memory))
        return; /* the client's, another process's, or counted by physical.c */
    sim_live_bytes += sign > 0 ? bytes : -bytes;
    if (block->mapping) {
        unsigned long long pages = block->mapping_bytes; /* as in sim_block_fits_host() */
        sim_mapped_bytes += sign > 0 ? pages : -pages;
    }
}

void sim_block_insert(struct sim_block *block)
{
    block->id = sim_lock_next_id();
    sim_ranges_insert(&sim_blocks, &block->range);
    bool is_listed = tarn__map_put(&starts, block->range.start, &block);
    (void)is_listed;
    sim_races_forget(block->range.start, block->range.bytes);
    count(block, 1);
}

void sim_block_remove(struct sim_block *block)
{
    sim_ranges_remove(&sim_blocks, &block->range);
    tarn__map_take(&starts, block->range.start, NULL);
    count(block, -1);
}

struct sim_block *sim_block_find(uintptr_t address)
{
    return (struct sim_block *)(void *)sim_ranges_find(&sim_blocks, address);
}

struct sim_block *sim_block_at(uintptr_t address)
{
    struct sim_block **listed = address ? tarn__map_get(&starts, address) : NULL;
    struct sim_block *block = listed ? *listed : sim_block_find(address);

    return block && block->range.start == address ? block : NULL;
}

bool sim_block_overlaps(uintptr_t start, size_t bytes)
{
    const struct sim_range *after = sim_ranges_after(&sim_blocks, start);

    return sim_block_find(start) || (after && after->start - start < bytes);
}

bool sim_block_is_host(const struct sim_block *block)
{
    return block->kind == BLOCK_PINNED || block->kind == BLOCK_REGISTERED ||
           (block->kind == BLOCK_POOL && block->pool->kind == POOL_HOST);
}

bool sim_block_is_managed(const struct sim_block *block)
{
    return block->kind == BLOCK_MANAGED ||
           (block->kind == BLOCK_POOL && block->pool->kind == POOL_MANAGED) ||
           (block->kind == BLOCK_GRAPH && block->graph_memory->is_managed);
}

bool sim_block_is_reached(const struct sim_block *block,
                          const struct sim_context *context)
{
    if (block->device == context->device)
        return true;
    if (block->kind == BLOCK_POOL)
        return block->pool->access >> context->device & 1;
    return block->kind != BLOCK_DEVICE || context->peers >> block->device & 1;
}

/* --- counts --- */

/* Pages are only allocated when they are touched, so a limit must make requests fail:
 * the host's memory, and for managed memory the devices' as well. */
bool sim_block_fits_host(size_t bytes, bool is_managed)
{
    unsigned long long limit = (unsigned long long)sysconf(_SC_PHYS_PAGES) *
                               (unsigned long long)sysconf(_SC_PAGESIZE);

    if (is_managed)
        limit += sim_options.memory_bytes * (unsigned)sim_device_count;
    return sim_mapped_bytes <= limit && bytes <= limit - sim_mapped_bytes;
}

unsigned long long tarn_sim_live_bytes(void)
{
    sim_lock();
    unsigned long long bytes = sim_live_bytes;
    sim_lock_release();
    return bytes;
}
