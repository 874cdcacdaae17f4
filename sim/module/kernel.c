/* kernel.c -- reads launches of kernels: their shape and their arguments. */
#include "sim/module/kernel.h"
#include "sim/module/image.h"
#include <stdlib.h>
#include <string.h>

static const struct sim_function *function_of(const struct sim_kernel *kernel)
{
    const void *handle =
        kernel->function ? (const void *)kernel->function : (const void *)kernel->kernel;

    return sim_image_find_function(handle);
}

const char *sim_kernel_name(const struct sim_kernel *kernel)
{
    const struct sim_function *function = function_of(kernel);

    return function ? function->name : "a kernel";
}

static bool is_shape(const unsigned grid[3], const unsigned block[3])
{
    for (int i = 0; i < 3; i++)
        if (grid[i] == 0 || block[i] == 0)
            return false;
    return grid[0] <= 2147483647 && grid[1] <= 65535 && grid[2] <= 65535 &&
           block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64 &&
           (uint64_t)block[0] * block[1] * block[2] <= 1024;
}

/* --- arguments --- */

static struct sim_arguments *new_arguments(size_t count, size_t bytes)
{
    struct sim_arguments *arguments = calloc(1, sizeof *arguments);

    if (!arguments)
        return NULL;
    arguments->references = 1;
    arguments->count = count;
    arguments->bytes = bytes;
    arguments->pointers = calloc(count + 1, sizeof *arguments->pointers);
    arguments->values = calloc(1, bytes + 1);
    if (arguments->pointers && arguments->values)
        return arguments;
    free(arguments->pointers);
    free(arguments->values);
    free(arguments);
    return NULL;
}

static void free_arguments(struct sim_arguments *arguments)
{
    free(arguments->pointers);
    free(arguments->values);
    free(arguments);
}

/* The buffer that `extra` names, and its size; false: the list is not valid. */
static bool find_buffer(void **extra, const void **buffer, size_t *bytes)
{
    enum { LIST_END = 0, BUFFER_POINTER = 1, BUFFER_SIZE = 2, LIST_MAX = 8 };

    *buffer = NULL;
    *bytes = 0;
    for (int i = 0; i < LIST_MAX; i += 2) {
        uintptr_t key = (uintptr_t)extra[i];
        if (key == LIST_END)
            return *buffer != NULL;
        if (key == BUFFER_POINTER)
            *buffer = extra[i + 1];
        else if (key == BUFFER_SIZE && extra[i + 1])
            *bytes = *(const size_t *)extra[i + 1];
        else
            return false;
    }
    return false;
}

static CUresult read_buffer(struct sim_kernel *kernel, void **extra)
{
    enum { ARGUMENT_BYTES_MAX = 32764 };
    const void *buffer;
    size_t bytes;

    if (!find_buffer(extra, &buffer, &bytes) || bytes > ARGUMENT_BYTES_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    kernel->arguments = new_arguments(0, bytes);
    if (!kernel->arguments)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(kernel->arguments->values, buffer, bytes);
    return CUDA_SUCCESS;
}

/* The number of parameters of `function` and the end of the last one. */
static size_t count_parameters(const struct sim_function *function, size_t *bytes)
{
    struct sim_parameter parameter;
    size_t count = 0;

    *bytes = 0;
    while (sim_image_parameter(function, count, &parameter) == CUDA_SUCCESS) {
        if (parameter.offset + parameter.bytes > *bytes)
            *bytes = parameter.offset + parameter.bytes;
        count++;
    }
    return count;
}

static CUresult read_parameters(struct sim_kernel *kernel,
                                const struct sim_function *function, void **parameters)
{
    struct sim_parameter parameter;
    size_t bytes, count = count_parameters(function, &bytes);
    struct sim_arguments *arguments;

    for (size_t i = 0; i < count; i++)
        if (!parameters || !parameters[i])
            return CUDA_ERROR_INVALID_VALUE;
    if (count == 0)
        return CUDA_SUCCESS;
    arguments = kernel->arguments = new_arguments(count, bytes);
    if (!arguments)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        sim_image_parameter(function, i, &parameter);
        arguments->pointers[i] = arguments->values + parameter.offset;
        memcpy(arguments->pointers[i], parameters[i], parameter.bytes);
    }
    return CUDA_SUCCESS;
}

CUresult sim_kernel_read(struct sim_kernel *kernel, void **parameters, void **extra)
{
    const struct sim_function *function = function_of(kernel);

    kernel->arguments = NULL;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!is_shape(kernel->grid, kernel->block) || (parameters && extra))
        return CUDA_ERROR_INVALID_VALUE;
    return extra ? read_buffer(kernel, extra)
                 : read_parameters(kernel, function, parameters);
}

void sim_kernel_retain(const struct sim_kernel *kernel)
{
    if (kernel->arguments)
        kernel->arguments->references++;
}

void sim_kernel_release(const struct sim_kernel *kernel)
{
    if (kernel->arguments && --kernel->arguments->references == 0)
        free_arguments(kernel->arguments);
}
