/* host.c -- host memory that the device can access: pinned, registered, managed. */
#define _GNU_SOURCE
#include "base/size.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/context.h"
#include "sim/memory/memory.h"
#include "sim/memory/place.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static CUresult map_block(size_t bytes, enum sim_block_kind kind, unsigned flags,
                          struct sim_block **out)
{
    CUresult result = sim_context_check_current(); /* under the lock, so still valid */
    size_t length;
    struct sim_block *block;

    if (result != CUDA_SUCCESS)
        return result;
    if (!tarn__size_round_up(bytes, (size_t)sysconf(_SC_PAGESIZE), &length) ||
        !sim_block_fits_host(length, kind == BLOCK_MANAGED))
        return CUDA_ERROR_OUT_OF_MEMORY;
    block = sim_block_new(sim_context_current(), kind, 0, bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->flags = flags;
    block->mapping_bytes = length;
    block->mapping = mmap(NULL, length, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block->mapping == MAP_FAILED) {
        block->mapping = NULL;
        sim_memory_destroy_block(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->range.start = (uintptr_t)block->mapping;
    sim_block_insert(block);
    *out = block;
    return CUDA_SUCCESS;
}

enum { ATTACH_ALL = CU_MEM_ATTACH_GLOBAL | CU_MEM_ATTACH_HOST | CU_MEM_ATTACH_SINGLE };

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    struct sim_block *block;
    CUresult result;

    CLEAR(out);
    ENTER(CALL_ALLOCATES);
    if (!out || bytes == 0 || flags > ATTACH_ALL)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_context_check_current();
    if (result != CUDA_SUCCESS)
        return result;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = map_block(bytes, BLOCK_MANAGED, flags, &block);
    if (result == CUDA_SUCCESS)
        *out = block->range.start;
    return sim_lock_leave(result);
}

static CUresult allocate_pinned(void **out, size_t bytes, unsigned flags)
{
    struct sim_block *block;
    CUresult result;

    if (!out || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes == 0)
        return CUDA_SUCCESS; /* a size of 0 gives no pointer */
    result = map_block(bytes, BLOCK_PINNED, flags, &block);
    if (result == CUDA_SUCCESS)
        *out = block->mapping;
    return result;
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    CLEAR(out);
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(allocate_pinned(out, bytes, flags));
}

CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
    CLEAR(out);
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    sim_lock();
    return sim_lock_leave(allocate_pinned(out, bytes, 0));
}

/* Waits for the device, as the real driver does. */
/* Needs no context: measured on an H200. */
CUresult cuMemFreeHost(void *pointer)
{
    ENTER(CALL_PLAIN);
    if (!pointer)
        return CUDA_SUCCESS;
    sim_lock();
    struct sim_block *block = sim_block_find((uintptr_t)pointer);
    if (!block || block->kind != BLOCK_PINNED || block->range.start != (uintptr_t)pointer)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    sim_memory_release_block(block);
    return sim_lock_leave(CUDA_SUCCESS);
}

/* Return true if the process has pages from `start` to `end`, and may write them if
 * `to_write`. */
static bool is_mapped(uintptr_t start, uintptr_t end, bool to_write)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long first, last;
    char line[512], rights[8];

    if (!maps)
        return true; /* the system does not report it */
    while (start < end && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s", &first, &last, rights) != 3 || last <= start)
            continue;
        if (first > start || rights[0] != 'r' || (to_write && rights[1] != 'w'))
            break;
        start = last;
    }
    fclose(maps);
    return start >= end;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
    size_t end;

    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!pointer || bytes == 0 || flags > 15 ||
        !tarn__size_add((uintptr_t)pointer, bytes, &end))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return CUDA_ERROR_NOT_SUPPORTED;
    sim_lock();
    const struct sim_block *there = sim_block_find((uintptr_t)pointer);
    if ((there && there->kind != BLOCK_REGISTERED) ||
        sim_place_is_device((uintptr_t)pointer) ||
        !is_mapped((uintptr_t)pointer, end, !(flags & CU_MEMHOSTREGISTER_READ_ONLY)))
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    if (sim_block_overlaps((uintptr_t)pointer, bytes))
        return sim_lock_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    struct sim_block *block =
        sim_block_new(sim_context_current(), BLOCK_REGISTERED, (uintptr_t)pointer, bytes);
    if (!block)
        return sim_lock_leave(CUDA_ERROR_OUT_OF_MEMORY);
    block->flags = flags;
    sim_block_insert(block);
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuMemHostUnregister(void *pointer)
{
    ENTER(CALL_CONTEXT);
    if (!pointer)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_block *block = sim_block_find((uintptr_t)pointer);
    if (!block)
        return sim_lock_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    if (block->kind != BLOCK_REGISTERED || block->range.start != (uintptr_t)pointer)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    sim_memory_release_block(block);
    return sim_lock_leave(CUDA_SUCCESS);
}

/* The host memory at `pointer`, or NULL. */
static const struct sim_block *find_host(const void *pointer)
{
    const struct sim_block *block = sim_block_find((uintptr_t)pointer);

    return block && sim_block_is_host(block) ? block : NULL;
}

/* Addresses are unified: the device has the same one. */
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *pointer, unsigned int flags)
{
    ENTER(CALL_CONTEXT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    if (!pointer || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_block *block = find_host(pointer);
    if (block)
        *out = (CUdeviceptr)(uintptr_t)pointer;
    return sim_lock_leave(block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* The flags that the real driver reports: portable only for write-combined pinned
 * memory, and for registered memory no other flag. */
static unsigned reported_flags(const struct sim_block *block)
{
    if (block->kind == BLOCK_REGISTERED)
        return block->flags & CU_MEMHOSTREGISTER_PORTABLE;
    return block->flags & CU_MEMHOSTALLOC_WRITECOMBINED
               ? block->flags
               : block->flags & ~(unsigned)CU_MEMHOSTALLOC_PORTABLE;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *pointer)
{
    ENTER(CALL_CONTEXT);
    if (!flags || !pointer)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_block *block = find_host(pointer);
    if (block) /* with unified addresses all of it is mapped */
        *flags = reported_flags(block) | CU_MEMHOSTALLOC_DEVICEMAP;
    return sim_lock_leave(block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
