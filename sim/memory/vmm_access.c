/* vmm_access.c -- access rights of mapped memory: cuMemSetAccess and cuMemGetAccess. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include "sim/memory/guard.h"
#include <sys/mman.h>

static CUresult check_access(const CUmemAccessDesc *access)
{
    int type = access->location.type;

    if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    if (type >= CU_MEM_LOCATION_TYPE_HOST &&
        type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        return CUDA_ERROR_NOT_SUPPORTED;
    return type == CU_MEM_LOCATION_TYPE_DEVICE && sim_device_exists(access->location.id)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* Return true if the range consists of whole, adjacent mappings. */
static bool are_mappings(uintptr_t start, size_t bytes)
{
    const struct sim_block *first = sim_vmm_mapping(start), *last;

    if (!first || first->range.start != start || bytes == 0 ||
        start > UINTPTR_MAX - bytes || !sim_vmm_is_mapped(start, bytes))
        return false;
    last = sim_vmm_mapping(start + bytes - 1);
    return last->range.start + last->range.bytes == start + bytes;
}

static void allow(struct sim_block *block, const CUmemAccessDesc *access)
{
    uint64_t bit = (uint64_t)1 << access->location.id;

    block->may_read &= ~bit;
    block->may_write &= ~bit;
    if (access->flags & CU_MEM_ACCESS_FLAGS_PROT_READ)
        block->may_read |= bit;
    if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        block->may_write |= bit;
}

/* Host functions that replace kernels use the addresses directly, so the pages have the
 * protection of the device with the most rights. */
static bool protect(const struct sim_block *block)
{
    int protection = block->may_write  ? PROT_READ | PROT_WRITE
                     : block->may_read ? PROT_READ
                                       : PROT_NONE;

    return mprotect((void *)block->range.start, block->range.bytes, protection) == 0;
}

/* Remove the rights of `block` that `access` does not include. */
static void restrict_to(struct sim_block *block, const CUmemAccessDesc *access,
                        size_t count)
{
    struct sim_block after = *block;

    for (size_t i = 0; i < count; i++)
        allow(&after, &access[i]);
    block->may_read &= after.may_read;
    block->may_write &= after.may_write;
}

/* To remove rights: reject new uses, wait for running ones, then protect. To add rights:
 * unprotect first, then accept uses. */
static CUresult set_access(uintptr_t start, size_t bytes, const CUmemAccessDesc *access,
                           size_t count)
{
    struct sim_block *block;
    uintptr_t next;

    if (!are_mappings(start, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    for (next = start; next < start + bytes; next += block->range.bytes) {
        block = sim_vmm_mapping(next);
        restrict_to(block, access, count);
    }
    sim_guard_wait(start, bytes);
    for (next = start; next < start + bytes; next += block->range.bytes) {
        block = sim_vmm_mapping(next);
        for (size_t i = 0; i < count; i++)
            allow(block, &access[i]);
        if (!protect(block)) { /* the system's limit of mappings */
            block->may_read = block->may_write = 0;
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                        size_t count)
{
    CUresult result = CUDA_SUCCESS;

    ENTER(CALL_ALLOCATES);
    if (!access || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = check_access(&access[i]);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    sim_vmm_begin();
    result = set_access((uintptr_t)address, bytes, access, count);
    sim_vmm_end();
    return sim_lock_leave(result);
}

/* Memory that cuMemMap did not map has no such access, even where it can be used. */
CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    ENTER(CALL_PLAIN);
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && !sim_device_exists(location->id))
        return CUDA_ERROR_INVALID_DEVICE;
    if (address != 0)
        /* as the real driver does when it fails */
        *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    sim_lock();
    const struct sim_block *block = sim_block_find((uintptr_t)address);
    if (!block)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
        if (block->may_write >> location->id & 1)
            *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        else if (block->may_read >> location->id & 1)
            *flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    }
    return sim_lock_leave(CUDA_SUCCESS);
}
