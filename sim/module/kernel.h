/* kernel.h -- a launch of a kernel: which one, its shape, and a copy of its arguments. A
 * node of a graph keeps one. */
#ifndef TARN_SIM_KERNEL_H
#define TARN_SIM_KERNEL_H

#include "sim/core/cuda.h"
#include <stdbool.h>

/* The values of the arguments, in the layout of the kernel. */
struct sim_arguments {
    unsigned references;
    size_t count; /* of pointers; 0 if they came as one buffer */
    size_t bytes;
    void **pointers; /* to each value */
    unsigned char *values;
};

struct sim_kernel {
    CUfunction function; /* as the client passed them: one of them is NULL */
    CUkernel kernel;
    unsigned grid[3], block[3], shared;
    struct sim_arguments *arguments; /* counted; NULL: none, or their layout is unknown */
};

/* Check the kernel, the shape and the arguments of a launch, and copy the arguments. On
 * success the caller owns a reference. Locked, as are all functions here. */
CUresult sim_kernel_read(struct sim_kernel *kernel, void **parameters, void **extra);

/* The name of the kernel, if its image is still loaded, or "a kernel". */
const char *sim_kernel_name(const struct sim_kernel *kernel);

void sim_kernel_retain(const struct sim_kernel *kernel);
void sim_kernel_release(const struct sim_kernel *kernel);

#endif
