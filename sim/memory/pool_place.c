/* pool_place.c -- the default and current pool of each device, and of host and managed
 * memory. */
#include "sim/memory/pool_place.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/device.h"
#include <stdlib.h>

/* The pools of a location that is not a device's own memory: created at the first
 * request. */
struct location_pool {
    struct location_pool *next;
    enum sim_pool_kind kind;
    CUmemLocation location;
    struct sim_pool *pool;     /* its default pool */
    CUmemoryPool current_pool; /* set by cuMemSetMemPool, or the default one */
};
static struct location_pool *location_pools;

static CUmemoryPool handle_of(struct sim_pool *pool)
{
    return (CUmemoryPool)(void *)pool;
}

/* --- kinds --- */

/* There is one NUMA node, 0. */
static bool is_host(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_HOST ||
           location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
           (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && location->id == 0);
}

/* The location of managed memory may be none. */
CUresult sim_pool_place_kind(int type, const CUmemLocation *location,
                             enum sim_pool_kind *out)
{
    bool is_device =
        location->type == CU_MEM_LOCATION_TYPE_DEVICE && sim_device_exists(location->id);

    if (type == CU_MEM_ALLOCATION_TYPE_PINNED && is_device)
        *out = POOL_DEVICE;
    else if (type == CU_MEM_ALLOCATION_TYPE_PINNED && is_host(location))
        *out = POOL_HOST;
    else if (type == CU_MEM_ALLOCATION_TYPE_MANAGED &&
             (is_device || is_host(location) ||
              location->type == CU_MEM_LOCATION_TYPE_INVALID))
        *out = POOL_MANAGED;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* --- devices --- */

static CUresult get_pool(CUmemoryPool *out, CUdevice device, bool is_default)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    *out = handle_of(is_default ? sim_devices[device].pool
                                : sim_devices[device].current_pool);
    return sim_lock_leave(CUDA_SUCCESS);
}

static CUresult set_pool(CUdevice device, CUmemoryPool handle)
{
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_pool *pool = sim_pool_find_own(handle);
    if (!pool || pool->device != device || pool->kind != POOL_DEVICE)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    sim_devices[device].current_pool = pool;
    return sim_lock_leave(CUDA_SUCCESS);
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

/* --- anywhere --- */

static CUresult find_location_pool(enum sim_pool_kind kind, const CUmemLocation *location,
                                   struct location_pool **out)
{
    struct location_pool *location_pool = location_pools;
    CUresult result;

    while (location_pool && (location_pool->kind != kind ||
                             location_pool->location.type != location->type ||
                             location_pool->location.id != location->id))
        location_pool = location_pool->next;
    *out = location_pool;
    if (location_pool)
        return CUDA_SUCCESS;
    location_pool = calloc(1, sizeof *location_pool);
    if (!location_pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_pool_new_at(kind, location, &location_pool->pool);
    if (result != CUDA_SUCCESS) {
        free(location_pool);
        return result;
    }
    location_pool->pool->is_default = true;
    location_pool->current_pool = handle_of(location_pool->pool);
    location_pool->kind = kind;
    location_pool->location = *location;
    location_pool->next = location_pools;
    location_pools = location_pool;
    *out = location_pool;
    return CUDA_SUCCESS;
}

/* If the current pool was destroyed, the default one is current again. */
static CUmemoryPool current_of(struct location_pool *location_pool)
{
    if (location_pool->current_pool != handle_of(location_pool->pool) &&
        !sim_pool_find(location_pool->current_pool))
        location_pool->current_pool = handle_of(location_pool->pool);
    return location_pool->current_pool;
}

static CUresult get_pool_at(CUmemoryPool *out, const CUmemLocation *location, int type,
                            bool is_default)
{
    enum sim_pool_kind kind;
    struct location_pool *location_pool;
    CUresult result;

    if (!out || !location)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_pool_place_kind(type, location, &kind);
    if (result != CUDA_SUCCESS)
        return result;
    if (kind == POOL_DEVICE)
        return get_pool(out, location->id, is_default);
    sim_lock();
    result = find_location_pool(kind, location, &location_pool);
    if (result == CUDA_SUCCESS)
        *out = is_default ? handle_of(location_pool->pool) : current_of(location_pool);
    return sim_lock_leave(result);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location, int type)
{
    ENTER(CALL_PLAIN);
    return get_pool_at(out, location, type, true);
}

CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, int type)
{
    ENTER(CALL_PLAIN);
    return get_pool_at(out, location, type, false);
}

CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool handle)
{
    enum sim_pool_kind kind;
    struct location_pool *location_pool;
    CUresult result;

    ENTER(CALL_PLAIN);
    if (!location)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_pool_place_kind(type, location, &kind);
    if (result != CUDA_SUCCESS)
        return result;
    if (kind == POOL_DEVICE)
        return set_pool(location->id, handle);
    sim_lock();
    const struct sim_pool *pool = sim_pool_find_own(handle);
    if (!pool || pool->kind != kind)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    result = find_location_pool(kind, location, &location_pool);
    if (result == CUDA_SUCCESS)
        location_pool->current_pool = handle;
    return sim_lock_leave(result);
}
