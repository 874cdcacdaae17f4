/* image.h -- code that a client loaded: stored unchanged, and parsed as far as clients
 * query it.
 *
 * None of it ever runs. The symbols of a cubin name its kernels and variables, and its
 * sections describe what a kernel needs. Of PTX and fat binaries less is known, so every
 * name is assumed to exist.
 */
#ifndef TARN_SIM_IMAGE_H
#define TARN_SIM_IMAGE_H

#include "sim/core/cuda.h"
#include "sim/module/elf.h"
#include <stdbool.h>

enum { SIM_FUNCTION_ATTRIBUTES = 16 };

/* A kernel; CUfunction and CUkernel both point to one. */
struct sim_function {
    struct sim_function *next; /* in its image */
    struct sim_image *image;
    char *name;
    int attributes[SIM_FUNCTION_ATTRIBUTES]; /* by CUfunction_attribute */
    int cache_config;
};

/* A device variable that the client looked up. */
struct sim_variable {
    struct sim_variable *next;
    char *name;
    CUdeviceptr address;
    uint64_t block_id; /* of its memory, which may be freed with its context */
    size_t bytes;
};

/* CUmodule and CUlibrary both point to one. */
struct sim_image {
    struct sim_image *next; /* in the list of loaded images */
    bool is_library;
    bool is_open; /* not a cubin: its names are unknown */
    unsigned char *bytes;
    size_t byte_count;
    struct sim_function *functions; /* all of a cubin; of other images, those looked up */
    struct sim_variable *variables;
};

/* Read the image at `data`. CUDA_ERROR_INVALID_IMAGE if it is none. Locked, as are all
 * functions here. */
CUresult sim_image_load(const void *data, bool is_library, struct sim_image **out);
CUresult sim_image_load_file(const char *path, bool is_library, struct sim_image **out);
void sim_image_unload(struct sim_image *image);

/* The loaded image of `handle`, or NULL. */
struct sim_image *sim_image_find(const void *handle, bool is_library);

/* Find the kernel of that name. CUDA_ERROR_NOT_FOUND if the image is known not to have
 * it. */
CUresult sim_image_function(struct sim_image *image, const char *name,
                            struct sim_function **out);

/* Find the address of the variable of that name in the memory of the current device. */
CUresult sim_image_variable(struct sim_image *image, const char *name,
                            CUdeviceptr *address, size_t *bytes);

/* Find the place of a parameter of a kernel. CUDA_ERROR_INVALID_VALUE: it has no such one;
 * CUDA_ERROR_NOT_SUPPORTED: the image is not a cubin, so that they are unknown. */
CUresult sim_image_parameter(const struct sim_function *function, size_t number,
                             struct sim_parameter *out);

/* The kernel of `handle`, a CUfunction or a CUkernel, or NULL. */
struct sim_function *sim_image_find_function(const void *handle);

#endif
