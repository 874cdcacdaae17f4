/* vmm.c -- reserved addresses, and what is mapped there. */
#define _GNU_SOURCE
#include "sim/memory/vmm.h"
#include "base/size.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/heap.h"
#include <stdlib.h>
#include <sys/mman.h>

static struct sim_ranges reservations;
static bool is_changing;

void sim_vmm_begin(void)
{
    while (is_changing)
        sim_lock_wait_progress();
    is_changing = true;
}

void sim_vmm_end(void)
{
    is_changing = false;
    sim_lock_wake();
}

const struct sim_range *sim_vmm_reservation(uintptr_t address)
{
    return sim_ranges_find(&reservations, address);
}

bool sim_vmm_holds(uintptr_t address)
{
    return sim_vmm_reservation(address) != NULL;
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
    return sim_lock_leave(CUDA_SUCCESS);
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
    return sim_lock_leave(result);
}

bool sim_vmm_clear(uintptr_t start, size_t bytes)
{
    return map_nothing((void *)start, bytes, MAP_FIXED);
}

/* --- what is mapped --- */

struct sim_block *sim_vmm_mapping(uintptr_t address)
{
    struct sim_block *block = sim_block_find(address);

    return block && block->kind == BLOCK_MAPPED ? block : NULL;
}

bool sim_vmm_is_mapped(uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes;

    while (start < end) {
        const struct sim_block *block = sim_vmm_mapping(start);
        if (!block)
            return false;
        start = block->range.start + block->range.bytes;
    }
    return true;
}

bool sim_vmm_is_allowed(CUdevice device, const struct sim_touch *touch)
{
    uintptr_t start = touch->start, end = start + touch->bytes;

    while (start < end) {
        const struct sim_block *block = sim_vmm_mapping(start);
        if (!block)
            return false;
        if (!((touch->writes ? block->may_write : block->may_read) >> device & 1))
            return false;
        start = block->range.start + block->range.bytes;
    }
    return true;
}
