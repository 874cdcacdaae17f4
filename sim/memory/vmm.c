/* vmm.c -- reserving addresses, mapping, unmapping. */
#define _GNU_SOURCE
#include "sim/memory/vmm.h"
#include "base/sizes.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include "sim/memory/physical.h"
#include "sim/races/races.h"
#include <stdlib.h>
#include <sys/mman.h>

static struct sim_ranges reservations;
static bool is_changing;

void sim_vmm_begin(void)
{
    while (is_changing)
        sim_wait_progress();
    is_changing = true;
}

void sim_vmm_end(void)
{
    is_changing = false;
    sim_progress();
}

const struct sim_range *sim_vmm_reservation(uintptr_t address)
{
    return sim_ranges_find(&reservations, address);
}

bool sim_vmm_holds(uintptr_t address)
{
    return sim_vmm_reservation(address) != NULL;
}

/* Return true if both are multiples of 2 MiB, `bytes` is not 0, and the sum does not
 * overflow. */
static bool are_pieces(uintptr_t start, size_t bytes)
{
    return start != 0 && bytes != 0 && (start | bytes) % SIM_PIECE_BYTES == 0 &&
           start <= UINTPTR_MAX - bytes;
}

/* --- reservations --- */

static void *map_nothing(void *where, size_t bytes, int flags)
{
    void *got = mmap(where, bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);

    return got == MAP_FAILED ? NULL : got;
}

/* Reserve addresses at a multiple of `alignment` within a larger range. 0: there are
 * none. */
static uintptr_t find_addresses(size_t bytes, size_t alignment)
{
    size_t more;
    uintptr_t got, start, end;

    if (!tarn__size_add(bytes, alignment, &more))
        return 0;
    got = (uintptr_t)map_nothing(NULL, more, 0);
    if (!got)
        return 0;
    start = (got + alignment - 1) & ~(alignment - 1);
    end = start + bytes;
    if (start > got)
        munmap((void *)got, start - got);
    if (got + more > end)
        munmap((void *)end, got + more - end);
    return start;
}

/* Reserve the addresses that the client requests, if they are free; otherwise others. */
static uintptr_t reserve_addresses(size_t bytes, size_t alignment, uintptr_t hint)
{
    void *got = hint % alignment == 0 && hint
                    ? map_nothing((void *)hint, bytes, MAP_FIXED_NOREPLACE)
                    : NULL;

    if (got && (uintptr_t)got != hint) { /* a system that does not know the flag */
        munmap(got, bytes);
        got = NULL;
    }
    return got ? hint : find_addresses(bytes, alignment);
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment,
                             CUdeviceptr hint, unsigned long long flags)
{
    struct sim_range *range;

    ENTER(CALL_ALLOCATES);
    if (!out || bytes == 0 || flags != 0 || (alignment & (alignment - 1)) != 0 ||
        (bytes | hint) % SIM_PIECE_BYTES != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < SIM_PIECE_BYTES)
        alignment = SIM_PIECE_BYTES;
    range = calloc(1, sizeof *range);
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range->bytes = bytes;
    range->start = reserve_addresses(bytes, alignment, (uintptr_t)hint);
    if (!range->start) {
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_lock();
    sim_ranges_insert(&reservations, range);
    *out = range->start;
    return sim_leave(CUDA_SUCCESS);
}

static CUresult free_addresses(uintptr_t start, size_t bytes)
{
    struct sim_range *range = sim_ranges_find(&reservations, start);

    if (!range || range->start != start || range->bytes != bytes ||
        sim_block_overlaps(start, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    sim_ranges_remove(&reservations, range);
    munmap((void *)start, bytes);
    free(range);
    return CUDA_SUCCESS;
}

/* Frees all of one reservation, in which nothing is mapped. */
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    sim_vmm_begin();
    CUresult result = free_addresses((uintptr_t)address, bytes);
    sim_vmm_end();
    return sim_leave(result);
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
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_vmm_begin();
    CUresult result = map((uintptr_t)address, bytes, offset, sim_physical_find(handle));
    sim_vmm_end();
    return sim_leave(result);
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
    sim_guards_wait(start, bytes);
    if (!map_nothing((void *)start, bytes, MAP_FIXED))
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
    return sim_leave(result);
}
