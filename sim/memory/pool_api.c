/* pool_api.c -- the calls about pools: allocate, free, create, attributes, access. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include "sim/core/hooks.h"
#include "sim/memory/graph_memory.h"
#include "sim/memory/memory.h"
#include "sim/memory/pool.h"
#include "sim/memory/pool_file.h"
#include "sim/memory/pool_place.h"
#include "sim/memory/pool_share.h"
#include "sim/work/stream_lookup.h"

static CUmemoryPool handle_of(struct sim_pool *pool)
{
    return (CUmemoryPool)(void *)pool;
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    CLEAR(out);
    ENTER(CALL_ALLOCATES);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_stream_lookup(__func__, handle, &stream);
    if (result != CUDA_SUCCESS || bytes == 0) /* a size of 0 gives no pointer */
        return sim_lock_leave(result);
    if (stream->member)
        return sim_lock_leave(sim_hooks.capture_add_allocation(
            stream, stream->context->device, bytes, out));
    struct sim_pool *pool = sim_devices[stream->context->device].current_pool;
    return sim_lock_leave(sim_pool_allocate(pool, stream, bytes, out));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool_handle,
                                 CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    CLEAR(out);
    ENTER(CALL_ALLOCATES);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_stream_lookup(__func__, handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    struct sim_pool *pool = sim_pool_find_own(pool_handle);
    if (!pool)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    if (bytes == 0)
        return sim_lock_leave(CUDA_SUCCESS);
    if (stream->member && pool->kind != POOL_DEVICE)
        return sim_lock_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (stream->member)
        return sim_lock_leave(
            sim_hooks.capture_add_allocation(stream, pool->device, bytes, out));
    return sim_lock_leave(sim_pool_allocate(pool, stream, bytes, out));
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_PLAIN);
    sim_lock();
    result = sim_stream_lookup(__func__, handle, &stream);
    if (result != CUDA_SUCCESS || address == 0)
        return sim_lock_leave(result);
    if (stream->member)
        return sim_lock_leave(sim_hooks.capture_add_free(stream, address));
    struct sim_block *block = sim_block_at((uintptr_t)address);
    if (block && block->kind == BLOCK_GRAPH)
        return sim_lock_leave(sim_graph_memory_free_async(block, stream));
    if (block && block->kind == BLOCK_DEVICE)
        return sim_lock_leave(sim_memory_free_async(block, stream));
    if (!block || block->kind != BLOCK_POOL)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_lock_leave(block->memory ? sim_pool_free(block, stream)
                                        : sim_pool_share_free(block, stream));
}

/* --- pools --- */

static bool are_zeros(const unsigned char *bytes, size_t count)
{
    while (count > 0 && bytes[count - 1] == 0)
        count--;
    return count == 0;
}

/* Fabric handles are not supported. Managed memory cannot be exported. */
static CUresult check_properties(const CUmemPoolProps *properties,
                                 enum sim_pool_kind *kind)
{
    CUresult result =
        sim_pool_place_kind(properties->allocType, &properties->location, kind);

    if (properties->handleTypes == CU_MEM_HANDLE_TYPE_FABRIC)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_SUCCESS)
        return result;
    if (*kind == POOL_MANAGED && properties->handleTypes)
        return CUDA_ERROR_NOT_SUPPORTED;
    return !(properties->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) &&
                   are_zeros(properties->reserved, sizeof properties->reserved)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult create(enum sim_pool_kind kind, const CUmemPoolProps *properties,
                       struct sim_pool **out)
{
    struct sim_pool *pool;
    CUresult result;

    if (kind != POOL_DEVICE)
        return sim_pool_new_at(kind, &properties->location, out);
    pool = sim_pool_new(properties->location.id);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = properties->handleTypes ? sim_pool_file_create(pool) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        *out = pool;
    else
        sim_pool_remove(pool);
    return result;
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties)
{
    enum sim_pool_kind kind;
    struct sim_pool *pool;
    CUresult result;

    ENTER(CALL_ALLOCATES);
    if (!out || !properties)
        return CUDA_ERROR_INVALID_VALUE;
    result = check_properties(properties, &kind);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = create(kind, properties, &pool);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    if (properties->maxSize > 0)
        pool->max_bytes = sim_pool_limit(properties->maxSize);
    pool->handle_types = properties->handleTypes;
    *out = handle_of(pool);
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    CUresult result = CUDA_SUCCESS;

    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_pool *pool = sim_pool_find(handle);
    if (!pool || pool->is_default)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    if (pool->file && pool->file->is_imported)
        result = sim_pool_share_destroy(pool);
    else
        sim_pool_destroy(pool);
    return sim_lock_leave(result);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_pool *pool = sim_pool_find_own(handle);
    if (pool)
        sim_pool_trim(pool, keep);
    return sim_lock_leave(pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* --- attributes and access --- */

static CUresult get_attribute(const struct sim_pool *pool, CUmemPool_attribute attribute,
                              void *value)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = pool->reuse[attribute - 1];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(uint64_t *)value = pool->threshold;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(uint64_t *)value = pool->reserved;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(uint64_t *)value = pool->reserved_high;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(uint64_t *)value = pool->used;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(uint64_t *)value = pool->used_high;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_attribute(struct sim_pool *pool, CUmemPool_attribute attribute,
                              const void *value)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse[attribute - 1] = *(const int *)value != 0;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(const uint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(const uint64_t *)value != 0)
            return CUDA_ERROR_INVALID_VALUE;
        if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
            pool->used_high = pool->used;
        else
            pool->reserved_high = pool->reserved;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                               void *value)
{
    ENTER(CALL_PLAIN);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_pool *pool = sim_pool_find_own(handle);
    return sim_lock_leave(pool ? get_attribute(pool, attribute, value)
                               : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                               void *value)
{
    ENTER(CALL_PLAIN);
    if (!value)
        sim_misuse_abort(__func__, "the value is NULL; a real driver crashes here");
    sim_lock();
    struct sim_pool *pool = sim_pool_find_own(handle);
    return sim_lock_leave(pool ? set_attribute(pool, attribute, value)
                               : CUDA_ERROR_INVALID_VALUE);
}

/* The pool's own device always has access. */
static CUresult check_access(const struct sim_pool *pool, const CUmemAccessDesc *access)
{
    if (access->location.type == CU_MEM_LOCATION_TYPE_HOST)
        return pool->kind == POOL_DEVICE ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(access->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    return pool->kind == POOL_DEVICE && access->location.id == pool->device &&
                   access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE
               ? CUDA_ERROR_INVALID_DEVICE
               : CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *access,
                            size_t count)
{
    ENTER(CALL_PLAIN);
    if (!access && count > 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_pool *pool = sim_pool_find(handle);
    CUresult result = pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = check_access(pool, &access[i]);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        if (access[i].location.type == CU_MEM_LOCATION_TYPE_HOST)
            continue; /* the host always has it */
        uint64_t bit = (uint64_t)1 << access[i].location.id;
        if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
            pool->access &= ~bit;
        else
            pool->access |= bit;
    }
    return sim_lock_leave(result);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle,
                            CUmemLocation *location)
{
    ENTER(CALL_PLAIN);
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    bool from_host = location->type == CU_MEM_LOCATION_TYPE_HOST;
    if (!from_host && (location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
                       !sim_device_exists(location->id)))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_pool *pool = sim_pool_find(handle);
    if (!pool)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    bool has = from_host ? pool->kind != POOL_DEVICE
                         : (pool->kind == POOL_DEVICE && location->id == pool->device) ||
                               pool->access >> location->id & 1;
    *flags = has ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sim_lock_leave(CUDA_SUCCESS);
}
