/* launch.c -- kernel launches. Kernels do not run; the first launch of a process prints
 * that on stderr. */
#include "sim/module/launch.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/hooks.h"
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

CUresult sim_launch_refuse(const struct sim_kernel *kernel)
{
    print_once(sim_kernel_name(kernel));
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* A launch fails as the real driver's does for arguments that the real driver rejects. In
 * a capture it becomes a node, and the launch of the graph fails. */
static CUresult launch(const char *call, struct sim_kernel kernel, void **parameters,
                       void **extra, CUstream stream_handle)
{
    struct sim_stream *stream;
    CUresult result;

    sim_lock();
    result = sim_kernel_read(&kernel, parameters, extra);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    result = sim_stream_lookup(call, stream_handle, &stream);
    if (result == CUDA_SUCCESS)
        result = stream->member ? sim_hooks.capture_add_kernel(stream, &kernel)
                                : sim_launch_refuse(&kernel);
    sim_kernel_release(&kernel);
    return sim_lock_leave(result);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream,
                        void **parameters, void **extra)
{
    const struct sim_kernel kernel = {.function = function,
                                      .grid = {grid_x, grid_y, grid_z},
                                      .block = {block_x, block_y, block_z},
                                      .shared = shared};

    ENTER(CALL_CONTEXT);
    return launch(__func__, kernel, parameters, extra, stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                          void **parameters, void **extra)
{
    ENTER(CALL_CONTEXT);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_kernel kernel = {
        .function = function,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .shared = config->sharedMemBytes,
    };
    return launch(__func__, kernel, parameters, extra, config->hStream);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x,
                                   unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared,
                                   CUstream stream, void **parameters)
{
    const struct sim_kernel kernel = {.function = function,
                                      .grid = {grid_x, grid_y, grid_z},
                                      .block = {block_x, block_y, block_z},
                                      .shared = shared};

    ENTER(CALL_CONTEXT);
    return launch(__func__, kernel, parameters, NULL, stream);
}
