/* pool_api.c -- the calls about pools: allocate, free, create, attributes, access. */
#include "sim/api.h"
#include "sim/call.h"
#include "sim/capture.h"
#include "sim/device.h"
#include "sim/graph_memory.h"
#include "sim/pool.h"
#include "sim/pool_file.h"
#include "sim/pool_share.h"
#include "sim/stream.h"

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
    result = sim_stream_find(__func__, handle, &stream);
    if (result != CUDA_SUCCESS || bytes == 0) /* nothing, and no pointer to it */
        return sim_leave(result);
    if (stream->member)
        return sim_leave(
            sim_capture_allocate(stream, stream->context->device, bytes, out));
    struct sim_pool *pool = sim_devices[stream->context->device].current_pool;
    return sim_leave(sim_pool_allocate(pool, stream, bytes, out));
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
    result = sim_stream_find(__func__, handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_leave(result);
    struct sim_pool *pool = sim_pool_find_own(pool_handle);
    if (!pool)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (bytes == 0)
        return sim_leave(CUDA_SUCCESS);
    if (stream->member)
        return sim_leave(sim_capture_allocate(stream, pool->device, bytes, out));
    return sim_leave(sim_pool_allocate(pool, stream, bytes, out));
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_PLAIN);
    sim_lock();
    result = sim_stream_find(__func__, handle, &stream);
    if (result != CUDA_SUCCESS || address == 0)
        return sim_leave(result);
    if (stream->member)
        return sim_leave(sim_capture_free(stream, address));
    struct sim_block *block = sim_block_at((uintptr_t)address);
    if (block && block->kind == BLOCK_GRAPH)
        return sim_leave(sim_graph_memory_free_async(block, stream));
    if (block && block->kind == BLOCK_DEVICE)
        return sim_leave(sim_memory_free_async(block, stream));
    if (!block || block->kind != BLOCK_POOL)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    return sim_leave(block->memory ? sim_pool_free(block, stream)
                                   : sim_pool_free_imported(block, stream));
}

/* --- pools
 * -------------------------------------------------------------------------------- */

static bool are_zeros(const unsigned char *bytes, size_t count)
{
    while (count > 0 && bytes[count - 1] == 0)
        count--;
    return count == 0;
}

/* What would be right on a GPU and is not here: pools of host and managed memory, and
 * those that go to other nodes. */
static bool is_elsewhere(const CUmemPoolProps *properties)
{
    int where = properties->location.type;

    return properties->handleTypes == CU_MEM_HANDLE_TYPE_FABRIC ||
           properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED ||
           (where >= CU_MEM_LOCATION_TYPE_HOST &&
            where <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
}

static CUresult check_properties(const CUmemPoolProps *properties)
{
    if (is_elsewhere(properties))
        return CUDA_ERROR_NOT_SUPPORTED;
    return !(properties->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) &&
                   properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                   properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                   sim_device_exists(properties->location.id) &&
                   are_zeros(properties->reserved, sizeof properties->reserved)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties)
{
    CUresult result;

    ENTER(CALL_ALLOCATES);
    if (!out || !properties)
        return CUDA_ERROR_INVALID_VALUE;
    result = check_properties(properties);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    struct sim_pool *pool = sim_pool_new(properties->location.id);
    if (!pool)
        return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (properties->maxSize > 0)
        pool->max_bytes = sim_pool_limit(properties->maxSize);
    if (properties->handleTypes)
        result = sim_pool_file_create(pool);
    if (result == CUDA_SUCCESS) {
        pool->handle_types = properties->handleTypes;
        *out = handle_of(pool);
    } else {
        sim_pool_remove(pool);
    }
    return sim_leave(result);
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    CUresult result = CUDA_SUCCESS;

    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_pool *pool = sim_pool_find(handle);
    if (!pool || pool->is_default)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    if (pool->file && pool->file->is_imported)
        result = sim_pool_destroy_imported(pool);
    else
        sim_pool_destroy(pool);
    return sim_leave(result);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_pool *pool = sim_pool_find_own(handle);
    if (pool)
        sim_pool_trim(pool, keep);
    return sim_leave(pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* --- which pool a device has
 * -------------------------------------------------------------- */

static CUresult get_pool(CUmemoryPool *out, CUdevice device, bool is_default)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    *out = handle_of(is_default ? sim_devices[device].pool
                                : sim_devices[device].current_pool);
    return sim_leave(CUDA_SUCCESS);
}

static CUresult set_pool(CUdevice device, CUmemoryPool handle)
{
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_pool *pool = sim_pool_find_own(handle);
    if (!pool || pool->device != device)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_devices[device].current_pool = pool;
    return sim_leave(CUDA_SUCCESS);
}

/* Only pools of device memory are there to be asked for. */
static CUresult check_location(const CUmemLocation *location, int type)
{
    if (!location)
        return CUDA_ERROR_INVALID_VALUE;
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
                   type == CU_MEM_ALLOCATION_TYPE_PINNED
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    ENTER(CALL_PLAIN);
    return get_pool(out, device, true);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    ENTER(CALL_PLAIN);
    return get_pool(out, device, false);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle)
{
    ENTER(CALL_PLAIN);
    return set_pool(device, handle);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location, int type)
{
    CUresult result;

    ENTER(CALL_PLAIN);
    result = check_location(location, type);
    return result == CUDA_SUCCESS ? get_pool(out, location->id, true) : result;
}

CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, int type)
{
    CUresult result;

    ENTER(CALL_PLAIN);
    result = check_location(location, type);
    return result == CUDA_SUCCESS ? get_pool(out, location->id, false) : result;
}

CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool handle)
{
    CUresult result;

    ENTER(CALL_PLAIN);
    result = check_location(location, type);
    return result == CUDA_SUCCESS ? set_pool(location->id, handle) : result;
}

/* --- attributes and access
 * ---------------------------------------------------------------- */

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
    return sim_leave(pool ? get_attribute(pool, attribute, value)
                          : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                               void *value)
{
    ENTER(CALL_PLAIN);
    if (!value)
        sim_abort(__func__, "the value is NULL; a real driver crashes here");
    sim_lock();
    struct sim_pool *pool = sim_pool_find_own(handle);
    return sim_leave(pool ? set_attribute(pool, attribute, value)
                          : CUDA_ERROR_INVALID_VALUE);
}

/* The pool's own device always has access. */
static CUresult check_access(const struct sim_pool *pool, const CUmemAccessDesc *access)
{
    if (access->location.type == CU_MEM_LOCATION_TYPE_HOST)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(access->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    return access->location.id == pool->device &&
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
        uint64_t bit = (uint64_t)1 << access[i].location.id;
        if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
            pool->access &= ~bit;
        else
            pool->access |= bit;
    }
    return sim_leave(result);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle,
                            CUmemLocation *location)
{
    ENTER(CALL_PLAIN);
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    bool is_host = location->type == CU_MEM_LOCATION_TYPE_HOST;
    if (!is_host && (location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
                     !sim_device_exists(location->id)))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_pool *pool = sim_pool_find(handle);
    if (!pool)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    bool has =
        !is_host && (location->id == pool->device || pool->access >> location->id & 1);
    *flags = has ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sim_leave(CUDA_SUCCESS);
}
