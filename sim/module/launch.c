/* launch.c -- kernel launches. Kernels do not run; the first launch of a process prints
 * that on stderr. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/module/image.h"
#include "sim/work/stream_lookup.h"
#include <stdatomic.h>
#include <stdio.h>

static void print_once(const char *kernel)
{
    static atomic_flag is_printed = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&is_printed))
        fprintf(stderr,
                "tarn simulator: kernels cannot run: launching %.60s fails with "
                "CUDA_ERROR_NOT_SUPPORTED, as every launch will\n",
                kernel);
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

/* A launch fails as the real driver's does for arguments that the real driver rejects.
 */
static CUresult launch(const char *call, CUfunction handle, const unsigned grid[3],
                       const unsigned block[3], CUstream stream_handle)
{
    struct sim_stream *stream;
    CUresult result;

    sim_lock();
    const struct sim_function *function = sim_image_find_function(handle);
    if (!function)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!is_shape(grid, block))
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    result = sim_stream_lookup(call, stream_handle, &stream);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    print_once(function->name);
    return sim_lock_leave(CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream,
                        void **parameters, void **extra)
{
    const unsigned grid[3] = {grid_x, grid_y, grid_z},
                   block[3] = {block_x, block_y, block_z};

    ENTER(CALL_CONTEXT);
    (void)shared, (void)parameters, (void)extra;
    return launch(__func__, function, grid, block, stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                          void **parameters, void **extra)
{
    ENTER(CALL_CONTEXT);
    (void)parameters, (void)extra;
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    return launch(__func__, function, grid, block, config->hStream);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x,
                                   unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared,
                                   CUstream stream, void **parameters)
{
    const unsigned grid[3] = {grid_x, grid_y, grid_z},
                   block[3] = {block_x, block_y, block_z};

    ENTER(CALL_CONTEXT);
    (void)shared, (void)parameters;
    return launch(__func__, function, grid, block, stream);
}
