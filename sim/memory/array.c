/* array.c -- arrays and their memory. */
#include "sim/memory/array.h"
#include "sim/memory/block.h"
#include "sim/memory/memory.h"
#include <stdlib.h>
#include <string.h>

/* Formats of one number a channel, and flags. */
enum {
    FORMAT_UINT8 = 1,
    FORMAT_UINT16,
    FORMAT_UINT32,
    FORMAT_INT8 = 8,
    FORMAT_INT16,
    FORMAT_INT32,
    FORMAT_HALF = 0x10,
    FORMAT_FLOAT = 0x20,
    FLAG_LAYERED = 1,
    FLAG_CUBE = 4,
    FLAG_GATHER = 8,
    FLAGS_KNOWN = 0xff,
    FLAGS_REFUSED = 0xc0, /* sparse arrays, and those that are mapped later */
    CUBE_FACES = 6,
};

/* The limits of an H200. */
enum { WIDTH_MAX = 131072, HEIGHT_MAX = 65536, SIDE_3D_MAX = 16384, LAYERS_MAX = 2048 };

static struct sim_array *arrays;

static size_t channel_bytes(int format)
{
    switch (format) {
    case FORMAT_UINT8:
    case FORMAT_INT8:
        return 1;
    case FORMAT_UINT16:
    case FORMAT_INT16:
    case FORMAT_HALF:
        return 2;
    case FORMAT_UINT32:
    case FORMAT_INT32:
    case FORMAT_FLOAT:
        return 4;
    }
    return 0;
}

static bool is_extent(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    bool is_layered = shape->Flags & FLAG_LAYERED;

    if (shape->Width == 0 || shape->Width > WIDTH_MAX || shape->Height > HEIGHT_MAX)
        return false;
    if (shape->Flags & FLAG_CUBE)
        return shape->Width == shape->Height && shape->Depth > 0 &&
               shape->Depth <= LAYERS_MAX &&
               (is_layered ? shape->Depth % CUBE_FACES == 0 : shape->Depth == CUBE_FACES);
    if (is_layered)
        return shape->Depth > 0 && shape->Depth <= LAYERS_MAX;
    if (shape->Depth == 0)
        return true;
    return shape->Height > 0 && !(shape->Flags & FLAG_GATHER) &&
           shape->Width <= SIDE_3D_MAX && shape->Height <= SIDE_3D_MAX &&
           shape->Depth <= SIDE_3D_MAX;
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    if ((shape->NumChannels != 1 && shape->NumChannels != 2 && shape->NumChannels != 4) ||
        channel_bytes(shape->Format) == 0 || (shape->Flags & ~(unsigned)FLAGS_KNOWN) ||
        !is_extent(shape))
        return CUDA_ERROR_INVALID_VALUE;
    return shape->Flags & FLAGS_REFUSED ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

size_t sim_array_pitch(const struct sim_array *array)
{
    return array->shape.Width * array->element_bytes;
}

size_t sim_array_rows(const struct sim_array *array)
{
    return array->shape.Height ? array->shape.Height : 1;
}

size_t sim_array_slices(const struct sim_array *array)
{
    return array->shape.Depth ? array->shape.Depth : 1;
}

CUresult sim_array_new(const CUDA_ARRAY3D_DESCRIPTOR *shape, struct sim_array **out)
{
    struct sim_array *array;
    CUresult result = check(shape);

    if (result != CUDA_SUCCESS)
        return result;
    array = calloc(1, sizeof *array);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    array->shape = *shape;
    array->element_bytes = channel_bytes(shape->Format) * shape->NumChannels;
    result = sim_memory_allocate(&array->address, sim_array_pitch(array) *
                                                      sim_array_rows(array) *
                                                      sim_array_slices(array));
    if (result != CUDA_SUCCESS) {
        free(array);
        return result;
    }
    array->block_id = sim_block_find((uintptr_t)array->address)->id;
    array->next = arrays;
    arrays = array;
    *out = array;
    return CUDA_SUCCESS;
}

struct sim_array *sim_array_find(CUarray handle)
{
    struct sim_array *array = arrays;
    const struct sim_block *block;

    while (array && (void *)array != (void *)handle)
        array = array->next;
    block = array ? sim_block_find((uintptr_t)array->address) : NULL;
    return block && block->id == array->block_id ? array : NULL;
}

void sim_array_destroy(struct sim_array *array)
{
    struct sim_array **link = &arrays;

    while (*link != array)
        link = &(*link)->next;
    *link = array->next;
    sim_memory_release(array->address, array->block_id);
    free(array);
}
