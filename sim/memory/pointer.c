/* pointer.c -- pointer attributes and address ranges. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/memory/block.h"
#include "sim/memory/physical.h"
#include "sim/memory/pool.h"
#include "sim/memory/vmm.h"

/* For most queries, memory that no device has access to does not exist. */
static bool is_reachable(const struct sim_block *block)
{
    return block->kind != BLOCK_MAPPED || block->may_read != 0;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes, CUdeviceptr address)
{
    ENTER(CALL_CONTEXT);
    if (start)
        *start = 0;
    if (bytes)
        *bytes = 0;
    sim_lock();
    const struct sim_block *block = sim_block_find((uintptr_t)address);
    if (!block || !is_reachable(block))
        return sim_lock_leave(CUDA_ERROR_NOT_FOUND);
    if (start)
        *start = block->range.start;
    if (bytes)
        *bytes = block->range.bytes;
    return sim_lock_leave(CUDA_SUCCESS);
}

/* Pinned, registered and managed memory has an address for the host. */
static CUresult host_pointer(const struct sim_block *block, uintptr_t address,
                             void *value)
{
    bool is_hosts = sim_block_is_host(block) || sim_block_is_managed(block);

    *(void **)value = is_hosts ? (void *)address : NULL;
    return is_hosts ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Memory of another device needs peer access. */
static CUresult device_pointer(const struct sim_block *block, uintptr_t address,
                               void *value)
{
    const struct sim_context *context = sim_context_current();
    bool is_devices =
        is_reachable(block) && (!context || sim_block_is_reached(block, context));

    *(CUdeviceptr *)value = is_devices ? address : 0;
    return is_devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The requested range; for mapped memory, the reservation around it. */
static const struct sim_range *range_of(const struct sim_block *block)
{
    return block->kind == BLOCK_MAPPED ? sim_vmm_reservation(block->range.start)
                                       : &block->range;
}

/* The physical memory around `address`: a piece of a pool is one. */
static const struct sim_range *mapping_of(const struct sim_block *block,
                                          uintptr_t address)
{
    const struct sim_range *piece =
        block->kind == BLOCK_POOL ? sim_pool_piece(block->pool, address) : NULL;

    return piece ? piece : &block->range;
}

static uint64_t handle_types(const struct sim_block *block)
{
    if (block->kind == BLOCK_MAPPED)
        return (uint64_t)block->physical->handle_types;
    return block->kind == BLOCK_POOL ? (uint64_t)block->pool->handle_types : 0;
}

static int access_flags(const struct sim_block *block)
{
    const struct sim_context *context = sim_context_current();
    CUdevice device = context ? context->device : block->device;

    if (block->kind != BLOCK_MAPPED || block->may_write >> device & 1)
        return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return block->may_read >> device & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                         : CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

static CUresult read_attribute(const struct sim_block *block, uintptr_t address,
                               CUpointer_attribute attribute, void *value)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = (CUcontext)(void *)block->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value =
            sim_block_is_host(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return device_pointer(block, address, value);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return host_pointer(block, address, value);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(int *)value = block->sync_memops || sim_block_is_managed(block);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)value = block->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(int *)value = sim_block_is_managed(block);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = block->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)value = block->kind == BLOCK_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = range_of(block)->start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = range_of(block)->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)value = mapping_of(block, address)->start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)value = mapping_of(block, address)->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)value = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(uint64_t *)value = handle_types(block);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(int *)value = block->kind == BLOCK_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(int *)value = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(int *)value = access_flags(block);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)value = (CUmemoryPool)(void *)block->pool;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(uint64_t *)value =
            block->kind == BLOCK_MAPPED ? block->physical->id : block->id;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    ENTER(CALL_SURVIVES);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_block *block = sim_block_find((uintptr_t)address);
    if (!block)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_lock_leave(read_attribute(block, (uintptr_t)address, attribute, value));
}

/* The values of cuPointerGetAttributes where there is no answer. The address may be
 * reserved. */
static void clear_attribute(CUdeviceptr address, CUpointer_attribute attribute,
                            void *value)
{
    const struct sim_range *reserved = sim_vmm_reservation((uintptr_t)address);

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = CU_DEVICE_INVALID;
        return;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(uint64_t *)value = 0;
        return;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        if (reserved) /* otherwise the output keeps its value */
            *(CUdeviceptr *)value = reserved->start;
        return;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = reserved ? reserved->bytes : 0;
        return;
    default:
        *(int *)value = 0;
    }
}

/* Unlike cuPointerGetAttribute, it does not fail for an unknown address. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                void **values, CUdeviceptr address)
{
    ENTER(CALL_SURVIVES);
    if (count == 0 || !attributes || !values)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
            attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE ||
            attributes[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS || !values[i])
            return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_block *block = sim_block_find((uintptr_t)address);
    for (unsigned i = 0; i < count; i++)
        if (!block || read_attribute(block, (uintptr_t)address, attributes[i],
                                     values[i]) != CUDA_SUCCESS)
            clear_attribute(address, attributes[i], values[i]);
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    ENTER(CALL_CONTEXT);
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_block *block = sim_block_find((uintptr_t)address);
    if (block && block->kind == BLOCK_MAPPED)
        return sim_lock_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (block)
        block->sync_memops = *(const int *)value != 0;
    return sim_lock_leave(block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
