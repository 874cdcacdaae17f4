/* mipmap.c -- mipmapped arrays. */
#include "sim/memory/mipmap.h"
#include <stdlib.h>

enum { FLAG_LAYERED = 1 };

static struct sim_mipmap *mipmaps;

/* Halve an extent; one that is not there stays 0. */
static size_t half(size_t extent)
{
    return extent > 1 ? extent / 2 : extent;
}

static CUDA_ARRAY3D_DESCRIPTOR next_level(CUDA_ARRAY3D_DESCRIPTOR shape)
{
    shape.Width = half(shape.Width);
    shape.Height = half(shape.Height);
    if (!(shape.Flags & FLAG_LAYERED))
        shape.Depth = half(shape.Depth);
    return shape;
}

/* The number of levels until all extents are 1. */
static unsigned count_levels(CUDA_ARRAY3D_DESCRIPTOR shape)
{
    unsigned count = 1;

    for (; shape.Width > 1 || shape.Height > 1 ||
           (shape.Depth > 1 && !(shape.Flags & FLAG_LAYERED));
         shape = next_level(shape))
        count++;
    return count;
}

static void free_levels(struct sim_mipmap *mipmap)
{
    for (unsigned i = 0; i < mipmap->count; i++)
        sim_array_destroy(mipmap->levels[i]);
    free(mipmap);
}

CUresult sim_mipmap_new(const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned levels,
                        struct sim_mipmap **out)
{
    struct sim_mipmap *mipmap = calloc(1, sizeof *mipmap);
    CUDA_ARRAY3D_DESCRIPTOR shape = *wanted;
    CUresult result = CUDA_SUCCESS;
    unsigned most = count_levels(shape);

    if (!mipmap)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (most > SIM_MIPMAP_LEVELS_MAX)
        result = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < most && i < levels && result == CUDA_SUCCESS; i++) {
        result = sim_array_new(&shape, &mipmap->levels[i]);
        if (result == CUDA_SUCCESS)
            mipmap->levels[mipmap->count++]->is_level = true;
        shape = next_level(shape);
    }
    if (result != CUDA_SUCCESS) {
        free_levels(mipmap);
        return result;
    }
    mipmap->next = mipmaps;
    mipmaps = mipmap;
    *out = mipmap;
    return CUDA_SUCCESS;
}

struct sim_mipmap *sim_mipmap_find(CUmipmappedArray handle)
{
    struct sim_mipmap *mipmap = mipmaps;

    while (mipmap && (void *)mipmap != (void *)handle)
        mipmap = mipmap->next;
    return mipmap;
}

void sim_mipmap_destroy(struct sim_mipmap *mipmap)
{
    struct sim_mipmap **link = &mipmaps;

    while (*link != mipmap)
        link = &(*link)->next;
    *link = mipmap->next;
    free_levels(mipmap);
}
