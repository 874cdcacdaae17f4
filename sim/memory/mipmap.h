/* mipmap.h -- mipmapped arrays: an array for each level, half as large as the one before.
 * Locked, as are all functions here. */
#ifndef TARN_SIM_MIPMAP_H
#define TARN_SIM_MIPMAP_H

#include "sim/memory/array.h"

enum { SIM_MIPMAP_LEVELS_MAX = 18 }; /* of the largest array */

struct sim_mipmap {
    struct sim_mipmap *next;
    unsigned count;
    struct sim_array *levels[SIM_MIPMAP_LEVELS_MAX];
};

/* Create one with at most `levels` levels; find the one of a handle; destroy one. */
CUresult sim_mipmap_new(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels,
                        struct sim_mipmap **out);
struct sim_mipmap *sim_mipmap_find(CUmipmappedArray handle);
void sim_mipmap_destroy(struct sim_mipmap *mipmap);

#endif
