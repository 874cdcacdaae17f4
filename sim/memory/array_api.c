/* array_api.c -- the calls about arrays and mipmapped arrays. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/memory/array.h"
#include "sim/memory/mipmap.h"

/* --- arrays --- */

static CUresult create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    struct sim_array *array;
    CUresult result;

    sim_lock();
    result = sim_array_new(shape, &array);
    if (result == CUDA_SUCCESS)
        *out = (CUarray)(void *)array;
    return sim_lock_leave(result);
}

CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *wanted)
{
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!out || !wanted)
        return CUDA_ERROR_INVALID_VALUE;
    return create(out, &(CUDA_ARRAY3D_DESCRIPTOR){.Width = wanted->Width,
                                                  .Height = wanted->Height,
                                                  .Format = wanted->Format,
                                                  .NumChannels = wanted->NumChannels});
}

CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *wanted)
{
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!out || !wanted)
        return CUDA_ERROR_INVALID_VALUE;
    return create(out, wanted);
}

static CUresult describe(CUarray handle, CUDA_ARRAY3D_DESCRIPTOR *out)
{
    sim_lock();
    const struct sim_array *array = sim_array_find(handle);
    if (array)
        *out = array->shape;
    return sim_lock_leave(array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray array)
{
    ENTER(CALL_CONTEXT);
    return out ? describe(array, out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *out, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {0};
    CUresult result;

    ENTER(CALL_CONTEXT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    result = describe(array, &shape);
    if (result == CUDA_SUCCESS)
        *out = (CUDA_ARRAY_DESCRIPTOR){shape.Width, shape.Height, shape.Format,
                                       shape.NumChannels};
    return result;
}

/* It waits for work that uses the array, as cuMemFree does. */
CUresult cuArrayDestroy(CUarray handle)
{
    ENTER(CALL_CONTEXT);
    sim_lock();
    struct sim_array *array = sim_array_find(handle);
    if (!array)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    if (array->is_level)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    sim_array_destroy(array);
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- mipmapped arrays --- */

CUresult cuMipmappedArrayCreate(CUmipmappedArray *out,
                                const CUDA_ARRAY3D_DESCRIPTOR *wanted,
                                unsigned int levels)
{
    struct sim_mipmap *mipmap;
    CUresult result;

    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!out || !wanted || levels == 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_mipmap_new(wanted, levels, &mipmap);
    if (result == CUDA_SUCCESS)
        *out = (CUmipmappedArray)(void *)mipmap;
    return sim_lock_leave(result);
}

CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray handle,
                                  unsigned int level)
{
    ENTER(CALL_CONTEXT);
    sim_lock();
    const struct sim_mipmap *mipmap = sim_mipmap_find(handle);
    if (!mipmap)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!out || level >= mipmap->count)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUarray)(void *)mipmap->levels[level];
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
    ENTER(CALL_CONTEXT);
    sim_lock();
    struct sim_mipmap *mipmap = sim_mipmap_find(handle);
    if (mipmap)
        sim_mipmap_destroy(mipmap);
    return sim_lock_leave(mipmap ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}
