/* copy_shape.h -- copies of two and three dimensions. */
#ifndef TARN_SIM_COPY_SHAPE_H
#define TARN_SIM_COPY_SHAPE_H

#include "sim/memory/copy.h"

/* Read the box of a copy node from its parameters. Arrays are not supported. */
CUresult sim_copy_shape_read(const CUDA_MEMCPY3D *copy, struct sim_box *out);

#endif
