/* vmm_access.c -- access rights of mapped memory: queries, changes, and checks of copies
 * and fills. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include "sim/memory/vmm.h"
#include <stdio.h>
#include <sys/mman.h>

/* The mapping at `address`, or NULL. */
static struct sim_block *mapping_at(uintptr_t address)
{
    struct sim_block *block = sim_block_find(address);

    return block && block->kind == BLOCK_MAPPED ? block : NULL;
}

bool sim_vmm_is_mapped(uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes;

    while (start < end) {
        const struct sim_block *block = mapping_at(start);
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
        const struct sim_block *block = mapping_at(start);
        if (!block)
            return false;
        if (!((touch->writes ? block->may_write : block->may_read) >> device & 1))
            return false;
        start = block->range.start + block->range.bytes;
    }
    return true;
}

/* --- cuMemSetAccess, cuMemGetAccess --- */

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
    const struct sim_block *first = mapping_at(start), *last;

    if (!first || first->range.start != start || bytes == 0 ||
        start > UINTPTR_MAX - bytes || !sim_vmm_is_mapped(start, bytes))
        return false;
    last = mapping_at(start + bytes - 1);
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
        block = mapping_at(next);
        restrict_to(block, access, count);
    }
    sim_guards_wait(start, bytes);
    for (next = start; next < start + bytes; next += block->range.bytes) {
        block = mapping_at(next);
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
    return sim_leave(result);
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
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
        if (block->may_write >> location->id & 1)
            *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        else if (block->may_read >> location->id & 1)
            *flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    }
    return sim_leave(CUDA_SUCCESS);
}

/* --- guards --- */

static struct sim_guard *running;

/* Return true if there is nothing to check: no address of the guard is reserved. */
static bool is_idle(const struct sim_guard *guard)
{
    return guard->touches[0].bytes == 0 && guard->touches[1].bytes == 0;
}

bool sim_guard_set(struct sim_guard *guard, struct sim_context *context,
                   const struct sim_touch touches[2])
{
    guard->context = context;
    guard->context_generation = context->id;
    for (int i = 0; i < 2; i++) {
        if (touches[i].bytes == 0 || !sim_vmm_holds(touches[i].start))
            continue;
        guard->touches[i] = touches[i];
        if (!sim_vmm_is_allowed(context->device, &touches[i]))
            return false;
    }
    return true;
}

/* The first access that is not allowed, or NULL. */
static const struct sim_touch *find_bad(const struct sim_guard *guard)
{
    for (int i = 0; i < 2; i++)
        if (guard->touches[i].bytes > 0 &&
            !sim_vmm_is_allowed(guard->context->device, &guard->touches[i]))
            return &guard->touches[i];
    return NULL;
}

/* Mark the context as lost, unless it was reset since the work was queued. */
static void lose(const struct sim_guard *guard, const struct sim_touch *bad)
{
    if (guard->context->id != guard->context_generation ||
        !sim_context_lose(guard->context, CUDA_ERROR_ILLEGAL_ADDRESS))
        return;
    fprintf(stderr,
            "tarn simulator: queued work %s %zu bytes at 0x%zx, to which device %d has "
            "no access any more: its context is lost (CUDA_ERROR_ILLEGAL_ADDRESS)\n",
            bad->writes ? "writes" : "reads", bad->bytes, (size_t)bad->start,
            guard->context->device);
}

bool sim_guard_enter(struct sim_guard *guard)
{
    const struct sim_touch *bad = find_bad(guard);

    if (bad) {
        lose(guard, bad);
        return false;
    }
    if (is_idle(guard))
        return true;
    guard->previous = NULL;
    guard->next = running;
    if (running)
        running->previous = guard;
    running = guard;
    return true;
}

void sim_guard_leave(struct sim_guard *guard)
{
    if (is_idle(guard))
        return;
    if (guard->next)
        guard->next->previous = guard->previous;
    if (guard->previous)
        guard->previous->next = guard->next;
    else
        running = guard->next;
    sim_progress();
}

static bool is_touched(uintptr_t start, size_t bytes)
{
    for (const struct sim_guard *guard = running; guard; guard = guard->next)
        for (int i = 0; i < 2; i++) {
            const struct sim_touch *touch = &guard->touches[i];
            if (touch->bytes > 0 && touch->start < start + bytes &&
                start < touch->start + touch->bytes)
                return true;
        }
    return false;
}

void sim_guards_wait(uintptr_t start, size_t bytes)
{
    while (is_touched(start, bytes))
        sim_wait_progress();
}
