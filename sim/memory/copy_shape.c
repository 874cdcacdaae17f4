/* copy_shape.c -- copies of 2D and 3D boxes, and from and to arrays. */
#include "sim/memory/copy_shape.h"
#include "base/size.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/memory/array.h"
#include "sim/memory/copy.h"
#include "sim/work/stream_lookup.h"

/* One side of a copy, in the terms of the driver's structures. */
struct side {
    CUmemorytype type;
    uintptr_t host;
    CUdeviceptr device;
    CUarray array;
    size_t x, y, z, pitch, height;
};

/* *sum += a * b; false on overflow. */
static bool add_product(size_t *sum, size_t a, size_t b)
{
    return (b == 0 || a <= SIZE_MAX / b) && tarn__size_add(*sum, a * b, sum);
}

/* The same for an array: its rows and slices have no gaps. */
static CUresult place_in_array(const struct side *side, const struct sim_box *box,
                               uintptr_t *start, size_t *slice, enum sim_place *out)
{
    const struct sim_array *array = sim_array_find(side->array);
    size_t pitch, rows;

    if (!array)
        return CUDA_ERROR_INVALID_VALUE;
    pitch = sim_array_pitch(array);
    rows = sim_array_rows(array);
    if (box->width > pitch || side->x > pitch - box->width || box->height > rows ||
        side->y > rows - box->height || box->depth > sim_array_slices(array) ||
        side->z > sim_array_slices(array) - box->depth ||
        side->x % array->element_bytes != 0 || box->width % array->element_bytes != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *slice = pitch * rows;
    *start = (uintptr_t)array->address + side->z * *slice + side->y * pitch + side->x;
    *out = PLACE_DEVICE;
    return CUDA_SUCCESS;
}

/* The distance of the side's rows. */
static size_t pitch_of(const struct side *side, const struct sim_box *box)
{
    const struct sim_array *array =
        side->type == CU_MEMORYTYPE_ARRAY ? sim_array_find(side->array) : NULL;

    if (array)
        return sim_array_pitch(array);
    return side->pitch ? side->pitch : box->width;
}

/* Find the start of the side's box, the distance of its slices, and its kind of memory.
 */
static CUresult place(const struct sim_stream *stream, const struct side *side,
                      const struct sim_box *box, uintptr_t *start, size_t *slice,
                      enum sim_place *out)
{
    size_t offset = side->x, extent = box->width;
    size_t pitch = side->pitch ? side->pitch : box->width;
    size_t rows = side->height ? side->height : box->height;

    if (side->type == CU_MEMORYTYPE_ARRAY)
        return place_in_array(side, box, start, slice, out);
    if (side->type < CU_MEMORYTYPE_HOST || side->type > CU_MEMORYTYPE_UNIFIED ||
        side->x > SIZE_MAX - box->width || pitch < side->x + box->width ||
        (box->depth > 1 && rows < side->y + box->height))
        return CUDA_ERROR_INVALID_VALUE;
    *slice = 0;
    if (!add_product(slice, pitch, rows) || !add_product(&offset, side->y, pitch) ||
        !add_product(&offset, side->z, *slice) ||
        !add_product(&extent, box->height - 1, pitch) ||
        !add_product(&extent, box->depth - 1, *slice))
        return CUDA_ERROR_INVALID_VALUE;
    *start = side->type == CU_MEMORYTYPE_HOST ? side->host : (uintptr_t)side->device;
    if (*start == 0 || !tarn__size_add(*start, offset, start))
        return CUDA_ERROR_INVALID_VALUE;
    *out = sim_place_for(stream, *start, extent);
    return *out == PLACE_BAD ||
                   (side->type == CU_MEMORYTYPE_DEVICE && *out == PLACE_PAGEABLE)
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

/* Fill in the rest of `box`, whose extents are set and not 0, and the kinds of memory.
 */
static CUresult make_box(const struct sim_stream *stream, const struct side *to,
                         const struct side *from, struct sim_box *out,
                         enum sim_place *to_place, enum sim_place *from_place)
{
    struct sim_box box = *out;
    uintptr_t to_start, from_start;
    CUresult result;

    box.to_pitch = pitch_of(to, &box);
    box.from_pitch = pitch_of(from, &box);
    result = place(stream, to, &box, &to_start, &box.to_slice, to_place);
    if (result == CUDA_SUCCESS)
        result = place(stream, from, &box, &from_start, &box.from_slice, from_place);
    if (result != CUDA_SUCCESS)
        return result;
    box.to = (char *)to_start;
    box.from = (const char *)from_start;
    *out = box;
    return CUDA_SUCCESS;
}

static CUresult copy_box(struct sim_stream *stream, const struct side *to,
                         const struct side *from, struct sim_box box,
                         enum sim_copy_mode mode)
{
    enum sim_place to_place, from_place;
    CUresult result;

    if (box.width == 0 || box.height == 0 || box.depth == 0)
        return CUDA_SUCCESS;
    result = make_box(stream, to, from, &box, &to_place, &from_place);
    return result == CUDA_SUCCESS ? sim_copy(stream, &box, to_place, from_place, mode)
                                  : result;
}

static CUresult copy_2d(struct sim_stream *stream, const CUDA_MEMCPY2D *copy,
                        enum sim_copy_mode mode)
{
    struct sim_box box = {
        .width = copy->WidthInBytes, .height = copy->Height, .depth = 1};
    struct side to = {
        .type = copy->dstMemoryType,
        .host = (uintptr_t)copy->dstHost,
        .device = copy->dstDevice,
        .array = copy->dstArray,
        .x = copy->dstXInBytes,
        .y = copy->dstY,
        .pitch = copy->dstPitch,
    };
    struct side from = {
        .type = copy->srcMemoryType,
        .host = (uintptr_t)copy->srcHost,
        .device = copy->srcDevice,
        .array = copy->srcArray,
        .x = copy->srcXInBytes,
        .y = copy->srcY,
        .pitch = copy->srcPitch,
    };
    return copy_box(stream, &to, &from, box, mode);
}

static struct side to_of(const CUDA_MEMCPY3D_PEER *copy)
{
    return (struct side){
        .type = copy->dstMemoryType,
        .host = (uintptr_t)copy->dstHost,
        .device = copy->dstDevice,
        .array = copy->dstArray,
        .x = copy->dstXInBytes,
        .y = copy->dstY,
        .z = copy->dstZ,
        .pitch = copy->dstPitch,
        .height = copy->dstHeight,
    };
}

static struct side from_of(const CUDA_MEMCPY3D_PEER *copy)
{
    return (struct side){
        .type = copy->srcMemoryType,
        .host = (uintptr_t)copy->srcHost,
        .device = copy->srcDevice,
        .array = copy->srcArray,
        .x = copy->srcXInBytes,
        .y = copy->srcY,
        .z = copy->srcZ,
        .pitch = copy->srcPitch,
        .height = copy->srcHeight,
    };
}

static struct sim_box extents_of(const CUDA_MEMCPY3D_PEER *copy)
{
    return (struct sim_box){
        .width = copy->WidthInBytes,
        .height = copy->Height,
        .depth = copy->Depth,
    };
}

CUresult sim_copy_shape_read(const CUDA_MEMCPY3D *copy, struct sim_box *out)
{
    struct side to = to_of(copy), from = from_of(copy);
    enum sim_place to_place, from_place;

    *out = extents_of(copy);
    if (copy->srcLOD != 0 || copy->dstLOD != 0 || out->width == 0 || out->height == 0 ||
        out->depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
    return make_box(NULL, &to, &from, out, &to_place, &from_place);
}

static CUresult copy_3d(struct sim_stream *stream, const CUDA_MEMCPY3D_PEER *copy,
                        enum sim_copy_mode mode)
{
    struct side to = to_of(copy), from = from_of(copy);

    if (copy->srcLOD != 0 || copy->dstLOD != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return copy_box(stream, &to, &from, extents_of(copy), mode);
}

static CUresult copy_2d_sync(const CUDA_MEMCPY2D *copy)
{
    struct sim_stream *stream;

    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_lookup_default(&stream);
    return sim_lock_leave(result == CUDA_SUCCESS ? copy_2d(stream, copy, COPY_SYNC)
                                                 : result);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
    ENTER(CALL_CONTEXT);
    return copy_2d_sync(copy);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
    ENTER(CALL_CONTEXT);
    return copy_2d_sync(copy);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    ENTER(CALL_CONTEXT);
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_stream_lookup(__func__, handle, &stream);
    return sim_lock_leave(result == CUDA_SUCCESS ? copy_2d(stream, copy, COPY_ASYNC)
                                                 : result);
}

static CUresult copy_3d_sync(const CUDA_MEMCPY3D_PEER *copy)
{
    struct sim_stream *stream;

    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult result = sim_stream_lookup_default(&stream);
    return sim_lock_leave(result == CUDA_SUCCESS ? copy_3d(stream, copy, COPY_SYNC)
                                                 : result);
}

static CUresult copy_3d_async(const char *call, const CUDA_MEMCPY3D_PEER *copy,
                              CUstream handle)
{
    struct sim_stream *stream;
    CUresult result;

    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_stream_lookup(call, handle, &stream);
    return sim_lock_leave(result == CUDA_SUCCESS ? copy_3d(stream, copy, COPY_ASYNC)
                                                 : result);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
    ENTER(CALL_CONTEXT);
    return copy_3d_sync(copy);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy)
{
    ENTER(CALL_CONTEXT);
    return copy_3d_sync(copy);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    ENTER(CALL_CONTEXT);
    return copy_3d_async(__func__, copy, stream);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
    ENTER(CALL_CONTEXT);
    return copy_3d_async(__func__, copy, stream);
}

/* --- copies of a row of an array. The bytes begin at an offset in its first row. */

static struct side in_array(CUarray array, size_t offset)
{
    return (struct side){.type = CU_MEMORYTYPE_ARRAY, .array = array, .x = offset};
}

static struct side in_host(const void *host)
{
    return (struct side){.type = CU_MEMORYTYPE_HOST, .host = (uintptr_t)host};
}

static struct side in_device(CUdeviceptr device)
{
    return (struct side){.type = CU_MEMORYTYPE_DEVICE, .device = device};
}

static CUresult copy_row(struct side to, struct side from, size_t bytes)
{
    const struct sim_box box = {.width = bytes, .height = 1, .depth = 1};
    struct sim_stream *stream;

    sim_lock();
    CUresult result = sim_stream_lookup_default(&stream);
    return sim_lock_leave(
        result == CUDA_SUCCESS ? copy_box(stream, &to, &from, box, COPY_SYNC) : result);
}

static CUresult copy_row_async(const char *call, struct side to, struct side from,
                               size_t bytes, CUstream handle)
{
    const struct sim_box box = {.width = bytes, .height = 1, .depth = 1};
    struct sim_stream *stream;
    CUresult result;

    sim_lock();
    result = sim_stream_lookup(call, handle, &stream);
    return sim_lock_leave(
        result == CUDA_SUCCESS ? copy_box(stream, &to, &from, box, COPY_ASYNC) : result);
}

CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t bytes)
{
    ENTER(CALL_CONTEXT);
    return copy_row(in_host(to), in_array(from, offset), bytes);
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t bytes)
{
    ENTER(CALL_CONTEXT);
    return copy_row(in_array(to, offset), in_host(from), bytes);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes)
{
    ENTER(CALL_CONTEXT);
    return copy_row(in_device(to), in_array(from, offset), bytes);
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes)
{
    ENTER(CALL_CONTEXT);
    return copy_row(in_array(to, offset), in_device(from), bytes);
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                         size_t bytes)
{
    ENTER(CALL_CONTEXT);
    return copy_row(in_array(to, to_offset), in_array(from, from_offset), bytes);
}

CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t bytes,
                              CUstream stream)
{
    ENTER(CALL_CONTEXT);
    return copy_row_async(__func__, in_host(to), in_array(from, offset), bytes, stream);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t bytes,
                              CUstream stream)
{
    ENTER(CALL_CONTEXT);
    return copy_row_async(__func__, in_array(to, offset), in_host(from), bytes, stream);
}
