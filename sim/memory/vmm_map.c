/* vmm_map.c -- mapping and unmapping of physical memory. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/heap.h"
#include "sim/memory/guard.h"
#include "sim/memory/physical.h"
#include "sim/memory/vmm.h"
#include "sim/races/races.h"
#include <stdlib.h>

/* Return true if both are multiples of 2 MiB, `bytes` is not 0, and the sum does not
 * overflow. */
static bool are_pieces(uintptr_t start, size_t bytes)
{
    return start != 0 && bytes != 0 && (start | bytes) % SIM_PIECE_BYTES == 0 &&
           start <= UINTPTR_MAX - bytes;
}

/* Return true if all of it is reserved. Adjacent reservations suffice, as for the real
 * driver. */
static bool is_reserved(uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes;

    while (start < end) {
        const struct sim_range *range = sim_vmm_reservation(start);
        if (!range)
            return false;
        start = range->start + range->bytes;
    }
    return true;
}

/* --- mappings --- */

static CUresult check_map(uintptr_t start, size_t bytes, size_t offset,
                          const struct sim_physical *physical)
{
    if (!physical || bytes == 0 || start == 0 || start % SIM_PIECE_BYTES != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || bytes != physical->bytes)
        /* mapping a part of the memory: no driver supports it yet */
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!are_pieces(start, bytes) || !is_reserved(start, bytes) ||
        sim_block_overlaps(start, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult map(uintptr_t start, size_t bytes, size_t offset,
                    struct sim_physical *physical)
{
    CUresult result = check_map(start, bytes, offset, physical);
    struct sim_block *block;

    if (result != CUDA_SUCCESS)
        return result;
    block = sim_block_new(NULL, BLOCK_MAPPED, start, bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!sim_physical_map(physical, start)) { /* the system's limit of mappings */
        free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->device = physical->device;
    block->physical = physical;
    physical->mappings++;
    sim_block_insert(block);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    ENTER(CALL_ALLOCATES);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (!sim_physical_find(handle)) /* before vmm_begin, because it may abort */
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    sim_vmm_begin();
    CUresult result = map((uintptr_t)address, bytes, offset, sim_physical_find(handle));
    sim_vmm_end();
    return sim_lock_leave(result);
}

/* The first mapping in [start, end), or NULL. */
static struct sim_block *first_mapping(uintptr_t start, uintptr_t end)
{
    struct sim_range *range = sim_ranges_after(&sim_blocks, start);

    return range && range->start < end ? (struct sim_block *)(void *)range : NULL;
}

/* Return true if no mapping spans a border of [start, end). Unmapped parts are allowed.
 */
static bool is_whole(uintptr_t start, uintptr_t end)
{
    const struct sim_block *low = sim_block_find(start), *high = sim_block_find(end - 1);

    return (!low || low->range.start == start) &&
           (!high || high->range.start + high->range.bytes == end);
}

static void remove_mappings(uintptr_t start, uintptr_t end)
{
    struct sim_block *block;

    while ((block = first_mapping(start, end))) {
        struct sim_physical *physical = block->physical;
        sim_races_touch_by_host(block->range.start, block->range.bytes);
        sim_block_remove(block);
        free(block);
        sim_physical_unmapped(physical);
    }
}

/* Reject new uses first, then wait for running ones, then unmap. */
static CUresult unmap(uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes;

    if (!are_pieces(start, bytes) || !is_reserved(start, bytes) || !is_whole(start, end))
        return CUDA_ERROR_INVALID_VALUE;
    for (struct sim_block *block = first_mapping(start, end); block;
         block = first_mapping(block->range.start + 1, end))
        block->may_read = block->may_write = 0;
    sim_guard_wait(start, bytes);
    if (!sim_vmm_clear(start, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY; /* the system's limit of mappings */
    remove_mappings(start, end);
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    sim_vmm_begin();
    CUresult result = unmap((uintptr_t)address, bytes);
    sim_vmm_end();
    return sim_lock_leave(result);
}
