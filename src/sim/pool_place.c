/* pool_place.c -- the default and current pool of each device, and of host and managed
 * memory. */
#include "sim/api.h"
#include "sim/call.h"
#include "sim/device.h"
#include "sim/pool.h"
#include <stdlib.h>

/* The pools of a location that is not a device's own memory: created at the first
 * request. */
struct place {
    struct place *next;
    enum sim_pool_kind kind;
    CUmemLocation location;
    struct sim_pool *pool;     /* its default pool */
    CUmemoryPool current_pool; /* set by cuMemSetMemPool, or the default one */
};
static struct place *places;

static CUmemoryPool handle_of(struct sim_pool *pool)
{
    return (CUmemoryPool)(void *)pool;
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
    return sim_leave(CUDA_SUCCESS);
}

static CUresult set_pool(CUdevice device, CUmemoryPool handle)
{
    if (!sim_device_exists(device))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_pool *pool = sim_pool_find_own(handle);
    if (!pool || pool->device != device || pool->kind != POOL_DEVICE)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    sim_devices[device].current_pool = pool;
    return sim_leave(CUDA_SUCCESS);
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

static CUresult find_place(enum sim_pool_kind kind, const CUmemLocation *location,
                           struct place **out)
{
    struct place *place = places;
    CUresult result;

    while (place && (place->kind != kind || place->location.type != location->type ||
                     place->location.id != location->id))
        place = place->next;
    *out = place;
    if (place)
        return CUDA_SUCCESS;
    place = calloc(1, sizeof *place);
    if (!place)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_pool_new_elsewhere(kind, location, &place->pool);
    if (result != CUDA_SUCCESS) {
        free(place);
        return result;
    }
    place->pool->is_default = true;
    place->current_pool = handle_of(place->pool);
    place->kind = kind;
    place->location = *location;
    place->next = places;
    places = place;
    *out = place;
    return CUDA_SUCCESS;
}

/* If the current pool was destroyed, the default one is current again. */
static CUmemoryPool current_of(struct place *place)
{
    if (place->current_pool != handle_of(place->pool) &&
        !sim_pool_find(place->current_pool))
        place->current_pool = handle_of(place->pool);
    return place->current_pool;
}

static CUresult get_anywhere(CUmemoryPool *out, const CUmemLocation *location, int type,
                             bool is_default)
{
    enum sim_pool_kind kind;
    struct place *place;
    CUresult result;

    if (!out || !location)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_pool_kind_of(type, location, &kind);
    if (result != CUDA_SUCCESS)
        return result;
    if (kind == POOL_DEVICE)
        return get_pool(out, location->id, is_default);
    sim_lock();
    result = find_place(kind, location, &place);
    if (result == CUDA_SUCCESS)
        *out = is_default ? handle_of(place->pool) : current_of(place);
    return sim_leave(result);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location, int type)
{
    ENTER(CALL_PLAIN);
    return get_anywhere(out, location, type, true);
}

CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, int type)
{
    ENTER(CALL_PLAIN);
    return get_anywhere(out, location, type, false);
}

CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool handle)
{
    enum sim_pool_kind kind;
    struct place *place;
    CUresult result;

    ENTER(CALL_PLAIN);
    if (!location)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_pool_kind_of(type, location, &kind);
    if (result != CUDA_SUCCESS)
        return result;
    if (kind == POOL_DEVICE)
        return set_pool(location->id, handle);
    sim_lock();
    const struct sim_pool *pool = sim_pool_find_own(handle);
    if (!pool || pool->kind != kind)
        return sim_leave(CUDA_ERROR_INVALID_VALUE);
    result = find_place(kind, location, &place);
    if (result == CUDA_SUCCESS)
        place->current_pool = handle;
    return sim_leave(result);
}
