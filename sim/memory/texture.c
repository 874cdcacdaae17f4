/* texture.c -- texture and surface objects: what they show, for kernels to read. They can
 * be created, queried and destroyed. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/memory/mipmap.h"
#include "sim/memory/place.h"
#include <stdlib.h>

enum {
    FROM_ARRAY,
    FROM_MIPMAP,
    FROM_LINEAR,
    FROM_ROWS,
    FLAG_SURFACE = 2, /* of an array that surfaces may show */
    TEXTURE_ALIGNMENT = 512,
    PITCH_ALIGNMENT = 32,
};

struct object {
    struct object *next;
    uint64_t handle; /* never reused */
    bool is_surface, has_view;
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUDA_RESOURCE_VIEW_DESC view;
};

static struct object *objects;

static struct object *find(uint64_t handle, bool is_surface)
{
    struct object *object = objects;

    while (object && (object->handle != handle || object->is_surface != is_surface))
        object = object->next;
    return object;
}

static bool is_memory(CUdeviceptr address, size_t bytes, size_t alignment)
{
    return address != 0 && bytes > 0 && address % alignment == 0 &&
           sim_place_is_accessible(sim_place_of((uintptr_t)address, bytes));
}

static bool is_resource(const CUDA_RESOURCE_DESC *resource)
{
    switch (resource->resType) {
    case FROM_ARRAY:
        return sim_array_find(resource->res.array) != NULL;
    case FROM_MIPMAP:
        return sim_mipmap_find(resource->res.mipmap) != NULL;
    case FROM_LINEAR:
        return is_memory(resource->res.linear.devPtr, resource->res.linear.sizeInBytes,
                         TEXTURE_ALIGNMENT);
    case FROM_ROWS:
        return resource->res.pitch2D.height > 0 &&
               resource->res.pitch2D.pitchInBytes % PITCH_ALIGNMENT == 0 &&
               resource->res.pitch2D.height <=
                   SIZE_MAX / (resource->res.pitch2D.pitchInBytes + 1) &&
               is_memory(resource->res.pitch2D.devPtr,
                         (resource->res.pitch2D.height - 1) *
                                 resource->res.pitch2D.pitchInBytes +
                             resource->res.pitch2D.width,
                         TEXTURE_ALIGNMENT);
    }
    return false;
}

static struct object *add(bool is_surface, const CUDA_RESOURCE_DESC *resource)
{
    struct object *object = calloc(1, sizeof *object);

    if (!object)
        return NULL;
    object->handle = sim_lock_next_id();
    object->is_surface = is_surface;
    object->resource = *resource;
    object->next = objects;
    objects = object;
    return object;
}

static CUresult destroy(uint64_t handle, bool is_surface)
{
    struct object **link = &objects;

    sim_lock();
    struct object *object = find(handle, is_surface);
    if (!object)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    while (*link != object)
        link = &(*link)->next;
    *link = object->next;
    free(object);
    return sim_lock_leave(CUDA_SUCCESS);
}

static CUresult get_resource(CUDA_RESOURCE_DESC *out, uint64_t handle, bool is_surface)
{
    sim_lock();
    const struct object *object = find(handle, is_surface);
    if (!object || !out)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = object->resource;
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- textures --- */

CUresult cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *resource,
                           const CUDA_TEXTURE_DESC *texture,
                           const CUDA_RESOURCE_VIEW_DESC *view)
{
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!out || !resource || !texture || resource->flags != 0 ||
        (view && resource->resType >= FROM_LINEAR))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (!is_resource(resource))
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    struct object *object = add(false, resource);
    if (!object)
        return sim_lock_leave(CUDA_ERROR_OUT_OF_MEMORY);
    object->texture = *texture;
    object->has_view = view != NULL;
    if (view)
        object->view = *view;
    *out = object->handle;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuTexObjectDestroy(CUtexObject texture)
{
    ENTER(CALL_CONTEXT);
    return destroy(texture, false);
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUtexObject texture)
{
    ENTER(CALL_CONTEXT);
    return get_resource(out, texture, false);
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *out, CUtexObject texture)
{
    ENTER(CALL_CONTEXT);
    sim_lock();
    const struct object *object = find(texture, false);
    if (!object || !out)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = object->texture;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *out, CUtexObject texture)
{
    ENTER(CALL_CONTEXT);
    sim_lock();
    const struct object *object = find(texture, false);
    if (!object || !out || !object->has_view)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = object->view;
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- surfaces --- */

CUresult cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *resource)
{
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!out || !resource || resource->resType != FROM_ARRAY || resource->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_array *array = sim_array_find(resource->res.array);
    if (!array || !(array->shape.Flags & FLAG_SURFACE))
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    struct object *object = add(true, resource);
    if (object)
        *out = object->handle;
    return sim_lock_leave(object ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuSurfObjectDestroy(CUsurfObject surface)
{
    ENTER(CALL_CONTEXT);
    return destroy(surface, true);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUsurfObject surface)
{
    ENTER(CALL_CONTEXT);
    return get_resource(out, surface, true);
}
