/* array.h -- arrays: memory of a device with a shape and a format, for textures.
 *
 * On a device their layout is hidden. Here an array is rows without gaps, so that copies
 * of boxes work on it. Locked, as are all functions here.
 */
#ifndef TARN_SIM_ARRAY_H
#define TARN_SIM_ARRAY_H

#include "sim/core/context.h"

struct sim_array {
    struct sim_array *next;
    CUDA_ARRAY3D_DESCRIPTOR shape; /* as the client gave it */
    CUdeviceptr address;
    uint64_t block_id; /* of its memory, which may be freed with its context */
    size_t element_bytes;
    bool is_level; /* of a mipmapped array, which owns it */
};

/* The array of `handle`, whose memory still exists, or NULL. */
struct sim_array *sim_array_find(CUarray handle);

/* Create one in the memory of the current device; destroy it. */
CUresult sim_array_new(const CUDA_ARRAY3D_DESCRIPTOR *shape, struct sim_array **out);
void sim_array_destroy(struct sim_array *array);

/* The bytes of a row, and the numbers of rows and slices; neither is 0. */
size_t sim_array_pitch(const struct sim_array *array);
size_t sim_array_rows(const struct sim_array *array);
size_t sim_array_slices(const struct sim_array *array);

#endif
